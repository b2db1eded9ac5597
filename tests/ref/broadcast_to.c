/* broadcast_to: every output element is read where it comes from. */
#include "ref.h"

static void run(const ref_call *c) {
    const hr_shape *in = &c->sig->in[0].shape, *out = &c->sig->out[0].shape;
    for (int64_t i = 0, n = hr_shape_count(out); i < n; i++) {
        int64_t at[HR_RANK_MAX], from = 0;
        ref_unflatten(out, i, at);
        for (int d = 0; d < in->rank; d++) {
            from = from * in->dim[d] + (in->dim[d] == 1 ? 0 : at[d + out->rank - in->rank]);
        }
        c->out[0][i] = c->in[0][from];
    }
}

const test_ref test_ref_broadcast_to = {"broadcast_to", run};
