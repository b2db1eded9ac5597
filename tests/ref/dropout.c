/* dropout, one draw after the other. */
#include "ref.h"

#include "base/random.h"

static void run(const ref_call *c) {
    const struct {
        double p;
        int64_t node;
        hri_dims shared;
    } *p = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape;
    const int64_t n = hr_shape_count(x), sample = n && x->rank ? n / x->dim[0] : 1;
    const uint32_t node = p->node < 0 ? c->node : (uint32_t)p->node;
    for (int64_t i = 0; i < n; i++) {
        int64_t at[HR_RANK_MAX], index = 0;
        ref_unflatten(x, i, at);
        for (int d = 1; d < x->rank; d++) {
            int one = 0;
            for (int k = 0; k < p->shared.count; k++) {
                one |= p->shared.at[k] == d;
            }
            index = one ? index : index * x->dim[d] + at[d];
        }
        const uint32_t draw =
            hri_random_u32_of(c->seed, c->step, node, (uint32_t)(i / sample), (uint64_t)index);
        const double u = (double)(draw >> 8) / 16777216.0;
        c->out[0][i] = u >= (double)(float)p->p ? c->in[0][i] / (1.0 - p->p) : 0.0;
    }
}

const test_ref test_ref_dropout = {"dropout", run};
