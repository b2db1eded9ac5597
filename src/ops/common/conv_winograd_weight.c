/* The gradient of the weights by conv_winograd.h: F(3, 2), three taps from two gradients side by side with four products
 * instead of six.
 *
 *   d (4 pixels)      v as forward has it
 *   g (2 gradients)   u = (g0, (g0 + g1) / 2, (g0 - g1) / 2, g1)
 *   m = sum over tiles of v u, point by point      dw = (m0 + m1 + m2, m1 - m2, m1 + m2 - m3)
 *
 * A task computes some channels for some outputs over a part of all tiles, band after band.  Pixels become panels of A at once,
 * line by line, those of all images side by side: what a row of taps reads is the same panels from its first line on.  Parts are
 * cut by the shape alone and added in order. */
#include <string.h>

#include "ops/common/blocks.h"
#include "ops/common/conv_bands.h"
#include "ops/common/conv_winograd.h"
#include "ops/common/gemm.h"

enum {
    POINTS = 4,
    TAPS = 3,
    BLOCK = 64,    /* channels of a task */
    COLUMNS = 128, /* outputs of a task, at most */
    PANEL = 32,    /* and what they are a multiple of, if they are not all */
    TILES = 128,   /* of a band, at most */
    TASKS = 16     /* that there should be, if parts can make them so many */
};

static const float zeros[COLUMNS];

typedef struct plan {
    const hri_conv *v;
    hri_bands bands;
    int64_t blocks;                /* of channels */
    int64_t columns, column_parts; /* outputs of a task, tasks for all of them */
    int64_t count, parts, part;    /* bands; parts of them, and bands of one */
} plan;

static plan plan_of(const hri_conv *v) {
    plan p = {.v = v, .blocks = hri_bands_over(v->c, BLOCK)};
    p.bands = hri_bands_of(v->n, v->oh, v->ow, TILES);
    p.columns = hri_bands_cut(v->o, COLUMNS, &p.column_parts);
    p.columns = p.column_parts > 1 ? hri_bands_up(p.columns, PANEL) : p.columns;
    p.column_parts = hri_bands_over(v->o, p.columns);
    p.count = hri_bands_count(&p.bands);
    const int64_t enough = hri_bands_over(TASKS, p.blocks * p.column_parts);
    p.part = hri_bands_cut(p.count, hri_bands_over(p.count, enough), &p.parts);
    return p;
}

/* ---- scratch of a worker ---- */

typedef struct scratch {
    float *v; /* (POINTS): panels of A, lines + 2 deep, each line (images, across) */
    float *u; /* (POINTS): panels of B, (lines, images, across) deep */
    float *m; /* (POINTS, TAPS, block, columns) */
    int64_t v_panel, v_point, u_point, m_point, m_line;
} scratch;

enum { LINE = 16 }; /* of a cache, in numbers */

static int64_t over_lines(int64_t floats) {
    return hri_bands_over(floats, LINE);
}

static int64_t scratch_init(scratch *s, const plan *p, float *at) {
    const int64_t tiles = hri_bands_tiles(&p->bands);
    s->m_line = hri_bands_up(p->columns, HRI_GEMM_UNIT);
    /* Odd numbers of lines of a cache: powers of two would push one another out of it. */
    const int64_t depth = tiles + (TAPS - 1) * p->bands.images * p->bands.across;
    s->v_panel = (over_lines(depth * HRI_GEMM_MR) | 1) * LINE;
    s->v_point = BLOCK / HRI_GEMM_MR * s->v_panel + LINE;
    s->u_point = hri_bands_up(tiles * s->m_line, 16);
    s->m_point = hri_bands_up(TAPS * BLOCK * s->m_line, 16);
    s->v = (float *)(((uintptr_t)at + 63) & ~(uintptr_t)63);
    s->u = s->v + POINTS * s->v_point;
    s->m = s->u + POINTS * s->u_point;
    return POINTS * (s->v_point + s->u_point + s->m_point) + 48;
}

int hri_winograd_takes_weight(const hri_conv *v, const hri_sig *s) {
    return hri_winograd_takes(v, s) && v->c % HRI_GEMM_MR == 0; /* whole panels */
}

static int64_t weights_of(const hri_conv *v) {
    return TAPS * TAPS * v->c * v->o;
}

uint64_t hri_winograd_weight_workspace(const hri_conv *v, uint32_t threads) {
    static float nowhere[1];
    const plan p = plan_of(v);
    scratch s;
    const int64_t floats = scratch_init(&s, &p, nowhere) * threads;
    return (uint64_t)(floats + (p.parts > 1 ? p.parts * weights_of(v) : 0)) * sizeof(float);
}

/* ---- a band of tiles ---- */

typedef struct job {
    const plan *p;
    const float *x, *dy;
    float *dw;
    float *workspace, *partial; /* (parts, TAPS, TAPS, C, O) */
} job;

typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
_Static_assert(sizeof(v8) == HRI_GEMM_MR * sizeof(float),
               "a vector is what a panel has of a depth");

/* Eight channels of four pixels, for all points. */
static inline void transform_eight(const float *const d[4], float *to, int64_t point) {
    const v8 a = *(const v8 *)d[0], b = *(const v8 *)d[1], c = *(const v8 *)d[2];
    *(v8 *)to = a - c;
    *(v8 *)(to + point) = b + c;
    *(v8 *)(to + 2 * point) = c - b;
    *(v8 *)(to + 3 * point) = b - *(const v8 *)d[3];
}

/* One line of one image, `r` of the band, to where it belongs in all panels. */
static void transform_line(const job *j, const hri_band *b, int64_t n, int64_t r, int64_t c0,
                           int64_t block, const scratch *s) {
    const hri_conv *v = j->p->v;
    const int64_t y = b->y + r - v->ph, inside = y >= 0 && y < v->h;
    const float *line = j->x + ((b->n + n) * v->h + y) * v->w * v->c + c0;
    float *to = s->v + (r * b->images + n) * b->across * HRI_GEMM_MR;
    for (int64_t t = 0; t < b->across; t++, to += HRI_GEMM_MR) {
        const float *d[4];
        for (int64_t i = 0; i < 4; i++) {
            const int64_t x = 2 * (b->x + t) - v->pw + i;
            d[i] = !inside || x < 0 || x >= v->w ? zeros : line + x * v->c;
        }
        for (int64_t k = 0; k < block; k += HRI_GEMM_MR) {
            transform_eight(d, to + k / HRI_GEMM_MR * s->v_panel, s->v_point);
            for (int64_t i = 0; i < 4; i++) {
                d[i] += HRI_GEMM_MR;
            }
        }
    }
}

static void transform_image(const job *j, const hri_band *b, int64_t c0, int64_t block,
                            const scratch *s) {
    for (int64_t r = 0; r < b->lines + TAPS - 1; r++) {
        for (int64_t n = 0; n < b->images; n++) {
            transform_line(j, b, n, r, c0, block, s);
        }
    }
}

static inline void transform_pair(const float *g0, const float *g1, int64_t count, int64_t width,
                                  float *to, int64_t point) {
    float *u0 = to, *u1 = to + point, *u2 = to + 2 * point, *u3 = to + 3 * point;
    HRI_IVDEP for (int64_t q = 0; q < count; q++) {
        const float a = g0[q], b = g1[q];
        u0[q] = a;
        u1[q] = (a + b) * 0.5f;
        u2[q] = (a - b) * 0.5f;
        u3[q] = b;
    }
    for (int64_t q = count; q < width; q++) {
        u0[q] = u1[q] = u2[q] = u3[q] = 0.0f;
    }
}

/* All panels of B of one tile, which is number `tile` of `tiles`. */
static void transform_gradient(const float *g0, const float *g1, int64_t tile, int64_t tiles,
                               int64_t columns, const scratch *s) {
    int64_t i = 0;
    for (; i + HRI_GEMM_NR <= columns; i += HRI_GEMM_NR) {
        transform_pair(g0 + i, g1 + i, HRI_GEMM_NR, HRI_GEMM_NR,
                       s->u + i * tiles + tile * HRI_GEMM_NR, s->u_point);
    }
    if (i < columns) {
        const int64_t width = hri_gemm_width(columns - i);
        transform_pair(g0 + i, g1 + i, columns - i, width, s->u + i * tiles + tile * width,
                       s->u_point);
    }
}

static void transform_gradients(const job *j, const hri_band *b, int64_t first, int64_t columns,
                                const scratch *s) {
    const hri_conv *v = j->p->v;
    const int64_t tiles = hri_band_tiles(b);
    int64_t tile = 0;
    for (int64_t y = b->y; y < b->y + b->lines; y++) {
        for (int64_t n = b->n; n < b->n + b->images; n++) {
            const float *g = j->dy + ((n * v->oh + y) * v->ow + 2 * b->x) * v->o + first;
            for (int64_t t = 0; t < b->across; t++, g += 2 * v->o) {
                const int two = 2 * (b->x + t) + 1 < v->ow;
                transform_gradient(g, two ? g + v->o : zeros, tile++, tiles, columns, s);
            }
        }
    }
}

/* ---- the result ---- */

static void finish_row(const float *m, int64_t point, int64_t count, float *to, int64_t tap) {
    const float *m0 = m, *m1 = m + point, *m2 = m + 2 * point, *m3 = m + 3 * point;
    HRI_IVDEP for (int64_t q = 0; q < count; q++) {
        const float sum = m1[q] + m2[q];
        to[q] = m0[q] + sum;
        to[tap + q] = m1[q] - m2[q];
        to[2 * tap + q] = sum - m3[q];
    }
}

static void run_task(void *arg, uint32_t number, uint32_t worker) {
    const job *j = arg;
    const plan *p = j->p;
    const hri_conv *v = p->v;
    const int64_t first = number % p->column_parts * p->columns;
    const int64_t c0 = number / p->column_parts % p->blocks * BLOCK;
    const int64_t part = number / p->column_parts / p->blocks;
    const int64_t columns = hri_bands_least(p->columns, v->o - first),
                  block = hri_bands_least(BLOCK, v->c - c0);
    scratch s;
    const int64_t floats = scratch_init(&s, p, j->workspace);
    scratch_init(&s, p, j->workspace + worker * floats);
    for (int64_t i = part * p->part; i < hri_bands_least(p->count, (part + 1) * p->part); i++) {
        const hri_band b = hri_bands_at(&p->bands, i);
        transform_image(j, &b, c0, block, &s);
        transform_gradients(j, &b, first, columns, &s);
        for (int64_t k = 0; k < POINTS * TAPS; k++) {
            const int64_t point = k / TAPS, tap = k % TAPS;
            hri_gemm_tile(block, columns, hri_band_tiles(&b),
                          s.v + point * s.v_point + tap * b.images * b.across * HRI_GEMM_MR,
                          s.v_panel, s.u + point * s.u_point,
                          s.m + point * s.m_point + tap * block * s.m_line, s.m_line,
                          i == part * p->part);
        }
    }
    float *to = p->parts > 1 ? j->partial + part * weights_of(v) : j->dw;
    for (int64_t i = 0; i < TAPS * block; i++) {
        finish_row(s.m + i * s.m_line, s.m_point, columns,
                   to + (i / block * TAPS * v->c + c0 + i % block) * v->o + first, v->c * v->o);
    }
}

/* Range of weights: adds the parts in order. */
static void add_parts(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const job *j = arg;
    const int64_t all = weights_of(j->p->v);
    (void)worker;
    memcpy(j->dw + begin, j->partial + begin, (size_t)(end - begin) * sizeof *j->dw);
    for (int64_t part = 1; part < j->p->parts; part++) {
        const float *more = j->partial + part * all;
        HRI_IVDEP for (uint64_t i = begin; i < end; i++) {
            j->dw[i] += more[i];
        }
    }
}

void hri_winograd_weight(const hri_conv *v, const hri_call *c) {
    const plan p = plan_of(v);
    job j = {.p = &p, .x = c->in[0], .dy = c->in[1], .dw = c->out[0], .workspace = c->workspace};
    scratch s;
    const int64_t floats = scratch_init(&s, &p, j.workspace);
    j.partial = j.workspace + floats * hri_threads_count(c->threads);
    if (p.parts == 0) { /* no images */
        memset(j.dw, 0, (size_t)weights_of(v) * sizeof *j.dw);
        return;
    }
    hri_threads_run(c->threads, (uint32_t)(p.parts * p.blocks * p.column_parts), run_task, &j);
    if (p.parts > 1) {
        hri_threads_range(c->threads, (uint64_t)weights_of(v), 4096, add_parts, &j);
    }
}
