/* What the cells of recurrent layers and their gradients share: every number of a state is made from the numbers of its own
 * column in the gates, (N, gates * H), and in the states, (N, H). */
#ifndef HRI_OPS_COMMON_CELL_H
#define HRI_OPS_COMMON_CELL_H

#include "ops/common/launch.h"
#include "ops/common/rows.h"
#include "ops/common/vmath.h"

enum { HRI_CELL_IN = 5, HRI_CELL_OUT = 3 };

/* One column of one row: inputs and outputs by number and gate. */
typedef struct hri_cell_at {
    const hri_call *c;
    int64_t row, column, width;
} hri_cell_at;

static inline float hri_cell_get(const hri_cell_at *a, uint32_t in, int64_t gate) {
    const hr_meta *m = &a->c->sig->in[in];
    const hri_row x = {m->type, a->c->in[in], a->row * m->shape.dim[1] + a->column};
    return hri_row_at(&x, gate * a->width);
}

static inline void hri_cell_put(const hri_cell_at *a, uint32_t out, int64_t gate, float v) {
    const hr_meta *m = &a->c->sig->out[out];
    const hri_row_out y = {m->type, a->c->out[out], a->row * m->shape.dim[1] + a->column};
    hri_row_put(&y, gate * a->width, v);
}

static inline float hri_cell_sigmoid(float x) {
    return 1.0f / (1.0f + hri_exp(-x));
}

typedef struct hri_cell_task {
    const hri_call *c;
    void (*f)(const hri_cell_at *at);
    int64_t width;
} hri_cell_task;

static inline void hri_cell_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_cell_task *t = arg;
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        t->f(&(hri_cell_at){t->c, i / t->width, i % t->width, t->width});
    }
}

/* `state` is the input that is (N, H). */
static inline hr_status hri_cell_host(const hri_call *c, uint32_t state,
                                      void (*f)(const hri_cell_at *at)) {
    const int64_t *dim = c->sig->in[state].shape.dim;
    hri_cell_task t = {c, f, dim[1]};
    hri_threads_range(c->threads, (uint64_t)(dim[0] * dim[1]), 2048, hri_cell_range, &t);
    return HR_OK;
}

/* All inputs real, of one type and rank 2; input i has gates[i] times the columns of `state`. */
static inline hr_status hri_cell_infer(hri_infer *c, uint32_t state, const int *gates) {
    const hr_meta *s = &c->in[state];
    for (uint32_t i = 0; i < c->in_count; i++) {
        const hr_meta *m = &c->in[i];
        if (!hr_type_is_real(m->type) || m->type != s->type || m->shape.rank != 2 ||
            s->shape.rank != 2 || m->shape.dim[0] != s->shape.dim[0] ||
            m->shape.dim[1] != gates[i] * s->shape.dim[1]) {
            return hri_infer_fail(c, "expected states (N, H) and gates (N, a multiple of H) of one "
                                     "floating-point type");
        }
    }
    return HR_OK;
}

HRI_CU(cell);

static inline hr_status hri_cell_launch(const hri_gpu_call *c, uint32_t state, const char *kernel) {
    enum { THREADS = 256 };
    const int64_t *dim = c->sig->in[state].shape.dim;
    struct {
        hr_addr in[HRI_CELL_IN], out[HRI_CELL_OUT];
        int64_t rows, width;
    } all = {.rows = dim[0], .width = dim[1]};
    const int64_t count = dim[0] * dim[1];
    for (uint32_t i = 0; i < c->sig->in_count; i++) {
        all.in[i] = c->in[i];
    }
    for (uint32_t k = 0; k < c->sig->out_count; k++) {
        all.out[k] = c->out[k];
    }
    return count ? hri_gpu_launch(
                       c->gpu, &hri_cu_cell, hri_launch_t(c->sig->in[state].type, 1).text, kernel,
                       &(hri_gpu_grid){.x = hri_launch_blocks(count, THREADS), .threads = THREADS},
                       HRI_GPU_ARGS(&all))
                 : HR_OK;
}

#endif
