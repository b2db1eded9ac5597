/* fake_quantize: the nearest of 256 multiples of the scale; bits one by one. */
#include <math.h>

#include "ref.h"

static void run(const ref_call *c) {
    const hr_shape *mask = &c->sig->out[1].shape;
    const int64_t n = hr_shape_count(&c->sig->in[0].shape);
    const int64_t each = mask->dim[0] ? n / mask->dim[0] : 0;
    const double scale = c->in[1][0], zero = fmin(fmax(nearbyint(c->in[1][1]), 0.0), 255.0);
    for (int64_t i = 0, bytes = hr_shape_count(mask); i < bytes; i++) {
        c->out[1][i] = 0.0;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = i % each;
        const double by = scale > 0.0 ? (double)(float)(c->in[0][i] / scale) : 0.0;
        const double held = fmin(fmax(nearbyint(by), -zero), 255.0 - zero);
        c->out[0][i] = scale > 0.0 ? held * scale : c->in[0][i];
        c->out[1][i / each * mask->dim[1] + k / 8] +=
            by >= -zero && by <= 255.0 - zero ? 1 << k % 8 : 0;
    }
}

const test_ref test_ref_fake_quantize = {"fake_quantize", run};
