/* min_max: element after element. */
#include <math.h>

#include "ref.h"

static void run(const ref_call *c) {
    c->out[0][0] = c->out[0][1] = 0.0;
    for (int64_t i = 0, n = hr_shape_count(&c->sig->in[0].shape); i < n; i++) {
        c->out[0][0] = fmin(c->out[0][0], c->in[0][i]);
        c->out[0][1] = fmax(c->out[0][1], c->in[0][i]);
    }
}

const test_ref test_ref_min_max = {"min_max", run};
