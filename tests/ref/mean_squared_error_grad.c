/* mean_squared_error_grad, element by element. */
#include "ref.h"

static void run(const ref_call *c) {
    const bool sum = *(const bool *)c->sig->attr;
    const int64_t n = hr_shape_count(&c->sig->in[1].shape);
    for (int64_t i = 0; i < n; i++) {
        const double a = c->in[1][i], b = c->in[2][i];
        c->out[0][i] = c->in[0][0] * (2.0 * (a - b)) / (sum ? 1.0 : (double)n);
    }
}

const test_ref test_ref_mean_squared_error_grad = {"mean_squared_error_grad", run};
