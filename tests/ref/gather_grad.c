/* gather_grad: every element of dy is added where its id says. */
#include "ref.h"

static void run(const ref_call *c) {
    const int64_t ids = hr_shape_count(&c->sig->in[1].shape);
    const int64_t width = ids ? hr_shape_count(&c->sig->in[0].shape) / ids : 0;
    for (int64_t i = 0, n = hr_shape_count(&c->sig->out[0].shape); i < n; i++) {
        c->out[0][i] = 0.0;
    }
    for (int64_t i = 0; i < ids * width; i++) {
        c->out[0][(int64_t)c->in[1][i / width] * width + i % width] += c->in[0][i];
    }
}

const test_ref test_ref_gather_grad = {"gather_grad", run};
