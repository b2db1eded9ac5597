/* noise, one draw after the other. */
#include "ref.h"

#include <math.h>

#include "base/random.h"

static double draw(const ref_call *c, int of, uint32_t sample, uint64_t index) {
    if (of) {
        return (double)(hri_random_u32_of(c->seed, c->step, c->node, sample, index) >> 8) /
                   16777216.0 -
               0.5;
    }
    const uint64_t first = index - index % 2;
    const double a = hri_random_u32_of(c->seed, c->step, c->node, sample, first),
                 b = hri_random_u32_of(c->seed, c->step, c->node, sample, first + 1),
                 radius = sqrt(-2.0 * log((a + 1.0) / 4294967296.0)),
                 angle = 8.0 * atan(1.0) * b / 4294967296.0;
    return radius * (index % 2 ? sin(angle) : cos(angle));
}

static void run(const ref_call *c) {
    const struct {
        int of;
        double scale;
    } *p = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape;
    const int64_t n = hr_shape_count(x), sample = n && x->rank ? n / x->dim[0] : 1;
    for (int64_t i = 0; i < n; i++) {
        c->out[0][i] =
            c->in[0][i] + p->scale * draw(c, p->of, (uint32_t)(i / sample), (uint64_t)(i % sample));
    }
}

const test_ref test_ref_noise = {"noise", run};
