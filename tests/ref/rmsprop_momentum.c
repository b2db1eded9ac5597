/* rmsprop with momentum, one number after the other. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const struct { double momentum, alpha, epsilon, decay, root; } *p = c->sig->attr;
    const double rate = c->in[2][0], factor = c->sig->in_count > 5 ? c->in[5][0] : 1.0;
    for (int64_t i = 0, n = hr_shape_count(&c->sig->in[0].shape); i < n; i++) {
        const double w = c->in[0][i], d = factor * c->in[1][i] + p->decay * w;
        const double s = p->alpha * c->in[3][i] + (1.0 - p->alpha) * d * d;
        const double v = p->momentum * c->in[4][i] + d / (sqrt(s + p->root) + p->epsilon);
        c->out[0][i] = w - rate * v;
        c->out[1][i] = s;
        c->out[2][i] = v;
    }
}

const test_ref test_ref_rmsprop_momentum = {"rmsprop_momentum", run};
