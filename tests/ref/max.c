/* max: every input element challenges the result it belongs to. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const hr_shape *in = &c->sig->in[0].shape;
    const hri_dims *axes = c->sig->attr;
    uint32_t gone = axes->count ? 0 : ~0u;
    for (int i = 0; i < axes->count; i++) {
        gone |= 1u << (axes->at[i] < 0 ? axes->at[i] + in->rank : axes->at[i]);
    }
    for (int64_t i = 0, n = hr_shape_count(&c->sig->out[0].shape); i < n; i++) {
        c->out[0][i] = -INFINITY;
    }
    for (int64_t i = 0, n = hr_shape_count(in); i < n; i++) {
        int64_t at[HR_RANK_MAX], to = 0, index = 0;
        ref_unflatten(in, i, at);
        for (int d = 0; d < in->rank; d++) {
            if (gone >> d & 1u) {
                index = index * in->dim[d] + at[d];
            } else {
                to = to * in->dim[d] + at[d];
            }
        }
        if (c->in[0][i] > c->out[0][to]) {
            c->out[0][to] = c->in[0][i];
            c->out[1][to] = (double)index;
        }
    }
}

const test_ref test_ref_max = {"max", run};
