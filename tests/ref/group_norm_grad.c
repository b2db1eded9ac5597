/* group_norm_grad by its definition: one group of one sample after the other. */
#include "ref.h"

static void run(const ref_call *c) {
    const double *dy = c->in[0], *gamma = c->in[2];
    const hr_shape *x = &c->sig->in[1].shape;
    const struct {
        double eps;
        int64_t groups;
    } *p = c->sig->attr;
    const int64_t groups = p->groups, width = x->dim[x->rank - 1] / groups, n = x->dim[0];
    const int64_t places = n ? hr_shape_count(x) / (n * groups * width) : 0;
    for (int64_t k = 0; k < groups * width; k++) {
        c->out[1][k] = 0.0;
        c->out[2][k] = 0.0;
    }
    for (int64_t q = 0; q < n * groups; q++) {
        const int64_t first = q / groups * places * groups * width + q % groups * width;
        const double mean = c->in[3][q], inv = c->in[4][q];
        double sum = 0.0, product = 0.0, count = (double)(places * width);
        for (int64_t i = 0; i < places * width; i++) {
            const int64_t at = first + i / width * groups * width + i % width;
            const int64_t k = at % (groups * width);
            const double xhat = (c->in[1][at] - mean) * inv;
            sum += dy[at] * gamma[k];
            product += dy[at] * gamma[k] * xhat;
            c->out[1][k] += dy[at] * xhat;
            c->out[2][k] += dy[at];
        }
        for (int64_t i = 0; i < places * width; i++) {
            const int64_t at = first + i / width * groups * width + i % width;
            const double xhat = (c->in[1][at] - mean) * inv;
            c->out[0][at] = inv * (dy[at] * gamma[at % (groups * width)] - sum / count -
                                   xhat * product / count);
        }
    }
}

const test_ref test_ref_group_norm_grad = {"group_norm_grad", run};
