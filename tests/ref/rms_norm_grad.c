/* rms_norm_grad by its definition: one group of one sample after the other. */
#include "ref.h"

static void run(const ref_call *c) {
    const double *dy = c->in[0], *gamma = c->in[2];
    const hr_shape *x = &c->sig->in[1].shape;
    const int64_t groups = 1, width = x->dim[x->rank - 1], places = 1;
    const int64_t n = hr_shape_count(x) / width;
    for (int64_t k = 0; k < groups * width; k++) {
        c->out[1][k] = 0.0;
    }
    for (int64_t q = 0; q < n * groups; q++) {
        const int64_t first = q / groups * places * groups * width + q % groups * width;
        const double mean = 0.0, inv = c->in[3][q];
        double product = 0.0, count = (double)(places * width);
        for (int64_t i = 0; i < places * width; i++) {
            const int64_t at = first + i / width * groups * width + i % width;
            const int64_t k = at % (groups * width);
            const double xhat = (c->in[1][at] - mean) * inv;
            product += dy[at] * gamma[k] * xhat;
            c->out[1][k] += dy[at] * xhat;
        }
        for (int64_t i = 0; i < places * width; i++) {
            const int64_t at = first + i / width * groups * width + i % width;
            const double xhat = (c->in[1][at] - mean) * inv;
            c->out[0][at] = inv * (dy[at] * gamma[at % (groups * width)] - xhat * product / count);
        }
    }
}

const test_ref test_ref_rms_norm_grad = {"rms_norm_grad", run};
