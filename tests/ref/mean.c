/* mean: every input element is added to the result it belongs to; then all are divided. */
#include "ref.h"

static void run(const ref_call *c) {
    const hr_shape *in = &c->sig->in[0].shape;
    const hri_dims *axes = c->sig->attr;
    const int64_t results = hr_shape_count(&c->sig->out[0].shape), n = hr_shape_count(in);
    uint32_t gone = axes->count ? 0 : ~0u;
    double each = 1.0;
    for (int i = 0; i < axes->count; i++) {
        gone |= 1u << (axes->at[i] < 0 ? axes->at[i] + in->rank : axes->at[i]);
    }
    for (int d = 0; d < in->rank; d++) {
        each *= gone >> d & 1u ? (double)in->dim[d] : 1.0;
    }
    for (int64_t i = 0; i < results; i++) {
        c->out[0][i] = 0.0;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at[HR_RANK_MAX], to = 0;
        ref_unflatten(in, i, at);
        for (int d = 0; d < in->rank; d++) {
            to = gone >> d & 1u ? to : to * in->dim[d] + at[d];
        }
        c->out[0][to] += c->in[0][i];
    }
    for (int64_t i = 0; i < results; i++) {
        c->out[0][i] /= each;
    }
}

const test_ref test_ref_mean = {"mean", run};
