/* conv2d: every product is added where it belongs. */
#include "ref_conv.h"

static void visit(const ref_call *c, int64_t x, int64_t w, int64_t y) {
    c->out[0][y] += c->in[0][x] * c->in[1][w];
}

static void run(const ref_call *c) {
    const int64_t o = c->sig->out[0].shape.dim[3];
    for (int64_t i = 0, n = hr_shape_count(&c->sig->out[0].shape); i < n; i++) {
        c->out[0][i] = c->sig->in_count > 2 ? c->in[2][i % o] : 0.0;
    }
    ref_conv(c->sig->attr, &c->sig->in[0].shape, &c->sig->in[1].shape, &c->sig->out[0].shape, visit,
             c);
}

const test_ref test_ref_conv2d = {"conv2d", run};
