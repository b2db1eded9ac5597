/* add_i8: products and their sum rounded to f32 as it says. */
#include <math.h>

#include "ref.h"

static void run(const ref_call *c) {
    const bool relu = *(const bool *)c->sig->attr;
    const double zero = c->in[7][0];
    const double by_a = (double)(float)(c->in[2][0] / c->in[6][0]);
    const double by_b = (double)(float)(c->in[4][0] / c->in[6][0]);
    for (int64_t i = 0, n = hr_shape_count(&c->sig->out[0].shape); i < n; i++) {
        const double a = (double)(float)((c->in[0][i] - c->in[3][0]) * by_a);
        const double b = (double)(float)((c->in[1][i] - c->in[5][0]) * by_b);
        const double y = nearbyint((double)(float)(a + b)) + zero;
        c->out[0][i] = fmin(fmax(y, relu ? zero : 0.0), 255.0);
    }
}

const test_ref test_ref_add_i8 = {"add_i8", run};
