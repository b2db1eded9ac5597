/* lstm_cell by its formula. */
#include "ref.h"

#include <math.h>

static double s(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static void run(const ref_call *c) {
    const int64_t H = c->sig->in[1].shape.dim[1];
    for (int64_t i = 0, n = hr_shape_count(&c->sig->in[1].shape); i < n; i++) {
        const double *g = c->in[0] + i / H * 4 * H + i % H;
        c->out[1][i] = s(g[H]) * c->in[1][i] + s(g[0]) * tanh(g[2 * H]);
        c->out[0][i] = s(g[3 * H]) * tanh(c->out[1][i]);
    }
}

const test_ref test_ref_lstm_cell = {"lstm_cell", run};
