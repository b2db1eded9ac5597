/* cumsum: every sum from its beginning. */
#include "ref.h"

static void run(const ref_call *c) {
    const struct {
        int64_t axis;
        bool reverse, exclusive;
    } *p = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape;
    const int axis = (int)(p->axis < 0 ? p->axis + x->rank : p->axis);
    for (int64_t i = 0, n = hr_shape_count(x); i < n; i++) {
        int64_t at[HR_RANK_MAX];
        ref_unflatten(x, i, at);
        const int64_t own = at[axis];
        c->out[0][i] = 0.0;
        for (at[axis] = 0; at[axis] < x->dim[axis]; at[axis]++) {
            const int before = p->reverse ? at[axis] > own : at[axis] < own;
            if (before || (at[axis] == own && !p->exclusive)) {
                c->out[0][i] += c->in[0][ref_flatten(x, at)];
            }
        }
    }
}

const test_ref test_ref_cumsum = {"cumsum", run};
