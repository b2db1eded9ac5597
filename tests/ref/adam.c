/* adam, one number after the other. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const struct { double beta1, beta2, epsilon, decay; } *p = c->sig->attr;
    const double rate = c->in[2][0], factor = c->sig->in_count > 6 ? c->in[6][0] : 1.0;
    for (int64_t i = 0, n = hr_shape_count(&c->sig->in[0].shape); i < n; i++) {
        const double t = c->in[3][0], w = c->in[0][i];
        const double d = factor * c->in[1][i] + p->decay * w;
        const double m = p->beta1 * c->in[4][i] + (1.0 - p->beta1) * d;
        const double v = p->beta2 * c->in[5][i] + (1.0 - p->beta2) * d * d;
        const double m_hat = m / (1.0 - pow(p->beta1, t)), v_hat = v / (1.0 - pow(p->beta2, t));
        c->out[0][i] = w - rate * (m_hat / (sqrt(v_hat) + p->epsilon));
        c->out[1][i] = m;
        c->out[2][i] = v;
    }
}

const test_ref test_ref_adam = {"adam", run};
