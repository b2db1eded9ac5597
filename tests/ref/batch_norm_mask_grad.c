/* batch_norm_mask_grad by its definition: what the bits stop is 0. */
#include "ref.h"

static double passed(const ref_call *c, int64_t i) {
    const hr_shape *mask = &c->sig->in[5].shape;
    const int64_t each = hr_shape_count(&c->sig->in[1].shape) / mask->dim[0], k = i % each;
    const int byte = (int)c->in[5][i / each * mask->dim[1] + k / 8];
    return byte >> k % 8 & 1 ? c->in[0][i] : 0.0;
}

static void run(const ref_call *c) {
    const double *x = c->in[1];
    const hr_shape *s = &c->sig->in[1].shape;
    const int64_t channels = s->dim[s->rank - 1], all = hr_shape_count(s);
    for (int64_t k = 0; k < channels; k++) {
        const double mean = c->in[3][k], inv = c->in[4][k], rows = (double)(all / channels);
        double sum = 0.0, product = 0.0;
        for (int64_t i = k; i < all; i += channels) {
            sum += passed(c, i);
            product += passed(c, i) * (x[i] - mean) * inv;
        }
        c->out[1][k] = product;
        c->out[2][k] = sum;
        for (int64_t i = k; i < all; i += channels) {
            const double xhat = (x[i] - mean) * inv, d = passed(c, i);
            c->out[0][i] = c->in[2][k] * inv * (d - sum / rows - xhat * product / rows);
            c->out[3][i] = d;
        }
    }
}

const test_ref test_ref_batch_norm_mask_grad = {"batch_norm_mask_grad", run};
