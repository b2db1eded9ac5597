/* sum_to: every input element is added to the element that would be broadcast to it. */
#include "ref.h"

static void run(const ref_call *c) {
    const hr_shape *in = &c->sig->in[0].shape, *out = &c->sig->out[0].shape;
    for (int64_t i = 0, n = hr_shape_count(out); i < n; i++) {
        c->out[0][i] = 0.0;
    }
    for (int64_t i = 0, n = hr_shape_count(in); i < n; i++) {
        int64_t at[HR_RANK_MAX], to = 0;
        ref_unflatten(in, i, at);
        for (int d = 0; d < out->rank; d++) {
            to = to * out->dim[d] + (out->dim[d] == 1 ? 0 : at[d + in->rank - out->rank]);
        }
        c->out[0][to] += c->in[0][i];
    }
}

const test_ref test_ref_sum_to = {"sum_to", run};
