/* sgd, one number after the other. */
#include "ref.h"

static void run(const ref_call *c) {
    const double decay = *(const double *)c->sig->attr;
    for (int64_t i = 0, n = hr_shape_count(&c->sig->in[0].shape); i < n; i++) {
        const double w = c->in[0][i];
        c->out[0][i] = w - c->in[2][0] * (c->in[1][i] + decay * w);
    }
}

const test_ref test_ref_sgd = {"sgd", run};
