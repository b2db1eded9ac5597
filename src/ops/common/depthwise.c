/* The three loops of depthwise.h.  A task is some rows of pixels; sums over all rows go through parts of fixed size. */
#include "ops/common/depthwise.h"

#include <string.h>

#include "ops/common/blocks.h"

enum { BLOCK = 64, PARTS = 32 };

typedef struct task {
    const hri_conv *v;
    const hri_call *c;
    int64_t parts, part_rows; /* weights */
    float *partial;           /* (parts, KH KW C) */
} task;

/* Rows of pixels a task, for rows of so many numbers and taps. */
static uint64_t rows_a_task(const hri_conv *v, int64_t width) {
    const int64_t work = width * v->c * v->kh * v->kw;
    return (uint64_t)(65536 / (work + 1) + 1);
}

/* sum[k] += x[k] * w[k] */
static inline void add_tap(hr_type x_type, const void *x, int64_t x_at, hr_type w_type,
                           const void *w, int64_t w_at, int64_t n, float *sum) {
    float room[2][BLOCK];
    const float *a = hri_block_in(x_type, x, x_at, n, room[0]);
    const float *b = hri_block_in(w_type, w, w_at, n, room[1]);
    if (n == BLOCK) {
        for (int64_t k = 0; k < BLOCK; k++) {
            sum[k] += a[k] * b[k];
        }
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        sum[k] += a[k] * b[k];
    }
}

static void put_block(const hri_call *c, int64_t at, int64_t n, const float *sum) {
    float room[BLOCK];
    const hr_type type = c->sig->out[0].type;
    float *y = hri_block_out(type, c->out[0], at, room);
    memcpy(y, sum, (size_t)n * sizeof *sum);
    hri_block_put(type, c->out[0], at, n, y);
}

/* ---- forward ---- */

static void forward_pixel(const task *t, int64_t b, int64_t i, int64_t j, int64_t c0, int64_t n) {
    const hri_conv *v = t->v;
    const hri_call *c = t->c;
    const hri_sig *s = c->sig;
    float sum[BLOCK] = {0};
    for (int64_t r = 0; r < v->kh; r++) {
        const int64_t y = i * v->sh + r * v->dh - v->ph;
        for (int64_t q = 0; y >= 0 && y < v->h && q < v->kw; q++) {
            const int64_t x = j * v->sw + q * v->dw - v->pw;
            if (x >= 0 && x < v->w) {
                add_tap(s->in[0].type, c->in[0], ((b * v->h + y) * v->w + x) * v->c + c0,
                        s->in[1].type, c->in[1], (r * v->kw + q) * v->c + c0, n, sum);
            }
        }
    }
    for (int64_t k = 0; s->in_count > 2 && k < n; k++) {
        sum[k] += hri_real_at(s->in[2].type, c->in[2], c0 + k);
    }
    put_block(c, ((b * v->oh + i) * v->ow + j) * v->c + c0, n, sum);
}

static void forward_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    const hri_conv *v = t->v;
    (void)worker;
    for (int64_t row = (int64_t)begin; row < (int64_t)end; row++) {
        for (int64_t j = 0; j < v->ow; j++) {
            for (int64_t c0 = 0; c0 < v->c; c0 += BLOCK) {
                forward_pixel(t, row / v->oh, row % v->oh, j, c0, hri_min64(BLOCK, v->c - c0));
            }
        }
    }
}

void hri_depthwise_forward(const hri_conv *v, const hri_call *c) {
    task t = {.v = v, .c = c};
    hri_threads_range(c->threads, (uint64_t)(v->n * v->oh), rows_a_task(v, v->ow), forward_rows,
                      &t);
}

/* ---- input ---- */

/* The output place whose tap r sees input place y, or -1. */
static int64_t place_of(int64_t y, int64_t r, int64_t pad, int64_t dilation, int64_t stride,
                        int64_t size) {
    const int64_t at = y + pad - r * dilation;
    return at >= 0 && at % stride == 0 && at / stride < size ? at / stride : -1;
}

static void input_pixel(const task *t, int64_t b, int64_t y, int64_t x, int64_t c0, int64_t n) {
    const hri_conv *v = t->v;
    const hri_call *c = t->c;
    const hri_sig *s = c->sig;
    float sum[BLOCK] = {0};
    for (int64_t r = 0; r < v->kh; r++) {
        const int64_t i = place_of(y, r, v->ph, v->dh, v->sh, v->oh);
        for (int64_t q = 0; i >= 0 && q < v->kw; q++) {
            const int64_t j = place_of(x, q, v->pw, v->dw, v->sw, v->ow);
            if (j >= 0) {
                add_tap(s->in[0].type, c->in[0], ((b * v->oh + i) * v->ow + j) * v->c + c0,
                        s->in[1].type, c->in[1], (r * v->kw + q) * v->c + c0, n, sum);
            }
        }
    }
    put_block(c, ((b * v->h + y) * v->w + x) * v->c + c0, n, sum);
}

static void input_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    const hri_conv *v = t->v;
    (void)worker;
    for (int64_t row = (int64_t)begin; row < (int64_t)end; row++) {
        for (int64_t x = 0; x < v->w; x++) {
            for (int64_t c0 = 0; c0 < v->c; c0 += BLOCK) {
                input_pixel(t, row / v->h, row % v->h, x, c0, hri_min64(BLOCK, v->c - c0));
            }
        }
    }
}

void hri_depthwise_input(const hri_conv *v, const hri_call *c) {
    task t = {.v = v, .c = c};
    hri_threads_range(c->threads, (uint64_t)(v->n * v->h), rows_a_task(v, v->w), input_rows, &t);
}

/* ---- weights ---- */

static int64_t rows_of_part(const hri_conv *v) {
    const int64_t rows = v->n * v->oh;
    return rows > PARTS ? (rows + PARTS - 1) / PARTS : 1;
}

static int64_t parts_of(const hri_conv *v) {
    const int64_t each = rows_of_part(v);
    return (v->n * v->oh + each - 1) / each;
}

uint64_t hri_depthwise_weight_workspace(const hri_conv *v) {
    return (uint64_t)(parts_of(v) * v->kh * v->kw * v->c) * sizeof(float);
}

/* One row of outputs, one tap, one block of channels. */
static void weight_row(const task *t, int64_t row, int64_t r, int64_t q, int64_t c0, int64_t n,
                       float *sum) {
    const hri_conv *v = t->v;
    const hri_call *c = t->c;
    const hri_sig *s = c->sig;
    const int64_t b = row / v->oh, i = row % v->oh, y = i * v->sh + r * v->dh - v->ph;
    if (y < 0 || y >= v->h) {
        return;
    }
    for (int64_t j = 0; j < v->ow; j++) {
        const int64_t x = j * v->sw + q * v->dw - v->pw;
        if (x >= 0 && x < v->w) {
            add_tap(s->in[0].type, c->in[0], ((b * v->h + y) * v->w + x) * v->c + c0, s->in[1].type,
                    c->in[1], (row * v->ow + j) * v->c + c0, n, sum);
        }
    }
}

static void weight_part(void *arg, uint32_t part, uint32_t worker) {
    const task *t = arg;
    const hri_conv *v = t->v;
    const int64_t first = part * t->part_rows;
    const int64_t end = hri_min64(first + t->part_rows, v->n * v->oh);
    float *out = t->partial + part * v->kh * v->kw * v->c;
    (void)worker;
    for (int64_t tap = 0; tap < v->kh * v->kw; tap++) {
        for (int64_t c0 = 0; c0 < v->c; c0 += BLOCK) {
            const int64_t n = hri_min64(BLOCK, v->c - c0);
            float sum[BLOCK] = {0};
            for (int64_t row = first; row < end; row++) {
                weight_row(t, row, tap / v->kw, tap % v->kw, c0, n, sum);
            }
            memcpy(out + tap * v->c + c0, sum, (size_t)n * sizeof *sum);
        }
    }
}

static void join_parts(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    const int64_t count = t->v->kh * t->v->kw * t->v->c;
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        float sum = 0.0f;
        for (int64_t p = 0; p < t->parts; p++) {
            sum += t->partial[p * count + i];
        }
        hri_real_put(t->c->sig->out[0].type, t->c->out[0], i, sum);
    }
}

void hri_depthwise_weight(const hri_conv *v, const hri_call *c) {
    task t = {.v = v, .c = c, .partial = c->workspace};
    t.parts = parts_of(v);
    t.part_rows = rows_of_part(v);
    hri_threads_run(c->threads, (uint32_t)t.parts, weight_part, &t);
    hri_threads_range(c->threads, (uint64_t)(v->kh * v->kw * v->c), 4096, join_parts, &t);
}
