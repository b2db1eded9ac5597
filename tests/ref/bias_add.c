/* bias_add, one number after the other. */
#include "ref.h"

static void run(const ref_call *c) {
    for (int64_t i = 0, n = hr_shape_count(&c->sig->out[0].shape); i < n; i++) {
        c->out[0][i] = c->in[0][i] + c->in[1][i % c->sig->in[1].shape.dim[0]];
    }
}

const test_ref test_ref_bias_add = {"bias_add", run};
