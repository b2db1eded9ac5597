/* concat: every input element is put behind those of the inputs before it. */
#include "ref.h"

static void run(const ref_call *c) {
    const hr_shape *out = &c->sig->out[0].shape;
    const int64_t named = *(const int64_t *)c->sig->attr;
    const int64_t axis = named < 0 ? named + out->rank : named;
    int64_t begin = 0;
    for (uint32_t k = 0; k < c->sig->in_count; k++) {
        const hr_shape *in = &c->sig->in[k].shape;
        for (int64_t i = 0, n = hr_shape_count(in); i < n; i++) {
            int64_t at[HR_RANK_MAX];
            ref_unflatten(in, i, at);
            at[axis] += begin;
            c->out[0][ref_flatten(out, at)] = c->in[k][i];
        }
        begin += in->dim[axis];
    }
}

const test_ref test_ref_concat = {"concat", run};
