/* conv2d_weight: every product of the convolution sends its gradient back to its weight. */
#include "ref_conv.h"

static void visit(const ref_call *c, int64_t x, int64_t w, int64_t y) {
    c->out[0][w] += c->in[0][x] * c->in[1][y];
}

static void run(const ref_call *c) {
    for (int64_t i = 0, n = hr_shape_count(&c->sig->out[0].shape); i < n; i++) {
        c->out[0][i] = 0.0;
    }
    ref_conv(c->sig->attr, &c->sig->in[0].shape, &c->sig->out[0].shape, &c->sig->in[1].shape, visit,
             c);
}

const test_ref test_ref_conv2d_weight = {"conv2d_weight", run};
