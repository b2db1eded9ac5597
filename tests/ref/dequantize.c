/* dequantize: one product. */
#include "ref.h"

static void run(const ref_call *c) {
    for (int64_t i = 0, n = hr_shape_count(&c->sig->out[0].shape); i < n; i++) {
        c->out[0][i] = (c->in[0][i] - c->in[2][0]) * c->in[1][0];
    }
}

const test_ref test_ref_dequantize = {"dequantize", run};
