/* linear_cross_entropy_grad: each score's gradient goes to its row of x and its row of w. */
#include "ref.h"

#include <math.h>
#include <string.h>

static void run(const ref_call *c) {
    const struct {
        double smoothing;
        bool sum, keep;
    } *p = c->sig->attr;
    const int64_t classes = c->sig->in[2].shape.dim[0], depth = c->sig->in[2].shape.dim[1];
    const int64_t rows = hr_shape_count(&c->sig->in[3].shape);
    double counted = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        counted += c->in[3][i] >= 0;
    }
    memset(c->out[0], 0, (size_t)(rows * depth) * sizeof(double));
    memset(c->out[1], 0, (size_t)(classes * depth) * sizeof(double));
    for (int64_t i = 0; i < rows * classes; i++) {
        const int64_t row = i / classes, v = i % classes, id = (int64_t)c->in[3][row];
        const double *x = c->in[1] + row * depth, *w = c->in[2] + v * depth;
        double score = p->keep ? c->in[5][i] : 0.0; /* cases keep one block: row by row */
        for (int64_t k = 0; k < depth && !p->keep; k++) {
            score += x[k] * w[k];
        }
        const double target = (v == id ? 1.0 - p->smoothing : 0.0) + p->smoothing / (double)classes;
        const double each = exp(score - c->in[4][row]) - target;
        const double d = id < 0 ? 0.0 : c->in[0][0] * each / (p->sum ? 1.0 : counted);
        for (int64_t k = 0; k < depth; k++) {
            c->out[0][row * depth + k] += d * w[k];
            c->out[1][v * depth + k] += d * x[k];
        }
    }
}

const test_ref test_ref_linear_cross_entropy_grad = {"linear_cross_entropy_grad", run};
