/* flip: every element is put where it comes from the other end. */
#include "ref.h"

static void run(const ref_call *c) {
    const hri_dims *axes = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape;
    for (int64_t i = 0, n = hr_shape_count(x); i < n; i++) {
        int64_t at[HR_RANK_MAX];
        ref_unflatten(x, i, at);
        for (int d = 0; d < x->rank; d++) {
            int flips = axes->count == 0;
            for (int k = 0; k < axes->count; k++) {
                flips |= (axes->at[k] < 0 ? axes->at[k] + x->rank : axes->at[k]) == d;
            }
            at[d] = flips ? x->dim[d] - 1 - at[d] : at[d];
        }
        c->out[0][ref_flatten(x, at)] = c->in[0][i];
    }
}

const test_ref test_ref_flip = {"flip", run};
