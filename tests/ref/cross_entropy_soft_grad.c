/* cross_entropy_soft_grad, element by element. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const struct {
        double smoothing;
        bool sum;
    } *p = c->sig->attr;
    const hr_shape *x = &c->sig->in[1].shape;
    const int64_t width = x->dim[x->rank - 1], all = hr_shape_count(x);
    const double even = p->smoothing / (double)width;
    for (int64_t i = 0; i < all; i++) {
        double sum = 0.0;
        for (int64_t k = i / width * width; k < (i / width + 1) * width; k++) {
            sum += (1.0 - p->smoothing) * c->in[2][k] + even;
        }
        const double t = (1.0 - p->smoothing) * c->in[2][i] + even;
        const double d = exp(c->in[1][i] - c->in[3][i / width]) * sum - t;
        c->out[0][i] = c->in[0][0] * d / (p->sum ? 1.0 : (double)(all / width));
    }
}

const test_ref test_ref_cross_entropy_soft_grad = {"cross_entropy_soft_grad", run};
