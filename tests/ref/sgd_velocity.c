/* sgd_velocity, one number after the other. */
#include "ref.h"

static void run(const ref_call *c) {
    const struct { double momentum; } *p = c->sig->attr;
    const double keep = c->in[3][0] != 0.0 ? p->momentum : 1.0;
    for (int64_t i = 0, n = hr_shape_count(&c->sig->in[0].shape); i < n; i++) {
        c->out[0][i] = keep * c->in[0][i] + c->in[2][0] * c->in[1][i];
    }
}

const test_ref test_ref_sgd_velocity = {"sgd_velocity", run};
