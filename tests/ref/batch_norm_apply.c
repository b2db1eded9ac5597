/* batch_norm_apply, element by element. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const bool relu = *(const bool *)c->sig->attr;
    const int64_t channels = c->sig->in[1].shape.dim[0];
    for (int64_t i = 0, n = hr_shape_count(&c->sig->in[0].shape); i < n; i++) {
        const int64_t k = i % channels;
        const double z = c->sig->in_count > 5 ? c->in[5][i] : 0.0;
        const double y = (c->in[0][i] - c->in[3][k]) * c->in[4][k] * c->in[1][k] + c->in[2][k] + z;
        c->out[0][i] = relu ? fmax(y, 0.0) : y;
    }
}

const test_ref test_ref_batch_norm_apply = {"batch_norm_apply", run};
