/* Bands and blocks of conv_winograd.h. */
#include "ops/common/conv_winograd.h"

#include <string.h>

#include "ops/common/blocks.h"
#include "ops/common/conv_tiles.h"
#include "ops/common/gemm.h"

enum {
    POINTS = 4,
    TAPS = 3,
    BLOCK = 64,          /* channels of a block */
    TILES = HRI_GEMM_MC, /* of a band, at most: of two outputs each */
    COLUMNS = 128,       /* outputs of a task, at most */
    PANEL = 32,          /* and what they are a multiple of, if they are not all */
    LEAST = 32           /* channels and outputs from which it pays */
};

static const float zeros[BLOCK];

typedef hri_bands_plan plan;
typedef hri_bands_job job;

static void cut_plan(plan *p) {
    p->bands = hri_bands_of(p->n, p->oh, p->ow, TILES);
    /* Whole panels where they are wide; others have kernels for what is left. */
    p->columns = hri_bands_cut(p->o, COLUMNS, &p->parts);
    p->columns = p->parts > 1 ? hri_bands_up(p->columns, PANEL) : p->columns;
    p->parts = hri_bands_over(p->o, p->columns);
}

static plan forward_of(const hri_conv *v) {
    plan p = {v->n, v->h, v->w, v->c, v->oh, v->ow, v->o, v->ph, v->pw};
    p.tiles = v->tiles;
    cut_plan(&p);
    return p;
}

static plan input_of(const hri_conv *v) {
    plan p = {v->n, v->oh, v->ow, v->o, v->h, v->w, v->c, TAPS - 1 - v->ph, TAPS - 1 - v->pw, 1};
    p.tiles = v->tiles;
    cut_plan(&p);
    return p;
}

int hri_winograd_takes(const hri_conv *v, const hri_sig *s) {
    const int f32 = s->in[0].type == HR_TYPE_F32 && s->in[1].type == HR_TYPE_F32 &&
                    s->out[0].type == HR_TYPE_F32;
    const int taps = v->kh == TAPS && v->kw == TAPS && v->dh == 1 && v->dw == 1;
    return f32 && taps && v->sh == 1 && v->sw == 1 && v->groups == 1 && v->ph < TAPS &&
           v->pw < TAPS && v->c >= LEAST && v->o >= LEAST;
}

/* ---- scratch of a worker ---- */

typedef struct scratch {
    float *v;    /* (POINTS, images, lines + 2, across, block) */
    float *u;    /* (POINTS): panels of B, (TAPS, block) deep */
    float *m;    /* (POINTS, tiles, columns) */
    float *room; /* for products: pointers to rows, or panels of A */
    int64_t v_point, u_point, m_point, m_line;
} scratch;

static int64_t scratch_init(scratch *s, const plan *p, float *at) {
    const int64_t block = p->c < BLOCK ? p->c : BLOCK;
    const hri_bands *b = &p->bands;
    const int64_t rows = hri_bands_up(hri_bands_tiles(b), HRI_GEMM_MR);
    s->m_line = hri_bands_up(p->columns, HRI_GEMM_UNIT);
    s->v_point = hri_bands_up(b->images * (b->down + TAPS - 1) * b->across * block, 16);
    s->u_point = hri_bands_up(TAPS * block * s->m_line, 16);
    s->m_point = hri_bands_up(rows * s->m_line, 16);
    s->v = (float *)(((uintptr_t)at + 63) & ~(uintptr_t)63);
    s->u = s->v + POINTS * s->v_point;
    s->m = s->u + POINTS * s->u_point;
    s->room = s->m + POINTS * s->m_point;
    return POINTS * (s->v_point + s->u_point + s->m_point) + hri_bands_up(rows * TAPS * block, 16) +
           48;
}

static uint64_t workspace_of(const plan *p, uint32_t threads) {
    static float nowhere[1];
    scratch s;
    return (uint64_t)scratch_init(&s, p, nowhere) * threads * sizeof(float);
}

uint64_t hri_winograd_forward_workspace(const hri_conv *v, uint32_t threads) {
    const plan p = forward_of(v);
    return workspace_of(&p, threads);
}

uint64_t hri_winograd_input_workspace(const hri_conv *v, uint32_t threads) {
    const plan p = input_of(v);
    return workspace_of(&p, threads);
}

/* ---- a block of channels ---- */

/* The part of the result that a task computes. */
typedef struct part {
    hri_band b;
    int64_t first, columns;
} part;

static void transform_tile(const float *const d[4], int64_t block, float *to, int64_t point) {
    const float *d0 = d[0], *d1 = d[1], *d2 = d[2], *d3 = d[3];
    float *v0 = to, *v1 = to + point, *v2 = to + 2 * point, *v3 = to + 3 * point;
    HRI_IVDEP for (int64_t k = 0; k < block; k++) {
        const float a = d0[k], b = d1[k], c = d2[k], e = d3[k];
        v0[k] = a - c;
        v1[k] = b + c;
        v2[k] = c - b;
        v3[k] = b - e;
    }
}

static void transform_image(const job *j, const hri_band *b, int64_t c0, int64_t block,
                            const scratch *s) {
    const plan *p = j->p;
    float *to = s->v;
    for (int64_t n = b->n; n < b->n + b->images; n++) {
        for (int64_t r = 0; r < b->lines + TAPS - 1; r++) {
            const int64_t y = b->y + r - p->ph;
            const float *line = j->x + (n * p->h + y) * p->w * p->c + c0;
            for (int64_t t = 0; t < b->across; t++, to += block) {
                const float *d[4];
                for (int64_t i = 0; i < 4; i++) {
                    const int64_t x = 2 * (b->x + t) - p->pw + i;
                    d[i] = y < 0 || y >= p->h || x < 0 || x >= p->w ? zeros : line + x * p->c;
                }
                transform_tile(d, block, to, s->v_point);
            }
        }
    }
}

/* Three taps, numbers side by side, to the four points. */
static inline void transform_taps(const float *g0, const float *g1, const float *g2, int64_t count,
                                  float *to, int64_t point) {
    float *u0 = to, *u1 = to + point, *u2 = to + 2 * point, *u3 = to + 3 * point;
    HRI_IVDEP for (int64_t q = 0; q < count; q++) {
        const float a = g0[q], b = g1[q], c = g2[q], outer = a + c;
        u0[q] = a;
        u1[q] = (outer + b) * 0.5f;
        u2[q] = (outer - b) * 0.5f;
        u3[q] = c;
    }
}

/* One panel of B from `from` on, whose rows are `ld` apart and taps `tap`. */
static inline void straight_panel(const float *from, int64_t ld, int64_t tap, int64_t block,
                                  int64_t count, int64_t width, float *to, int64_t point) {
    for (int64_t k = 0; k < block; k++, from += ld, to += width) {
        transform_taps(from, from + tap, from + 2 * tap, count, to, point);
        for (int64_t q = count; q < width; q++) {
            to[q] = to[point + q] = to[2 * point + q] = to[3 * point + q] = 0.0f;
        }
    }
}

/* The same of rows that are dense along the depth, taps in the opposite order. */
static void turned_panel(const float *from, int64_t ld, int64_t tap, int64_t block, int64_t count,
                         int64_t width, float *to, int64_t point) {
    float room[TAPS][BLOCK * HRI_GEMM_NR];
    for (int64_t s = 0; s < TAPS; s++) {
        hri_pack_turn(HR_TYPE_F32, from, s * tap, ld, count, block, width, room[s]);
    }
    transform_taps(room[2], room[1], room[0], block * width, to, point);
}

/* Panels of B, of `columns` outputs from number `first` on. */
static void transform_weights(const job *j, int64_t first, int64_t columns, int64_t c0,
                              int64_t block, const scratch *s) {
    const plan *p = j->p;
    const int64_t tap = p->c * p->o;
    float *to = s->u;
    for (int64_t i = 0; i < columns; i += HRI_GEMM_NR) {
        const int64_t left = columns - i, count = hri_bands_least(left, HRI_GEMM_NR);
        const int64_t width = hri_gemm_width(left), at = first + i;
        for (int64_t r = 0; r < TAPS; r++, to += block * width) {
            const float *straight = j->w + r * TAPS * tap + c0 * p->o + at;
            if (p->turned) {
                turned_panel(j->w + (TAPS - 1 - r) * TAPS * tap + at * p->c + c0, p->c, tap, block,
                             count, width, to, s->u_point);
            } else if (count == HRI_GEMM_NR) { /* a number that the compiler knows */
                straight_panel(straight, p->o, tap, block, HRI_GEMM_NR, HRI_GEMM_NR, to,
                               s->u_point);
            } else {
                straight_panel(straight, p->o, tap, block, count, width, to, s->u_point);
            }
        }
    }
}

/* Where the rows of A lie: each tile has a line for each row of taps. */
typedef struct tile_lines {
    const float *at[POINTS][TILES * TAPS];
    hri_gemm_lines of[POINTS];
    int64_t count, block;
} tile_lines;

static void lines_of(const hri_band *b, int64_t block, const scratch *s, tile_lines *out) {
    const int64_t image = b->lines * b->across;
    out->count = b->images * image;
    out->block = block;
    for (int64_t k = 0; k < POINTS; k++) {
        out->of[k].pieces = TAPS;
        for (int64_t r = 0; r < TAPS; r++) {
            out->of[k].length[r] = block;
        }
    }
    for (int64_t i = 0; i < hri_bands_up(out->count, HRI_GEMM_MR); i++) {
        const int64_t tile = i < out->count ? i : out->count - 1, row = i % HRI_GEMM_MR;
        const int64_t panel = i / HRI_GEMM_MR;
        /* Images have two lines more than are computed of them. */
        const float *line = s->v + (tile + tile / image * (TAPS - 1) * b->across) * block;
        for (int64_t k = 0; k < POINTS; k++, line += s->v_point) {
            const float **at = out->at[k] + panel * TAPS * HRI_GEMM_MR;
            out->of[k].panel[panel].at = at;
            for (int64_t r = 0; r < TAPS; r++) {
                at[r * HRI_GEMM_MR + row] = line + r * b->across * block;
            }
        }
    }
}

/* Outputs that are computed together: a panel of B, so that it stays in a cache that is close.  Where rows of A are packed for
 * them, all. */
enum { TOGETHER = HRI_GEMM_NR == HRI_GEMM_UNIT ? COLUMNS : HRI_GEMM_NR };

static void multiply(const job *j, const part *t, int64_t c0, const tile_lines *lines,
                     const scratch *s) {
    for (int64_t i = 0; i < t->columns; i += TOGETHER) {
        const int64_t columns = hri_bands_least(t->columns - i, TOGETHER);
        transform_weights(j, t->first + i, columns, c0, lines->block, s);
        for (int64_t k = 0; k < POINTS; k++) {
            hri_gemm_tile_lines(lines->count, columns, TAPS * lines->block, &lines->of[k], s->room,
                                s->u + k * s->u_point, s->m + k * s->m_point + i, s->m_line,
                                c0 == 0);
        }
    }
}

/* ---- the result ---- */

static void finish_tile(const float *m, int64_t point, int64_t count, const float *bias, float *y0,
                        float *y1) {
    const float *m0 = m, *m1 = m + point, *m2 = m + 2 * point, *m3 = m + 3 * point;
    HRI_IVDEP for (int64_t q = 0; q < count; q++) {
        y0[q] = m0[q] + m1[q] + m2[q] + bias[q];
    }
    HRI_IVDEP for (int64_t q = 0; y1 && q < count; q++) {
        y1[q] = m1[q] - m2[q] - m3[q] + bias[q];
    }
}

static void finish(const job *j, const part *t, const scratch *s) {
    const plan *p = j->p;
    const hri_band *b = &t->b;
    float bias[COLUMNS] = {0};
    const float *m = s->m;
    for (int64_t q = 0; j->bias && q < t->columns; q++) {
        bias[q] = hri_real_at(j->bias_type, j->bias, t->first + q);
    }
    for (int64_t n = b->n; n < b->n + b->images; n++) {
        for (int64_t y = b->y; y < b->y + b->lines; y++) {
            float *to = j->y + ((n * p->oh + y) * p->ow + 2 * b->x) * p->o + t->first;
            for (int64_t i = 0; i < b->across; i++, to += 2 * p->o, m += s->m_line) {
                finish_tile(m, s->m_point, t->columns, bias, to,
                            2 * (b->x + i) + 1 < p->ow ? to + p->o : NULL);
            }
        }
    }
}

/* Task: one band for some outputs, one block of channels after the other. */
static void run_part(void *arg, uint32_t number, uint32_t worker) {
    const job *j = arg;
    const plan *p = j->p;
    const int64_t first = number % p->parts * p->columns;
    const part t = {hri_bands_at(&p->bands, number / p->parts), first,
                    hri_bands_least(p->columns, p->o - first)};
    scratch s;
    const int64_t floats = scratch_init(&s, p, j->workspace);
    scratch_init(&s, p, j->workspace + worker * floats);
    tile_lines lines;
    lines.block = 0;
    for (int64_t c0 = 0; c0 < p->c; c0 += BLOCK) {
        const int64_t block = hri_bands_least(BLOCK, p->c - c0);
        transform_image(j, &t.b, c0, block, &s);
        if (block != lines.block) {
            lines_of(&t.b, block, &s, &lines);
        }
        multiply(j, &t, c0, &lines, &s);
    }
    finish(j, &t, &s);
}

/* Whether matrix units have room, whatever the number of images: bits must not depend on it. */
static int fits_tiles(const plan *p) {
    enum { MANY = 1 << 20, SPARE = 1024 };
    static float nowhere[1];
    int fits = 1;
    for (int64_t n = 1; n <= MANY; n *= MANY) {
        plan q = *p;
        scratch s;
        q.n = n;
        cut_plan(&q);
        fits = fits && hri_conv_tiles_floats(&q) + SPARE <= scratch_init(&s, &q, nowhere);
    }
    return fits;
}

static void run(const plan *p, const hri_call *c) {
    const int bias = c->sig->in_count > 2;
    job j = {.p = p, .x = c->in[0], .w = c->in[1], .y = c->out[0], .workspace = c->workspace};
    j.bias = bias ? c->in[2] : NULL;
    j.bias_type = bias ? c->sig->in[2].type : HR_TYPE_F32;
    scratch s;
    if (fits_tiles(p) && hri_conv_tiles_run(&j, scratch_init(&s, p, c->workspace), c->threads)) {
        return;
    }
    hri_threads_run(c->threads, (uint32_t)(p->parts * hri_bands_count(&p->bands)), run_part, &j);
}

void hri_winograd_forward(const hri_conv *v, const hri_call *c) {
    const plan p = forward_of(v);
    run(&p, c);
}

void hri_winograd_input(const hri_conv *v, const hri_call *c) {
    const plan p = input_of(v);
    run(&p, c);
}
