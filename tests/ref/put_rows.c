/* put_rows: a copy of c, then row after row. */
#include "ref.h"

static void run(const ref_call *c) {
    const hr_shape *to = &c->sig->in[0].shape;
    const int64_t rows = to->dim[1], picks = c->sig->in[1].shape.dim[1];
    const int64_t all = hr_shape_count(to), width = all / (to->dim[0] * rows);
    for (int64_t i = 0; i < all; i++) {
        c->out[0][i] = c->in[0][i];
    }
    for (int64_t n = 0; n < to->dim[0]; n++) {
        for (int64_t t = 0; t < picks; t++) {
            for (int64_t k = 0; k < width; k++) {
                c->out[0][(n * rows + (int64_t)c->in[2][t]) * width + k] =
                    c->in[1][(n * picks + t) * width + k];
            }
        }
    }
}

const test_ref test_ref_put_rows = {"put_rows", run};
