/* cross_entropy_soft by the definition of softmax. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const struct {
        double smoothing;
        bool sum;
    } *p = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape;
    const int64_t width = x->dim[x->rank - 1], rows = hr_shape_count(x) / width;
    double total = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0.0;
        for (int64_t k = 0; k < width; k++) {
            sum += exp(c->in[0][i * width + k]);
        }
        c->out[1][i] = log(sum);
        for (int64_t k = 0; k < width; k++) {
            const double t =
                (1.0 - p->smoothing) * c->in[1][i * width + k] + p->smoothing / (double)width;
            total -= t * log(exp(c->in[0][i * width + k]) / sum);
        }
    }
    c->out[0][0] = p->sum || rows == 0 ? total : total / (double)rows;
}

const test_ref test_ref_cross_entropy_soft = {"cross_entropy_soft", run};
