/* batch_norm_stats, channel by channel. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const struct {
        double eps, momentum;
        int64_t rows;
        bool unbiased;
    } *p = c->sig->attr;
    for (int64_t k = 0; k < c->sig->in[0].shape.dim[0]; k++) {
        const double var = fmax(0.0, pow(c->in[3][k], -2.0) - p->eps);
        const double unbiased =
            p->rows > 1 && p->unbiased ? var * (double)p->rows / (double)(p->rows - 1) : var;
        c->out[0][k] = c->in[0][k] + p->momentum * (c->in[2][k] - c->in[0][k]);
        c->out[1][k] = c->in[1][k] + p->momentum * (unbiased - c->in[1][k]);
    }
}

const test_ref test_ref_batch_norm_stats = {"batch_norm_stats", run};
