/* lstm_cell_grad: the derivative of each gate by itself. */
#include "ref.h"

#include <math.h>

static double s(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static void run(const ref_call *c) {
    const int64_t H = c->sig->in[1].shape.dim[1];
    for (int64_t i = 0, n = hr_shape_count(&c->sig->in[1].shape); i < n; i++) {
        const double *g = c->in[0] + i / H * 4 * H + i % H;
        double *d = c->out[0] + i / H * 4 * H + i % H;
        const double cosh_next = cosh(c->in[2][i]), cosh_g = cosh(g[2 * H]);
        const double dnext = (c->sig->in_count > 4 ? c->in[4][i] : 0.0) +
                             c->in[3][i] * s(g[3 * H]) / (cosh_next * cosh_next);
        d[0] = dnext * tanh(g[2 * H]) * s(g[0]) * s(-g[0]);
        d[H] = dnext * c->in[1][i] * s(g[H]) * s(-g[H]);
        d[2 * H] = dnext * s(g[0]) / (cosh_g * cosh_g);
        d[3 * H] = c->in[3][i] * tanh(c->in[2][i]) * s(g[3 * H]) * s(-g[3 * H]);
        c->out[1][i] = dnext * s(g[H]);
    }
}

const test_ref test_ref_lstm_cell_grad = {"lstm_cell_grad", run};
