/* quantize: f32's quotient, the nearest whole number, even on ties. */
#include <math.h>

#include "ref.h"

static void run(const ref_call *c) {
    for (int64_t i = 0, n = hr_shape_count(&c->sig->out[0].shape); i < n; i++) {
        const double q = (double)(float)(c->in[0][i] / c->in[1][0]);
        c->out[0][i] = fmin(fmax(nearbyint(q) + c->in[2][0], 0.0), 255.0);
    }
}

const test_ref test_ref_quantize = {"quantize", run};
