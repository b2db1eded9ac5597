/* Rows, runs and tasks of conv_few.h; the loops themselves are in conv_few_kernel.h. */
#include "ops/common/conv_few.h"

#include <string.h>

#include "ops/common/blocks.h"

enum {
    CHANNELS = 16,   /* outputs of a pixel, at most: four vectors of four */
    TAPS = 16,       /* rows of a window, at most */
    WEIGHTS = 16384, /* floats of the weights, at most: half of the first cache */
    ROWS = 16384,    /* floats of the rows that a window sees, at most */
    SUMS = 4096,     /* floats of a part of the weights' gradient, at most */
    PARTS = 16,      /* of the weights' gradient */
    CHUNK = 16384    /* outputs of a task */
};

/* What the loops are given: the rows of a window, their weights, and where the sums go. */
typedef struct hri_few_pixels {
    const float *x[TAPS], *w[TAPS];
    int64_t taps, run, step; /* step: numbers between pixels */
    int64_t channels;        /* numbers between results */
    const float *bias;       /* whole vectors */
    float *to;               /* whole vectors behind the last result may be written */
} hri_few_pixels;

/* A row of x and one of dy, for a run of weights.  Whole vectors of dy are read, whatever lies behind its channels. */
typedef struct hri_few_weights {
    const float *x, *dy;
    int64_t pixels, step, dy_step;
    float *to;
} hri_few_weights;

#define FEW(NAME) four_##NAME
#define FEW_LANES 4
#define FEW_SUMS  24
#define FEW_TARGET
#include "ops/common/conv_few_kernel.h"

#if defined(__x86_64__)
#define FEW(NAME)  avx2_##NAME
#define FEW_LANES  8
#define FEW_SUMS   12
#define FEW_TARGET __attribute__((target("avx2,fma")))
#include "ops/common/conv_few_kernel.h"

#define FEW(NAME)  avx512_##NAME
#define FEW_LANES  16
#define FEW_SUMS   24
#define FEW_TARGET __attribute__((target("avx512f")))
#include "ops/common/conv_few_kernel.h"
#endif

typedef struct loops {
    void (*pixels)(const void *f, int64_t pixels, int64_t vectors);
    void (*weights)(const void *f, int64_t weights, int64_t vectors);
    int64_t lanes;
} loops;

static loops loops_for(int64_t channels) {
#if defined(__x86_64__)
    if (channels > 8 && __builtin_cpu_supports("avx512f")) {
        return (loops){avx512_run_pixels, avx512_run_weights, 16};
    }
    if (channels > 4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return (loops){avx2_run_pixels, avx2_run_weights, 8};
    }
#endif
    (void)channels;
    return (loops){four_run_pixels, four_run_weights, 4};
}

/* ---- the convolution that is made: of x, or of dy for the gradient of x ---- */

typedef struct few {
    int64_t n, h, w, c, oh, ow, o, kh, kw; /* as in hri_conv */
    int64_t sh, sw, ph, pw, dh;
    int64_t line; /* numbers of a padded row */
} few;

static few of_x(const hri_conv *v) {
    return (few){.n = v->n,
                 .h = v->h,
                 .w = v->w,
                 .c = v->c,
                 .oh = v->oh,
                 .ow = v->ow,
                 .o = v->o,
                 .kh = v->kh,
                 .kw = v->kw,
                 .sh = v->sh,
                 .sw = v->sw,
                 .ph = v->ph,
                 .pw = v->pw,
                 .dh = v->dh,
                 .line = ((v->ow - 1) * v->sw + v->kw) * v->c};
}

/* Stride 1: every pixel of x meets all taps, in the other order. */
static few of_dy(const hri_conv *v) {
    return (few){.n = v->n,
                 .h = v->oh,
                 .w = v->ow,
                 .c = v->o,
                 .oh = v->h,
                 .ow = v->w,
                 .o = v->c,
                 .kh = v->kh,
                 .kw = v->kw,
                 .sh = 1,
                 .sw = 1,
                 .ph = v->dh * (v->kh - 1) - v->ph,
                 .pw = v->kw - 1 - v->pw,
                 .dh = v->dh,
                 .line = (v->w + v->kw - 1) * v->o};
}

static int fits(const hri_conv *v, const few *f) {
    return v->groups == 1 && v->dw == 1 && v->kh * v->kw > 1 && f->c > 0 && f->o > 0 &&
           f->o <= CHANNELS && f->kh <= TAPS && f->ow > 0 && f->pw < f->kw &&
           f->kh * f->line <= ROWS && f->kh * f->kw * f->c * CHANNELS <= WEIGHTS;
}

int hri_few_forward_is(const hri_conv *v) {
    const few f = of_x(v);
    return fits(v, &f);
}

int hri_few_input_is(const hri_conv *v) {
    const few f = of_dy(v);
    return v->sh == 1 && v->sw == 1 && f.ph >= 0 && f.pw >= 0 && v->pw_after < v->kw && fits(v, &f);
}

int hri_few_weight_is(const hri_conv *v) {
    const few f = of_x(v);
    return fits(v, &f) && f.kh * f.kw * f.c * CHANNELS <= SUMS;
}

static int64_t up(int64_t a, int64_t to) {
    return (a + to - 1) / to * to;
}

/* ---- rows ---- */

/* Row `y` of image n as the loops want it: where it lies, or padded in `room`.  NULL: it is outside. */
static const float *row_of(const few *f, hr_type type, const void *data, int64_t n, int64_t y,
                           float *room) {
    if (y < 0 || y >= f->h) {
        return NULL;
    }
    const int64_t left = f->pw * f->c, all = f->w * f->c, from = (n * f->h + y) * all;
    if (type == HR_TYPE_F32 && left == 0 && f->line <= all) {
        return (const float *)data + from;
    }
    const int64_t count = hri_min64(all, f->line - left);
    memset(room, 0, (size_t)left * sizeof *room);
    const float *x = hri_block_in(type, data, from, count, room + left);
    if (x != room + left) {
        memcpy(room + left, x, (size_t)count * sizeof *room);
    }
    memset(room + left + count, 0, (size_t)(f->line - left - count) * sizeof *room);
    return room;
}

/* ---- forward, and the gradient of the input ---- */

typedef struct forward {
    few f;
    const hri_call *c;
    loops by;
    int64_t width; /* of a pixel's sums: whole vectors */
    const float *weights, *bias;
    float *scratch; /* by worker */
    int64_t scratch_floats;
} forward;

static int64_t forward_scratch(const few *f) {
    return up(f->kh * f->line + f->ow * f->o + CHANNELS, 16);
}

/* Weights and bias. */
static int64_t weight_floats(const few *f) {
    return (f->kh * f->kw * f->c + 1) * CHANNELS;
}

static uint64_t forward_workspace(const few *f, uint32_t threads) {
    return (uint64_t)(weight_floats(f) + forward_scratch(f) * threads) * sizeof(float);
}

static void forward_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const forward *t = arg;
    const few *f = &t->f;
    const hr_type type = t->c->sig->out[0].type;
    float *room = t->scratch + worker * t->scratch_floats, *line = room + f->kh * f->line;
    for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
        hri_few_pixels p = {.run = f->kw * f->c,
                            .step = f->sw * f->c,
                            .channels = f->o,
                            .bias = t->bias,
                            .to = line};
        for (int64_t k = 0; k < f->kh; k++) {
            const int64_t y = r % f->oh * f->sh + k * f->dh - f->ph;
            p.x[p.taps] =
                row_of(f, t->c->sig->in[0].type, t->c->in[0], r / f->oh, y, room + k * f->line);
            p.w[p.taps] = t->weights + k * p.run * t->width;
            p.taps += p.x[p.taps] != NULL;
        }
        t->by.pixels(&p, f->ow, t->width / t->by.lanes);
        const int64_t count = f->ow * f->o;
        if (type == HR_TYPE_F32) {
            memcpy((float *)t->c->out[0] + r * count, line, (size_t)count * sizeof *line);
        }
        hri_block_put(type, t->c->out[0], r * count, count, line);
    }
}

/* Weights and bias lie packed in the workspace. */
static void forward_run(const few *f, const hri_call *c, const loops *by) {
    const int64_t width = up(f->o, by->lanes);
    forward t = {.f = *f, .c = c, .by = *by, .width = width, .weights = c->workspace};
    t.bias = t.weights + f->kh * f->kw * f->c * CHANNELS;
    t.scratch = (float *)c->workspace + weight_floats(f);
    t.scratch_floats = forward_scratch(f);
    hri_threads_range(c->threads, (uint64_t)(f->n * f->oh), (uint64_t)(CHUNK / (f->ow * f->o) + 1),
                      forward_rows, &t);
}

uint64_t hri_few_forward_workspace(const hri_conv *v, uint32_t threads) {
    const few f = of_x(v);
    return forward_workspace(&f, threads);
}

void hri_few_forward(const hri_conv *v, const hri_call *c) {
    const few f = of_x(v);
    const loops by = loops_for(f.o);
    const int64_t count = f.kh * f.kw * f.c, width = up(f.o, by.lanes);
    float *w = c->workspace, *bias = w + count * CHANNELS;
    memset(w, 0, (size_t)weight_floats(&f) * sizeof *w);
    for (int64_t k = 0; k < count; k++) {
        for (int64_t o = 0; o < f.o; o++) {
            w[k * width + o] = hri_real_at(c->sig->in[1].type, c->in[1], k * f.o + o);
        }
    }
    for (int64_t o = 0; o < f.o && c->sig->in_count > 2; o++) {
        bias[o] = hri_real_at(c->sig->in[2].type, c->in[2], o);
    }
    forward_run(&f, c, &by);
}

uint64_t hri_few_input_workspace(const hri_conv *v, uint32_t threads) {
    const few f = of_dy(v);
    return forward_workspace(&f, threads);
}

void hri_few_input(const hri_conv *v, const hri_call *c) {
    const few f = of_dy(v);
    const loops by = loops_for(f.o);
    const int64_t taps = f.kh * f.kw, width = up(f.o, by.lanes);
    float *w = c->workspace; /* (taps from the last, O, C) */
    memset(w, 0, (size_t)weight_floats(&f) * sizeof *w);
    for (int64_t k = 0; k < taps; k++) {
        for (int64_t i = 0; i < f.o; i++) {
            for (int64_t o = 0; o < f.c; o++) {
                const int64_t from = ((taps - 1 - k) * f.o + i) * f.c + o;
                w[(k * f.c + o) * width + i] = hri_real_at(c->sig->in[1].type, c->in[1], from);
            }
        }
    }
    forward_run(&f, c, &by);
}

/* ---- the gradient of the weights ---- */

typedef struct weight {
    few f;
    const hri_call *c;
    loops by;
    int64_t width, parts;
    float *sums; /* (parts, KH KW C, width) */
    float *scratch;
    int64_t scratch_floats;
} weight;

static int64_t parts_of(const few *f) {
    return f->n * f->oh < PARTS ? f->n * f->oh : PARTS;
}

static int64_t sum_floats(const few *f) {
    return up(f->kh * f->kw * f->c * CHANNELS, 16);
}

static int64_t weight_scratch(const few *f) {
    return up(f->line + f->ow * f->o + CHANNELS, 16);
}

uint64_t hri_few_weight_workspace(const hri_conv *v, uint32_t threads) {
    const few f = of_x(v);
    return (uint64_t)(parts_of(&f) * sum_floats(&f) + weight_scratch(&f) * threads) * sizeof(float);
}

/* Row r of dy: where it lies, but for the last one, behind which there may be nothing. */
static const float *dy_row(const weight *t, int64_t r, float *room) {
    const few *f = &t->f;
    const hr_type type = t->c->sig->in[1].type;
    const int64_t count = f->ow * f->o;
    if (type == HR_TYPE_F32 && r + 1 < f->n * f->oh && t->width - f->o <= count) {
        return (const float *)t->c->in[1] + r * count;
    }
    const float *dy = hri_block_in(type, t->c->in[1], r * count, count, room);
    if (dy != room) {
        memcpy(room, dy, (size_t)count * sizeof *room);
    }
    memset(room + count, 0, CHANNELS * sizeof *room);
    return room;
}

static void weight_part(void *arg, uint32_t part, uint32_t worker) {
    const weight *t = arg;
    const few *f = &t->f;
    const int64_t rows = f->n * f->oh, run = f->kw * f->c;
    float *room = t->scratch + worker * t->scratch_floats, *line = room + f->line;
    float *sums = t->sums + part * sum_floats(f);
    memset(sums, 0, (size_t)sum_floats(f) * sizeof *sums);
    for (int64_t r = rows * part / t->parts; r < rows * (part + 1) / t->parts; r++) {
        hri_few_weights p = {
            .dy = dy_row(t, r, line), .pixels = f->ow, .step = f->sw * f->c, .dy_step = f->o};
        for (int64_t k = 0; k < f->kh; k++) {
            const int64_t y = r % f->oh * f->sh + k * f->dh - f->ph;
            p.x = row_of(f, t->c->sig->in[0].type, t->c->in[0], r / f->oh, y, room);
            p.to = sums + k * run * t->width;
            if (p.x) {
                t->by.weights(&p, run, t->width / t->by.lanes);
            }
        }
    }
}

void hri_few_weight(const hri_conv *v, const hri_call *c) {
    const few f = of_x(v);
    const loops by = loops_for(f.o);
    const int64_t floats = sum_floats(&f);
    weight t = {.f = f, .c = c, .by = by, .width = up(f.o, by.lanes), .parts = parts_of(&f)};
    t.sums = c->workspace;
    t.scratch = t.sums + t.parts * floats;
    t.scratch_floats = weight_scratch(&f);
    hri_threads_run(c->threads, (uint32_t)t.parts, weight_part, &t);
    for (int64_t k = 0; k < f.kh * f.kw * f.c; k++) {
        for (int64_t o = 0; o < f.o; o++) {
            float sum = 0.0f;
            for (int64_t p = 0; p < t.parts; p++) {
                sum += t.sums[p * floats + k * t.width + o];
            }
            hri_real_put(c->sig->out[0].type, c->out[0], k * f.o + o, sum);
        }
    }
}
