/* gru_cell_grad: the derivative of each gate by itself. */
#include "ref.h"

#include <math.h>

static double s(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static void run(const ref_call *c) {
    const int64_t H = c->sig->in[2].shape.dim[1];
    for (int64_t i = 0, n = hr_shape_count(&c->sig->in[2].shape); i < n; i++) {
        const int64_t at = i / H * 3 * H + i % H;
        const double *x = c->in[0] + at, *y = c->in[1] + at;
        const double r = x[0] + y[0], z = x[H] + y[H], d = c->in[3][i];
        const double inner = x[2 * H] + s(r) * y[2 * H], slope = cosh(inner) * cosh(inner);
        c->out[0][at + 2 * H] = d * s(-z) / slope;
        c->out[1][at + 2 * H] = d * s(-z) / slope * s(r);
        c->out[0][at + H] = c->out[1][at + H] = d * (c->in[2][i] - tanh(inner)) * s(z) * s(-z);
        c->out[0][at] = c->out[1][at] = d * s(-z) / slope * y[2 * H] * s(r) * s(-r);
        c->out[2][i] = d * s(z);
    }
}

const test_ref test_ref_gru_cell_grad = {"gru_cell_grad", run};
