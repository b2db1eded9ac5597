/* take_along: every element is looked up. */
#include "ref.h"

static void run(const ref_call *c) {
    const int64_t axis = *(const int64_t *)c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape, *y = &c->sig->out[0].shape;
    for (int64_t i = 0, n = hr_shape_count(y); i < n; i++) {
        int64_t at[HR_RANK_MAX];
        ref_unflatten(y, i, at);
        at[axis < 0 ? axis + x->rank : axis] = (int64_t)c->in[1][i];
        c->out[0][i] = c->in[0][ref_flatten(x, at)];
    }
}

const test_ref test_ref_take_along = {"take_along", run};
