/* cross_entropy by the definition of softmax. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const struct {
        double smoothing;
        bool sum;
    } *p = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape;
    const int64_t width = x->dim[x->rank - 1], rows = hr_shape_count(&c->sig->in[1].shape);
    double total = 0.0, counted = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        const double *row = c->in[0] + i * width;
        double most = row[0], sum = 0.0;
        for (int64_t k = 0; k < width; k++) {
            most = fmax(most, row[k]);
        }
        for (int64_t k = 0; k < width; k++) {
            sum += exp(row[k] - most);
        }
        c->out[1][i] = most + log(sum);
        if (c->in[1][i] < 0) {
            continue;
        }
        counted += 1.0;
        for (int64_t k = 0; k < width; k++) {
            const double target = (k == (int64_t)c->in[1][i] ? 1.0 - p->smoothing : 0.0) +
                                  p->smoothing / (double)width;
            total -= target * (row[k] - c->out[1][i]);
        }
    }
    c->out[0][0] = p->sum || counted == 0.0 ? total : total / counted;
}

const test_ref test_ref_cross_entropy = {"cross_entropy", run};
