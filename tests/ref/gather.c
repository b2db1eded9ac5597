/* gather: every element is looked up. */
#include "ref.h"

static void run(const ref_call *c) {
    const hr_shape *table = &c->sig->in[0].shape, *ids = &c->sig->in[1].shape;
    const hr_shape *y = &c->sig->out[0].shape;
    const int64_t given = *(const int64_t *)c->sig->attr;
    const int axis = (int)(given < 0 ? given + table->rank : given);
    for (int64_t i = 0, n = hr_shape_count(y); i < n; i++) {
        int64_t at[HR_RANK_MAX], from[HR_RANK_MAX], place = 0;
        ref_unflatten(y, i, at);
        for (int d = 0; d < ids->rank; d++) {
            place = place * ids->dim[d] + at[axis + d];
        }
        for (int d = 0; d < table->rank; d++) {
            from[d] = d < axis    ? at[d]
                      : d == axis ? (int64_t)c->in[1][place]
                                  : at[d + ids->rank - 1];
        }
        c->out[0][i] = c->in[0][ref_flatten(table, from)];
    }
}

const test_ref test_ref_gather = {"gather", run};
