/* binary_cross_entropy_grad, element by element. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const bool sum = *(const bool *)c->sig->attr;
    const int64_t n = hr_shape_count(&c->sig->in[1].shape);
    for (int64_t i = 0; i < n; i++) {
        const double a = c->in[1][i], b = c->in[2][i];
        c->out[0][i] = c->in[0][0] * (1.0 / (1.0 + exp(-a)) - b) / (sum ? 1.0 : (double)n);
    }
}

const test_ref test_ref_binary_cross_entropy_grad = {"binary_cross_entropy_grad", run};
