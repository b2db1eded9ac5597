/* gru_cell by its formula. */
#include "ref.h"

#include <math.h>

static double s(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static void run(const ref_call *c) {
    const int64_t H = c->sig->in[2].shape.dim[1];
    for (int64_t i = 0, n = hr_shape_count(&c->sig->in[2].shape); i < n; i++) {
        const double *x = c->in[0] + i / H * 3 * H + i % H, *y = c->in[1] + i / H * 3 * H + i % H;
        const double z = s(x[H] + y[H]);
        c->out[0][i] = (1.0 - z) * tanh(x[2 * H] + s(x[0] + y[0]) * y[2 * H]) + z * c->in[2][i];
    }
}

const test_ref test_ref_gru_cell = {"gru_cell", run};
