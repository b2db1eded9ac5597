/* linear_cross_entropy_train: the loss by the definition of softmax; each score's gradient goes to its row of x and of w. */
#include "ref.h"

#include <math.h>
#include <string.h>

static double score(const double *x, const double *w, int64_t depth) {
    double sum = 0.0;
    for (int64_t k = 0; k < depth; k++) {
        sum += x[k] * w[k];
    }
    return sum;
}

static double lse_of(const double *x, const double *w, int64_t classes, int64_t depth) {
    double most = -INFINITY, sum = 0.0;
    for (int64_t v = 0; v < classes; v++) {
        most = fmax(most, score(x, w + v * depth, depth));
    }
    for (int64_t v = 0; v < classes; v++) {
        sum += exp(score(x, w + v * depth, depth) - most);
    }
    return most + log(sum);
}

static void run(const ref_call *c) {
    const struct {
        double smoothing;
        bool sum, frozen;
    } *p = c->sig->attr;
    const int64_t classes = c->sig->in[1].shape.dim[0], depth = c->sig->in[1].shape.dim[1];
    const int64_t rows = hr_shape_count(&c->sig->in[2].shape);
    double counted = 0.0, total = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        counted += c->in[2][i] >= 0;
    }
    const double part = p->sum || counted == 0.0 ? 1.0 : 1.0 / counted;
    memset(c->out[2], 0, (size_t)(rows * depth) * sizeof(double));
    memset(c->out[3], 0, (size_t)(p->frozen ? 0 : classes * depth) * sizeof(double));
    for (int64_t i = 0; i < rows; i++) {
        const double *x = c->in[0] + i * depth;
        const int64_t id = (int64_t)c->in[2][i];
        c->out[1][i] = lse_of(x, c->in[1], classes, depth);
        for (int64_t v = 0; v < classes && id >= 0; v++) {
            const double *w = c->in[1] + v * depth, log_p = score(x, w, depth) - c->out[1][i];
            const double target =
                (v == id ? 1.0 - p->smoothing : 0.0) + p->smoothing / (double)classes;
            const double d = c->in[3][0] * part * (exp(log_p) - target);
            total -= target * log_p;
            for (int64_t k = 0; k < depth; k++) {
                c->out[2][i * depth + k] += d * w[k];
                if (!p->frozen) {
                    c->out[3][v * depth + k] += d * x[k];
                }
            }
        }
    }
    c->out[0][0] = total * part;
}

const test_ref test_ref_linear_cross_entropy_train = {"linear_cross_entropy_train", run};
