/* sgd with momentum, one number after the other. */
#include "ref.h"

static void run(const ref_call *c) {
    const struct {
        double momentum, decay;
        bool nesterov;
    } *p = c->sig->attr;
    const double rate = c->in[2][0], factor = c->sig->in_count > 4 ? c->in[4][0] : 1.0;
    const int64_t n = hr_shape_count(&c->sig->in[0].shape),
                  skip = hr_shape_count(&c->sig->in[1].shape) - n; /* of rows the last counts */
    for (int64_t i = 0; i < n; i++) {
        const double w = c->in[0][i], d = factor * c->in[1][skip + i] + p->decay * w;
        const double v = p->momentum * c->in[3][i] + d;
        c->out[0][i] = w - rate * (p->nesterov ? d + p->momentum * v : v);
        c->out[1][i] = v;
    }
}

const test_ref test_ref_sgd_momentum = {"sgd_momentum", run};
