/* linear_cross_entropy: scores by two loops, then the definition of softmax, one row at a time. */
#include "ref.h"

#include <math.h>

static double score(const double *x, const double *w, int64_t depth) {
    double sum = 0.0;
    for (int64_t k = 0; k < depth; k++) {
        sum += x[k] * w[k];
    }
    return sum;
}

static void run(const ref_call *c) {
    const struct {
        double smoothing;
        bool sum, keep;
    } *p = c->sig->attr;
    const int64_t classes = c->sig->in[1].shape.dim[0], depth = c->sig->in[1].shape.dim[1];
    const int64_t rows = hr_shape_count(&c->sig->in[2].shape);
    double total = 0.0, counted = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        const double *x = c->in[0] + i * depth;
        double most = -INFINITY, sum = 0.0;
        for (int64_t v = 0; v < classes; v++) {
            most = fmax(most, score(x, c->in[1] + v * depth, depth));
        }
        for (int64_t v = 0; v < classes; v++) {
            sum += exp(score(x, c->in[1] + v * depth, depth) - most);
        }
        const double lse = c->out[1][i] = most + log(sum);
        for (int64_t v = 0; p->keep && v < classes; v++) { /* cases keep one block: row by row */
            c->out[2][i * classes + v] = score(x, c->in[1] + v * depth, depth);
        }
        if (c->in[2][i] < 0) {
            continue;
        }
        counted += 1.0;
        for (int64_t v = 0; v < classes; v++) {
            const double target = (v == (int64_t)c->in[2][i] ? 1.0 - p->smoothing : 0.0) +
                                  p->smoothing / (double)classes;
            total -= target * (score(x, c->in[1] + v * depth, depth) - lse);
        }
    }
    c->out[0][0] = p->sum || counted == 0.0 ? total : total / counted;
}

const test_ref test_ref_linear_cross_entropy = {"linear_cross_entropy", run};
