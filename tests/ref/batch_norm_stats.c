/* batch_norm_stats, channel by channel. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const struct {
        double eps, momentum;
        int64_t rows, until;
        bool unbiased;
    } *p = c->sig->attr;
    const int64_t n = c->sig->in[0].shape.dim[0];
    const double moved = (int64_t)c->step < p->until ? p->momentum : 0.0;
    for (int64_t i = 0; i < hr_shape_count(&c->sig->in[2].shape); i++) { /* part after part */
        const int64_t k = i % n;
        const double mean = i < n ? c->in[0][k] : c->out[0][k],
                     was = i < n ? c->in[1][k] : c->out[1][k];
        const double var = fmax(0.0, pow(c->in[3][i], -2.0) - p->eps);
        const double unbiased =
            p->rows > 1 && p->unbiased ? var * (double)p->rows / (double)(p->rows - 1) : var;
        c->out[0][k] = mean + moved * (c->in[2][i] - mean);
        c->out[1][k] = was + moved * (unbiased - was);
    }
}

const test_ref test_ref_batch_norm_stats = {"batch_norm_stats", run};
