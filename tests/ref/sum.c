/* sum: every input element is added to the result it belongs to. */
#include "ref.h"

static void run(const ref_call *c) {
    const hr_shape *in = &c->sig->in[0].shape;
    const struct {
        hri_dims axes;
        bool keep;
    } *p = c->sig->attr;
    uint32_t summed = p->axes.count ? 0 : ~0u;
    for (int i = 0; i < p->axes.count; i++) {
        summed |= 1u << (p->axes.at[i] < 0 ? p->axes.at[i] + in->rank : p->axes.at[i]);
    }
    for (int64_t i = 0, n = hr_shape_count(&c->sig->out[0].shape); i < n; i++) {
        c->out[0][i] = 0.0;
    }
    for (int64_t i = 0, n = hr_shape_count(in); i < n; i++) {
        int64_t at[HR_RANK_MAX], to = 0;
        ref_unflatten(in, i, at);
        for (int d = 0; d < in->rank; d++) {
            to = summed >> d & 1u ? to : to * in->dim[d] + at[d];
        }
        c->out[0][to] += c->in[0][i];
    }
}

const test_ref test_ref_sum = {"sum", run};
