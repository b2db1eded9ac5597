/* put_along: every element is added where its number says. */
#include "ref.h"

static void run(const ref_call *c) {
    const int64_t axis = *(const int64_t *)c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape, *y = &c->sig->out[0].shape;
    for (int64_t i = 0, n = hr_shape_count(y); i < n; i++) {
        c->out[0][i] = 0.0;
    }
    for (int64_t i = 0, n = hr_shape_count(x); i < n; i++) {
        int64_t at[HR_RANK_MAX];
        ref_unflatten(x, i, at);
        at[axis < 0 ? axis + x->rank : axis] = (int64_t)c->in[1][i];
        c->out[0][ref_flatten(y, at)] += c->in[0][i];
    }
}

const test_ref test_ref_put_along = {"put_along", run};
