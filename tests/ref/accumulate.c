/* accumulate, one number after the other. */
#include "ref.h"

static void run(const ref_call *c) {
    for (int64_t i = 0, n = hr_shape_count(&c->sig->in[0].shape); i < n; i++) {
        const double before = c->in[3][0] == 1.0 ? 0.0 : (1.0 - c->in[3][0]) * c->in[0][i];
        c->out[0][i] = before + c->in[2][0] * c->in[1][i];
    }
}

const test_ref test_ref_accumulate = {"accumulate", run};
