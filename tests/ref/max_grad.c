/* max_grad: every element of the result asks whether it is the one its index names. */
#include "ref.h"

static void run(const ref_call *c) {
    const hr_shape *to = &c->sig->out[0].shape;
    const hri_dims *axes = c->sig->attr;
    uint32_t gone = axes->count ? 0 : ~0u;
    for (int i = 0; i < axes->count; i++) {
        gone |= 1u << (axes->at[i] < 0 ? axes->at[i] + to->rank : axes->at[i]);
    }
    for (int64_t i = 0, n = hr_shape_count(to); i < n; i++) {
        int64_t at[HR_RANK_MAX], kept = 0, index = 0;
        ref_unflatten(to, i, at);
        for (int d = 0; d < to->rank; d++) {
            if (gone >> d & 1u) {
                index = index * to->dim[d] + at[d];
            } else {
                kept = kept * to->dim[d] + at[d];
            }
        }
        c->out[0][i] = (double)index == c->in[1][kept] ? c->in[0][kept] : 0.0;
    }
}

const test_ref test_ref_max_grad = {"max_grad", run};
