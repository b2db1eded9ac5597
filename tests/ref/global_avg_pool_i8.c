/* global_avg_pool_i8: whole sums, then a product rounded to f32 as it says. */
#include <math.h>

#include "ref.h"

static void run(const ref_call *c) {
    const hr_shape *x = &c->sig->in[0].shape;
    const int64_t places = x->dim[1] * x->dim[2], channels = x->dim[3];
    const float unit = (float)(c->in[1][0] / c->in[3][0]), by = unit / (float)places;
    for (int64_t i = 0; i < x->dim[0] * channels; i++) {
        double sum = 0;
        for (int64_t k = 0; k < places; k++) {
            sum += c->in[0][(i / channels * places + k) * channels + i % channels] - c->in[2][0];
        }
        const double y = (double)((float)sum * by);
        c->out[0][i] = fmin(fmax(nearbyint(y) + c->in[4][0], 0.0), 255.0);
    }
}

const test_ref test_ref_global_avg_pool_i8 = {"global_avg_pool_i8", run};
