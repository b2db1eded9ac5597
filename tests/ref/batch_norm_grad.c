/* batch_norm_grad by its definition. */
#include "ref.h"

static void run(const ref_call *c) {
    const double *dy = c->in[0], *x = c->in[1];
    const hr_shape *s = &c->sig->in[1].shape;
    const int64_t channels = s->dim[s->rank - 1], all = hr_shape_count(s);
    for (int64_t k = 0; k < channels; k++) {
        const double mean = c->in[3][k], inv = c->in[4][k], rows = (double)(all / channels);
        double sum = 0.0, product = 0.0;
        for (int64_t i = k; i < all; i += channels) {
            sum += dy[i];
            product += dy[i] * (x[i] - mean) * inv;
        }
        c->out[1][k] = product;
        c->out[2][k] = sum;
        for (int64_t i = k; i < all; i += channels) {
            c->out[0][i] =
                c->in[2][k] * inv * (dy[i] - sum / rows - (x[i] - mean) * inv * product / rows);
        }
    }
}

const test_ref test_ref_batch_norm_grad = {"batch_norm_grad", run};
