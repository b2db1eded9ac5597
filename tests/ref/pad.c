/* pad: everything is border, then every input element is put inside. */
#include "ref.h"

static void run(const ref_call *c) {
    const struct {
        hri_dims before, after, step;
        double value;
    } *p = c->sig->attr;
    const hr_shape *in = &c->sig->in[0].shape, *out = &c->sig->out[0].shape;
    for (int64_t i = 0, n = hr_shape_count(out); i < n; i++) {
        c->out[0][i] = p->value;
    }
    for (int64_t i = 0, n = hr_shape_count(in); i < n; i++) {
        int64_t at[HR_RANK_MAX];
        ref_unflatten(in, i, at);
        for (int d = 0; d < in->rank; d++) {
            at[d] *= d < p->step.count ? p->step.at[d] : 1;
            at[d] += d < p->before.count ? p->before.at[d] : 0;
        }
        c->out[0][ref_flatten(out, at)] = c->in[0][i];
    }
}

const test_ref test_ref_pad = {"pad", run};
