/* transpose: every element is put where its turned position says. */
#include "ref.h"

static void run(const ref_call *c) {
    const hri_dims *order = c->sig->attr;
    const hr_shape *in = &c->sig->in[0].shape, *out = &c->sig->out[0].shape;
    for (int64_t i = 0, n = hr_shape_count(in); i < n; i++) {
        int64_t at[HR_RANK_MAX], to[HR_RANK_MAX];
        ref_unflatten(in, i, at);
        for (int d = 0; d < in->rank; d++) {
            const int64_t named = order->count ? order->at[d] : in->rank - 1 - d;
            to[d] = at[named < 0 ? named + in->rank : named];
        }
        c->out[0][ref_flatten(out, to)] = c->in[0][i];
    }
}

const test_ref test_ref_transpose = {"transpose", run};
