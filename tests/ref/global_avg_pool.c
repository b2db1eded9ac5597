/* global_avg_pool: every element is added to its mean. */
#include "ref.h"

static void run(const ref_call *c) {
    const hr_shape *x = &c->sig->in[0].shape;
    for (int64_t i = 0, n = hr_shape_count(&c->sig->out[0].shape); i < n; i++) {
        c->out[0][i] = 0.0;
    }
    for (int64_t i = 0, n = hr_shape_count(x); i < n; i++) {
        int64_t at[HR_RANK_MAX];
        ref_unflatten(x, i, at);
        c->out[0][at[0] * x->dim[3] + at[3]] += c->in[0][i] / (double)(x->dim[1] * x->dim[2]);
    }
}

const test_ref test_ref_global_avg_pool = {"global_avg_pool", run};
