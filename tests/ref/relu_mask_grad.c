/* relu_mask_grad: bit after bit. */
#include "ref.h"

static void run(const ref_call *c) {
    const hr_shape *mask = &c->sig->in[1].shape;
    const int64_t n = hr_shape_count(&c->sig->in[0].shape);
    const int64_t each = mask->dim[0] ? n / mask->dim[0] : 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = i % each;
        const int byte = (int)c->in[1][i / each * mask->dim[1] + k / 8];
        c->out[0][i] = byte >> k % 8 & 1 ? c->in[0][i] : 0.0;
    }
}

const test_ref test_ref_relu_mask_grad = {"relu_mask_grad", run};
