/* rotary: each number from its partner. */
#include "ref.h"

static void run(const ref_call *c) {
    const struct {
        int neighbours;
        bool back;
    } *p = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape, *table = &c->sig->in[1].shape;
    const int64_t half = table->dim[table->rank - 1];
    for (int64_t i = 0, n = hr_shape_count(x); i < n; i++) {
        int64_t at[HR_RANK_MAX];
        ref_unflatten(x, i, at);
        if (at[3] >= 2 * half) {
            c->out[0][i] = c->in[0][i];
            continue;
        }
        const int second = p->neighbours ? at[3] % 2 != 0 : at[3] >= half;
        const int64_t pair = p->neighbours ? at[3] / 2 : at[3] % half;
        const int64_t partner = i + (second ? -1 : 1) * (p->neighbours ? 1 : half);
        const int64_t angle = ((table->rank == 3 ? at[0] : 0) * x->dim[1] + at[1]) * half + pair;
        const double sine = c->in[2][angle] * (second ? 1.0 : -1.0) * (p->back ? -1.0 : 1.0);
        c->out[0][i] = c->in[0][i] * c->in[1][angle] + c->in[0][partner] * sine;
    }
}

const test_ref test_ref_rotary = {"rotary", run};
