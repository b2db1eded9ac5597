/* sgd, one number after the other. */
#include "ref.h"

static void run(const ref_call *c) {
    const struct { double decay; } *p = c->sig->attr;
    const double rate = c->in[2][0], factor = c->sig->in_count > 3 ? c->in[3][0] : 1.0;
    for (int64_t i = 0, n = hr_shape_count(&c->sig->in[0].shape); i < n; i++) {
        const double w = c->in[0][i];
        c->out[0][i] = w - rate * (factor * c->in[1][i] + p->decay * w);
    }
}

const test_ref test_ref_sgd = {"sgd", run};
