/* conv_norm_apply_mask: a and w are for the gradient alone.  Element by element, and the bits one by one. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const hr_shape *mask = &c->sig->out[1].shape;
    const int64_t channels = c->sig->in[1].shape.dim[0], n = hr_shape_count(&c->sig->in[0].shape);
    const int64_t each = mask->dim[0] ? n / mask->dim[0] : 0;
    for (int64_t i = 0, bytes = hr_shape_count(mask); i < bytes; i++) {
        c->out[1][i] = 0.0;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = i % channels, bit = i % each;
        const double y =
            (c->in[0][i] - c->in[3][k]) * c->in[4][k] * c->in[1][k] + c->in[2][k] + c->in[5][i];
        c->out[0][i] = fmax(y, 0.0);
        c->out[1][i / each * mask->dim[1] + bit / 8] += y > 0.0 ? 1 << bit % 8 : 0;
    }
}

const test_ref test_ref_conv_norm_apply_mask = {"conv_norm_apply_mask", run};
