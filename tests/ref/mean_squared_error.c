/* mean_squared_error, element by element. */
#include "ref.h"

static void run(const ref_call *c) {
    const bool sum = *(const bool *)c->sig->attr;
    const int64_t n = hr_shape_count(&c->sig->in[0].shape);
    double total = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double a = c->in[0][i], b = c->in[1][i];
        total += (a - b) * (a - b);
    }
    c->out[0][0] = sum || n == 0 ? total : total / (double)n;
}

const test_ref test_ref_mean_squared_error = {"mean_squared_error", run};
