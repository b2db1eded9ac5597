/* layer_norm by its definition: one group of one sample after the other. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const struct {
        double eps;
        int64_t groups;
    } *p = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape;
    const int64_t groups = 1, width = x->dim[x->rank - 1], places = 1;
    const int64_t n = hr_shape_count(x) / width;
    for (int64_t q = 0; q < n * groups; q++) {
        const int64_t first = q / groups * places * groups * width + q % groups * width;
        double mean = 0.0, var = 0.0;
        for (int64_t i = 0; i < places * width; i++) {
            mean += c->in[0][first + i / width * groups * width + i % width];
        }
        mean = mean / (double)(places * width);
        for (int64_t i = 0; i < places * width; i++) {
            var += pow(c->in[0][first + i / width * groups * width + i % width] - mean, 2.0);
        }
        const double inv = 1.0 / sqrt(var / (double)(places * width) + p->eps);
        for (int64_t i = 0; i < places * width; i++) {
            const int64_t at = first + i / width * groups * width + i % width;
            const int64_t k = at % (groups * width);
            c->out[0][at] = (c->in[0][at] - mean) * inv * c->in[1][k] + c->in[2][k];
        }
        c->out[1][q] = mean;
        c->out[2][q] = inv;
    }
}

const test_ref test_ref_layer_norm = {"layer_norm", run};
