/* batch_norm_moments by its definition: the mean, then the variance around it. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const double eps = *(const double *)c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape;
    const int64_t channels = x->dim[x->rank - 1], all = hr_shape_count(x);
    for (int64_t k = 0; k < channels; k++) {
        double mean = 0.0, var = 0.0;
        for (int64_t i = k; i < all; i += channels) {
            mean += c->in[0][i] * (double)channels / (double)all;
        }
        for (int64_t i = k; i < all; i += channels) {
            const double d = c->in[0][i] - mean;
            var += d * d * (double)channels / (double)all;
        }
        c->out[0][k] = mean;
        c->out[1][k] = 1.0 / sqrt(var + eps);
    }
}

const test_ref test_ref_batch_norm_moments = {"batch_norm_moments", run};
