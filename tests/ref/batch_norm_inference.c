/* batch_norm_inference, element by element. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const double eps = *(const double *)c->sig->attr;
    const int64_t channels = c->sig->in[1].shape.dim[0];
    for (int64_t i = 0, n = hr_shape_count(&c->sig->in[0].shape); i < n; i++) {
        const int64_t k = i % channels;
        c->out[0][i] =
            (c->in[0][i] - c->in[3][k]) / sqrt(c->in[4][k] + eps) * c->in[1][k] + c->in[2][k];
    }
}

const test_ref test_ref_batch_norm_inference = {"batch_norm_inference", run};
