/* cross_entropy_grad, element by element. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const struct {
        double smoothing;
        bool sum;
    } *p = c->sig->attr;
    const hr_shape *x = &c->sig->in[1].shape;
    const int64_t width = x->dim[x->rank - 1], rows = hr_shape_count(&c->sig->in[2].shape);
    double counted = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        counted += c->in[2][i] >= 0;
    }
    for (int64_t i = 0; i < rows * width; i++) {
        const double id = c->in[2][i / width];
        const double target =
            ((double)(i % width) == id ? 1.0 - p->smoothing : 0.0) + p->smoothing / (double)width;
        const double d = exp(c->in[1][i] - c->in[3][i / width]) - target;
        c->out[0][i] = id < 0 ? 0.0 : c->in[0][0] * d / (p->sum ? 1.0 : counted);
    }
}

const test_ref test_ref_cross_entropy_grad = {"cross_entropy_grad", run};
