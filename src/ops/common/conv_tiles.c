/* Bands and blocks of conv_tiles.h. */
#include "ops/common/conv_tiles.h"

#include <string.h>

#include "ops/common/blocks.h"
#include "ops/common/gemm_tiles.h"

enum {
    TAPS = 3,
    BLOCK = 64, /* channels of a block */
    STEPS = TAPS * TAPS * BLOCK / HRI_TILES_DEPTH,
    COLUMNS = 128 /* outputs of a task, at most */
};

/* The pixels that a band reads, and its outputs as rows: those of an image follow one another through the pixels at the ends of lines. */
typedef struct grid {
    int64_t across; /* outputs of a line */
    int64_t wide;   /* pixels of a line */
    int64_t rows;   /* of an image, whole panels */
    int64_t pixels; /* of an image, with those that rows reach that are no outputs */
    int64_t slot;   /* channels of a pixel, whole steps */
    int64_t line;   /* of results: columns, whole panels */
} grid;

static grid grid_of(const hri_bands_plan *p, int64_t first, int64_t tiles, int64_t lines) {
    grid g;
    g.across = hri_bands_least(2 * tiles, p->ow - 2 * first);
    g.wide = g.across + TAPS - 1;
    g.rows = hri_bands_up((lines - 1) * g.wide + g.across, HRI_TILES_PANEL);
    g.pixels = g.rows + (TAPS - 1) * (g.wide + 1);
    g.slot = hri_bands_up(hri_bands_least(p->c, BLOCK), HRI_TILES_DEPTH);
    g.line = hri_bands_up(p->columns, HRI_TILES_PANEL);
    return g;
}

/* Scratch of a worker: parts of pixels (images, pixels, PARTS, slot), weights in panels, results (images, rows, line). */
static int64_t image_floats(const grid *g, int64_t images) {
    return images * g->pixels * g->slot * HRI_TILES_PARTS / 2;
}

static int64_t weight_floats(const grid *g) {
    return TAPS * TAPS * hri_gemm_tiles_floats(g->line, g->slot);
}

int64_t hri_conv_tiles_floats(const hri_bands_plan *p) {
    const hri_bands *b = &p->bands;
    const grid g = grid_of(p, 0, b->across, b->down);
    return image_floats(&g, b->images) + weight_floats(&g) + b->images * g.rows * g.line + 16;
}

/* ---- a block of channels ---- */

typedef struct task {
    const hri_bands_job *j;
    const hri_gemm_tiles *tiles;
    hri_band b;
    grid g;
    int64_t first, columns; /* outputs */
    uint16_t *x, *w;
    float *m;
} task;

/* One line of pixels, of which those outside of the image are zeros. */
static uint16_t *split_line(const task *t, int64_t n, int64_t y, int64_t c0, int64_t block,
                            uint16_t *to) {
    const hri_bands_plan *p = t->j->p;
    const int64_t pixel = HRI_TILES_PARTS * hri_bands_up(block, HRI_TILES_DEPTH);
    const int64_t x = 2 * t->b.x - p->pw, wide = t->g.wide;
    const int64_t begin = x < 0 ? hri_bands_least(-x, wide) : 0;
    int64_t end = hri_bands_least(p->w - x, wide);
    end = y < 0 || y >= p->h || end < begin ? begin : end;
    memset(to, 0, (size_t)(begin * pixel) * sizeof *to);
    t->tiles->split(t->j->x + ((n * p->h + y) * p->w + x + begin) * p->c + c0, p->c, end - begin,
                    block, to + begin * pixel);
    memset(to + end * pixel, 0, (size_t)((wide - end) * pixel) * sizeof *to);
    return to + wide * pixel;
}

static void split_image(const task *t, int64_t c0, int64_t block) {
    const int64_t pixel = HRI_TILES_PARTS * hri_bands_up(block, HRI_TILES_DEPTH);
    for (int64_t i = 0; i < t->b.images; i++) {
        uint16_t *to = t->x + i * t->g.pixels * pixel, *const end = to + t->g.pixels * pixel;
        for (int64_t r = 0; r < t->b.lines + TAPS - 1; r++) {
            to = split_line(t, t->b.n + i, t->b.y + r - t->j->p->ph, c0, block, to);
        }
        memset(to, 0, (size_t)(end > to ? end - to : 0) * sizeof *to);
    }
}

static void pack_weights(const task *t, int64_t c0, int64_t block) {
    const hri_bands_plan *p = t->j->p;
    uint16_t *to = t->w;
    for (int64_t i = 0; i < t->columns; i += HRI_TILES_PANEL) {
        const int64_t count = hri_bands_least(t->columns - i, HRI_TILES_PANEL);
        for (int64_t tap = 0; tap < TAPS * TAPS; tap++) {
            const int64_t first = t->first + i;
            const float *w = t->j->w + (p->turned ? TAPS * TAPS - 1 - tap : tap) * p->c * p->o;
            w += p->turned ? first * p->c + c0 : c0 * p->o + first;
            t->tiles->pack_b(w, p->turned ? p->c : p->o, !p->turned, count, block, to);
            to += 2 * hri_gemm_tiles_floats(count, block);
        }
    }
}

static void multiply(const task *t, int64_t block, int first) {
    const int64_t slot = hri_bands_up(block, HRI_TILES_DEPTH), pixel = HRI_TILES_PARTS * slot;
    int64_t off[STEPS], steps = 0;
    for (int64_t tap = 0; tap < TAPS * TAPS; tap++) {
        for (int64_t k = 0; k < slot; k += HRI_TILES_DEPTH) {
            off[steps++] = (tap / TAPS * t->g.wide + tap % TAPS) * pixel + k;
        }
    }
    for (int64_t i = 0; i < t->b.images; i++) {
        const hri_tiles_a a = {t->x + i * t->g.pixels * pixel, off, pixel, slot,
                               HRI_TILES_PANEL * pixel};
        t->tiles->multiply_steps(t->g.rows, hri_bands_up(t->columns, HRI_TILES_PANEL), steps, &a,
                                 t->w, t->m + i * t->g.rows * t->g.line, t->g.line, first);
    }
}

/* ---- the result ---- */

static void finish(const task *t) {
    const hri_bands_plan *p = t->j->p;
    float bias[COLUMNS] = {0};
    for (int64_t q = 0; t->j->bias && q < t->columns; q++) {
        bias[q] = hri_real_at(t->j->bias_type, t->j->bias, t->first + q);
    }
    for (int64_t i = 0; i < t->b.images * t->b.lines; i++) {
        const int64_t n = i / t->b.lines, r = i % t->b.lines;
        const float *m = t->m + (n * t->g.rows + r * t->g.wide) * t->g.line;
        float *to =
            t->j->y + (((t->b.n + n) * p->oh + t->b.y + r) * p->ow + 2 * t->b.x) * p->o + t->first;
        for (int64_t x = 0; x < t->g.across; x++, m += t->g.line, to += p->o) {
            HRI_IVDEP for (int64_t q = 0; q < t->columns; q++) {
                to[q] = m[q] + bias[q];
            }
        }
    }
}

typedef struct run {
    const hri_bands_job *j;
    hri_gemm_tiles tiles;
    int64_t floats;
    int64_t bands, groups; /* bands of a task, groups of them */
} run;

/* One band for some outputs, one block of channels after the other; `packed`: the weights of all channels are there. */
static void run_band(task *t, int packed) {
    const hri_bands_plan *p = t->j->p;
    t->g = grid_of(p, t->b.x, t->b.across, t->b.lines);
    t->m = (float *)(void *)(t->w + 2 * weight_floats(&t->g));
    t->x = (uint16_t *)(void *)(t->m + t->b.images * t->g.rows * t->g.line);
    for (int64_t c0 = 0; c0 < p->c; c0 += BLOCK) {
        const int64_t block = hri_bands_least(BLOCK, p->c - c0);
        split_image(t, c0, block);
        if (!packed) {
            pack_weights(t, c0, block);
        }
        multiply(t, block, c0 == 0);
    }
    finish(t);
}

/* Task: some bands for some outputs. */
static void run_part(void *arg, uint32_t number, uint32_t worker) {
    const run *r = arg;
    const hri_bands_plan *p = r->j->p;
    const int64_t begin = number / p->parts * r->bands;
    const int64_t end = hri_bands_least(begin + r->bands, hri_bands_count(&p->bands));
    float *const at = r->j->workspace + worker * r->floats;
    task t = {.j = r->j, .tiles = &r->tiles};
    t.first = number % p->parts * p->columns;
    t.columns = hri_bands_least(p->columns, p->o - t.first);
    t.w = (uint16_t *)(((uintptr_t)at + 63) & ~(uintptr_t)63);
    for (int64_t i = begin; i < end; i++) {
        t.b = hri_bands_at(&p->bands, i);
        run_band(&t, i > begin && p->c <= BLOCK);
    }
}

int hri_conv_tiles_run(const hri_bands_job *j, int64_t floats, hri_threads *threads) {
    enum {
        TASKS = 32
    }; /* that there should be; weights of one block of channels are packed once for each */
    const int64_t count = hri_bands_count(&j->p->bands);
    run r = {j, j->p->tiles ? *j->p->tiles : hri_gemm_tiles_pick(), floats};
    if (!r.tiles.multiply) {
        return 0;
    }
    r.bands = hri_bands_cut(count, j->p->c <= BLOCK ? hri_bands_over(count, TASKS) : 1, &r.groups);
    hri_threads_run(threads, (uint32_t)(j->p->parts * r.groups), run_part, &r);
    return 1;
}
