/* See product_f8.h. */
#include "ops/common/product_f8.h"

#include <string.h>

#include "ops/common/float8.h"
#include "ops/common/quantized.h"

enum { WIDE = 16, TALL = 4, TASK = 64 };

hr_status hri_product_f8_infer(hri_infer *c, int64_t columns) {
    if (c->in[0].type != HR_TYPE_U8 || c->in[1].type != HR_TYPE_U8) {
        return hri_infer_fail(c, "the input and the weights must be u8, codes of 8-bit floats");
    }
    const hr_status status = hri_quantized_columns(c, columns);
    if (status != HR_OK) {
        return status;
    }
    return c->in[4].type == HR_TYPE_F32 && c->in[4].shape.rank == 0
               ? HR_OK
               : hri_infer_fail(c, "the scale of the input must be an f32 scalar");
}

typedef struct work {
    const hri_conv *v;
    const hri_call *c;
    int turned, relu;
    int64_t group, depth, panels;
    float *columns, *rows; /* (panels, depth, WIDE); by worker (TALL, depth) */
    float of[256];         /* a code's number */
} work;

static int64_t panels_of(const hri_conv *v) {
    return (v->og + WIDE - 1) / WIDE;
}

static int64_t depth_of(const hri_conv *v) {
    return v->kh * v->kw * v->cg;
}

uint64_t hri_product_f8_workspace(const hri_conv *v, uint32_t threads) {
    return (uint64_t)depth_of(v) * sizeof(float) *
           ((uint64_t)panels_of(v) * WIDE + (uint64_t)threads * TALL);
}

/* Task: one panel of the group's weights. */
static void decode_panel(void *arg, uint32_t panel, uint32_t worker) {
    const work *w = arg;
    const uint8_t *from = w->c->in[1];
    float *to = w->columns + (int64_t)panel * w->depth * WIDE;
    (void)worker;
    for (int64_t k = 0; k < w->depth; k++) {
        for (int64_t j = 0; j < WIDE; j++) {
            const int64_t among = (int64_t)panel * WIDE + j, o = w->group * w->v->og + among;
            to[k * WIDE + j] = among >= w->v->og ? 0.0f
                               : w->turned       ? w->of[from[o * w->depth + k]]
                                                 : w->of[from[k * w->v->o + o]];
        }
    }
}

static void decode_row(const work *w, int64_t row, float *to) {
    const hri_conv *v = w->v;
    const int64_t ox = row % v->ow, oy = row / v->ow % v->oh, n = row / v->ow / v->oh;
    for (int64_t r = 0; r < v->kh; r++) {
        for (int64_t s = 0; s < v->kw; s++, to += v->cg) {
            const int64_t y = oy * v->sh - v->ph + r * v->dh, x = ox * v->sw - v->pw + s * v->dw;
            if (y < 0 || y >= v->h || x < 0 || x >= v->w) {
                memset(to, 0, (size_t)v->cg * sizeof *to);
                continue;
            }
            const uint8_t *from = (const uint8_t *)w->c->in[0] +
                                  ((n * v->h + y) * v->w + x) * v->c + w->group * v->cg;
            for (int64_t q = 0; q < v->cg; q++) {
                to[q] = w->of[from[q]];
            }
        }
    }
}

static void multiply(const float *rows, const float *columns, int64_t depth,
                     float sum[TALL][WIDE]) {
    float s[TALL][WIDE] = {{0}};
    for (int64_t k = 0; k < depth; k++) {
        for (int i = 0; i < TALL; i++) {
            const float x = rows[i * depth + k];
            for (int j = 0; j < WIDE; j++) {
                s[i][j] += x * columns[k * WIDE + j];
            }
        }
    }
    memcpy(sum, s, sizeof s);
}

/* Rows first .. first + count of one panel. */
static void finish(const work *w, int64_t first, int64_t count, int64_t panel,
                   float sum[TALL][WIDE]) {
    const hri_conv *v = w->v;
    const float *scale = w->c->in[2], *bias = w->c->in[3], by = hri_scale_at(w->c, 4);
    float *y = w->c->out[0];
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < WIDE && panel * WIDE + j < v->og; j++) {
            const int64_t o = w->group * v->og + panel * WIDE + j;
            const float is = sum[i][j] * (by * scale[o]) + bias[o];
            y[(first + i) * v->o + o] = w->relu && !(is > 0.0f) ? 0.0f : is;
        }
    }
}

/* Task: TASK rows. */
static void run_rows(void *arg, uint32_t task, uint32_t worker) {
    const work *w = arg;
    const hri_conv *v = w->v;
    const int64_t all = v->n * v->oh * v->ow, begin = (int64_t)task * TASK;
    const int64_t end = begin + TASK < all ? begin + TASK : all;
    float *rows = w->rows + (int64_t)worker * TALL * w->depth;
    for (int64_t first = begin; first < end; first += TALL) {
        const int64_t count = end - first < TALL ? end - first : TALL;
        for (int64_t i = 0; i < TALL; i++) {
            decode_row(w, first + (i < count ? i : count - 1), rows + i * w->depth);
        }
        for (int64_t p = 0; p < w->panels; p++) {
            float sum[TALL][WIDE];
            multiply(rows, w->columns + p * w->depth * WIDE, w->depth, sum);
            finish(w, first, count, p, sum);
        }
    }
}

void hri_product_f8_host(const hri_conv *v, int turned, int relu, const hri_call *c) {
    work w = {.v = v,
              .c = c,
              .turned = turned,
              .relu = relu,
              .depth = depth_of(v),
              .panels = panels_of(v),
              .columns = c->workspace};
    const int64_t rows = v->n * v->oh * v->ow;
    w.rows = w.columns + w.panels * w.depth * WIDE;
    for (int i = 0; i < 256; i++) {
        w.of[i] = hri_from_f8((uint8_t)i);
    }
    for (w.group = 0; w.group < v->groups && rows * v->og > 0; w.group++) {
        hri_threads_run(c->threads, (uint32_t)w.panels, decode_panel, &w);
        hri_threads_run(c->threads, (uint32_t)((rows + TASK - 1) / TASK), run_rows, &w);
    }
}
