/* lion, one number after the other. */
#include "ref.h"

static void run(const ref_call *c) {
    const struct { double beta1, beta2, decay; } *p = c->sig->attr;
    const double rate = c->in[2][0], factor = c->sig->in_count > 4 ? c->in[4][0] : 1.0;
    for (int64_t i = 0, n = hr_shape_count(&c->sig->in[0].shape); i < n; i++) {
        const double w = c->in[0][i], m = c->in[3][i], d = factor * c->in[1][i];
        const double x = p->beta1 * m + (1.0 - p->beta1) * d;
        c->out[0][i] = w - rate * ((x > 0) - (x < 0) + p->decay * w);
        c->out[1][i] = p->beta2 * m + (1.0 - p->beta2) * d;
    }
}

const test_ref test_ref_lion = {"lion", run};
