/* slice: every element of the box is looked up. */
#include "ref.h"

static void run(const ref_call *c) {
    const struct { hri_dims begin, size, step; } *p = c->sig->attr;
    const hr_shape *in = &c->sig->in[0].shape, *out = &c->sig->out[0].shape;
    for (int64_t i = 0, n = hr_shape_count(out); i < n; i++) {
        int64_t at[HR_RANK_MAX];
        ref_unflatten(out, i, at);
        for (int d = 0; d < p->step.count; d++) {
            at[d] *= p->step.at[d];
        }
        for (int d = 0; d < p->begin.count; d++) {
            at[d] += p->begin.at[d] < 0 ? p->begin.at[d] + in->dim[d] : p->begin.at[d];
        }
        c->out[0][i] = c->in[0][ref_flatten(in, at)];
    }
}

const test_ref test_ref_slice = {"slice", run};
