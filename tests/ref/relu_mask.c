/* relu_mask: the maximum, and the bits one by one. */
#include "ref.h"

static void run(const ref_call *c) {
    const hr_shape *mask = &c->sig->out[1].shape;
    const int64_t n = hr_shape_count(&c->sig->in[0].shape);
    const int64_t each = mask->dim[0] ? n / mask->dim[0] : 0;
    for (int64_t i = 0, bytes = hr_shape_count(mask); i < bytes; i++) {
        c->out[1][i] = 0.0;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = i % each;
        c->out[0][i] = c->in[0][i] > 0.0 ? c->in[0][i] : 0.0;
        c->out[1][i / each * mask->dim[1] + k / 8] += c->in[0][i] > 0.0 ? 1 << k % 8 : 0;
    }
}

const test_ref test_ref_relu_mask = {"relu_mask", run};
