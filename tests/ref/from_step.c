/* from_step: one number everywhere. */
#include "ref.h"

static void run(const ref_call *c) {
    const int64_t step = *(const int64_t *)c->sig->attr;
    for (int64_t i = 0, n = hr_shape_count(&c->sig->out[0].shape); i < n; i++) {
        c->out[0][i] = (int64_t)c->step >= step;
    }
}

const test_ref test_ref_from_step = {"from_step", run};
