/* The loops of softmax.h. */
#include "ops/common/softmax.h"

#include <math.h>

#include "ops/common/blocks.h"
#include "ops/common/vmath.h"

enum { TILE = 64 }; /* columns */

const hri_field hri_softmax_fields[] = {
    {"axis", "dimension that sums to 1", offsetof(hri_softmax_attr, axis), HRI_FIELD_INT, "-1",
     .min = -HR_RANK_MAX, .max = HR_RANK_MAX - 1},
    {0},
};

static int axis_of(const void *attr, const hr_shape *x) {
    const int64_t axis = ((const hri_softmax_attr *)attr)->axis;
    return (int)(axis < 0 ? axis + x->rank : axis);
}

hr_status hri_softmax_infer(hri_infer *c) {
    const int axis = axis_of(c->attr, &c->in[0].shape);
    if (axis < 0 || axis >= c->in[0].shape.rank) {
        return hri_infer_fail(c, "the axis is out of range");
    }
    return hri_infer_same(c);
}

hri_samples hri_softmax_samples(const hri_sig *s, uint32_t batched) {
    return batched && axis_of(s->attr, &s->in[0].shape) == 0 ? HRI_SAMPLES_COUPLED
                                                             : HRI_SAMPLES_APART;
}

void hri_softmax_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 8.0 * (double)hr_shape_count(&s->in[0].shape);
}

typedef struct task {
    const hri_call *c;
    int64_t outer, length, inner, tiles;
    int logs;
} task;

static task task_of(const hri_call *c, int logs) {
    const hr_shape *x = &c->sig->in[0].shape;
    const int axis = axis_of(c->sig->attr, x);
    task t = {.c = c, .outer = 1, .length = x->dim[axis], .inner = 1, .logs = logs};
    for (int d = 0; d < x->rank; d++) {
        t.outer *= d < axis ? x->dim[d] : 1;
        t.inner *= d > axis ? x->dim[d] : 1;
    }
    t.tiles = (t.inner + TILE - 1) / TILE;
    return t;
}

/* ---- rows: inner is 1 ---- */

/* Blocks of a row: at, n. */
#define EACH_BLOCK(FIRST, LENGTH, BODY)                                                            \
    for (int64_t block_k = 0; block_k < (LENGTH); block_k += HRI_BLOCK) {                          \
        const int64_t n = hri_min64(HRI_BLOCK, (LENGTH)-block_k), at = (FIRST) + block_k;          \
        BODY                                                                                       \
    }

static void soft_row(const task *t, int64_t first) {
    const hri_call *c = t->c;
    const hr_type type = c->sig->in[0].type;
    float most = -INFINITY, room[2][HRI_BLOCK];
    double sum = 0.0;
    EACH_BLOCK(first, t->length, {
        const float *x = hri_block_in(type, c->in[0], at, n, room[0]);
        most = hri_block_max(x, n, most);
    })
    EACH_BLOCK(first, t->length, {
        const float *x = hri_block_in(type, c->in[0], at, n, room[0]);
        float lanes[HRI_LANES] = {0};
        HRI_LANES_ADD(lanes, n, hri_exp(x[k] - most));
        sum += (double)hri_lanes_sum(lanes);
    })
    const float over = (float)(1.0 / sum), lse = (float)log(sum);
    EACH_BLOCK(first, t->length, {
        const float *x = hri_block_in(type, c->in[0], at, n, room[0]);
        float *y = hri_block_out(type, c->out[0], at, room[1]);
        if (t->logs) {
            HRI_IVDEP for (int64_t k = 0; k < n; k++) {
                y[k] = x[k] - most - lse;
            }
        } else {
            HRI_IVDEP for (int64_t k = 0; k < n; k++) {
                y[k] = hri_exp(x[k] - most) * over;
            }
        }
        hri_block_put(type, c->out[0], at, n, y);
    })
}

static void grad_row(const task *t, int64_t first) {
    const hri_call *c = t->c;
    const hr_type type = c->sig->in[0].type;
    float room[3][HRI_BLOCK];
    double total = 0.0;
    EACH_BLOCK(first, t->length, {
        const float *dy = hri_block_in(type, c->in[0], at, n, room[0]);
        const float *y = hri_block_in(type, c->in[1], at, n, room[1]);
        float lanes[HRI_LANES] = {0};
        if (t->logs) {
            HRI_LANES_ADD(lanes, n, dy[k]);
        } else {
            HRI_LANES_ADD(lanes, n, dy[k] * y[k]);
        }
        total += (double)hri_lanes_sum(lanes);
    })
    const float sum = (float)total;
    EACH_BLOCK(first, t->length, {
        const float *dy = hri_block_in(type, c->in[0], at, n, room[0]);
        const float *y = hri_block_in(type, c->in[1], at, n, room[1]);
        float *dx = hri_block_out(type, c->out[0], at, room[2]);
        if (t->logs) {
            HRI_IVDEP for (int64_t k = 0; k < n; k++) {
                dx[k] = dy[k] - hri_exp(y[k]) * sum;
            }
        } else {
            HRI_IVDEP for (int64_t k = 0; k < n; k++) {
                dx[k] = y[k] * (dy[k] - sum);
            }
        }
        hri_block_put(type, c->out[0], at, n, dx);
    })
}

/* ---- tiles of columns ---- */

static void soft_tile(const task *t, int64_t first, int64_t n) {
    const hri_call *c = t->c;
    const hr_type type = c->sig->in[0].type;
    float most[TILE], sum[TILE] = {0}, room[2][TILE];
    for (int k = 0; k < TILE; k++) {
        most[k] = -INFINITY;
    }
    for (int64_t i = 0; i < t->length; i++) {
        const float *x = hri_block_in(type, c->in[0], first + i * t->inner, n, room[0]);
        for (int64_t k = 0; k < n; k++) {
            most[k] = x[k] > most[k] ? x[k] : most[k];
        }
    }
    for (int64_t i = 0; i < t->length; i++) {
        const float *x = hri_block_in(type, c->in[0], first + i * t->inner, n, room[0]);
        for (int64_t k = 0; k < n; k++) {
            sum[k] += hri_exp(x[k] - most[k]);
        }
    }
    for (int64_t i = 0; i < t->length; i++) {
        const int64_t at = first + i * t->inner;
        const float *x = hri_block_in(type, c->in[0], at, n, room[0]);
        float *y = hri_block_out(type, c->out[0], at, room[1]);
        HRI_IVDEP for (int64_t k = 0; k < n; k++) {
            y[k] = t->logs ? x[k] - most[k] - logf(sum[k]) : hri_exp(x[k] - most[k]) / sum[k];
        }
        hri_block_put(type, c->out[0], at, n, y);
    }
}

static void grad_tile(const task *t, int64_t first, int64_t n) {
    const hri_call *c = t->c;
    const hr_type type = c->sig->in[0].type;
    float sum[TILE] = {0}, room[3][TILE];
    for (int64_t i = 0; i < t->length; i++) {
        const int64_t at = first + i * t->inner;
        const float *dy = hri_block_in(type, c->in[0], at, n, room[0]);
        const float *y = hri_block_in(type, c->in[1], at, n, room[1]);
        for (int64_t k = 0; k < n; k++) {
            sum[k] += t->logs ? dy[k] : dy[k] * y[k];
        }
    }
    for (int64_t i = 0; i < t->length; i++) {
        const int64_t at = first + i * t->inner;
        const float *dy = hri_block_in(type, c->in[0], at, n, room[0]);
        const float *y = hri_block_in(type, c->in[1], at, n, room[1]);
        float *dx = hri_block_out(type, c->out[0], at, room[2]);
        HRI_IVDEP for (int64_t k = 0; k < n; k++) {
            dx[k] = t->logs ? dy[k] - hri_exp(y[k]) * sum[k] : y[k] * (dy[k] - sum[k]);
        }
        hri_block_put(type, c->out[0], at, n, dx);
    }
}

/* ---- tasks ---- */

#define RANGE(NAME, ROW, COLUMNS)                                                                  \
    static void NAME(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {                   \
        const task *t = arg;                                                                       \
        (void)worker;                                                                              \
        for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {                                  \
            const int64_t column = r % t->tiles * TILE;                                            \
            const int64_t first = r / t->tiles * t->length * t->inner + column;                    \
            if (t->inner == 1) {                                                                   \
                ROW(t, first);                                                                     \
            } else {                                                                               \
                COLUMNS(t, first, hri_min64(TILE, t->inner - column));                             \
            }                                                                                      \
        }                                                                                          \
    }

RANGE(soft_range, soft_row, soft_tile)
RANGE(grad_range, grad_row, grad_tile)

hr_status hri_softmax_run(const hri_call *c, int logs) {
    task t = task_of(c, logs);
    hri_threads_range(c->threads, (uint64_t)(t.outer * t.tiles),
                      (uint64_t)(8192 / (t.length * hri_min64(TILE, t.inner) + 1) + 1), soft_range,
                      &t);
    return HR_OK;
}

hr_status hri_softmax_grad_run(const hri_call *c, int logs) {
    task t = task_of(c, logs);
    hri_threads_range(c->threads, (uint64_t)(t.outer * t.tiles),
                      (uint64_t)(8192 / (t.length * hri_min64(TILE, t.inner) + 1) + 1), grad_range,
                      &t);
    return HR_OK;
}
