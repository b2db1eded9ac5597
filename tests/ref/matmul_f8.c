/* matmul_f8: sums of decoded numbers in doubles. */
#include <math.h>

#include "ref.h"

static void run(const ref_call *c) {
    const struct { bool turned, relu; } *p = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape;
    const int64_t k = x->dim[x->rank - 1], n = c->sig->in[1].shape.dim[p->turned ? 0 : 1];
    for (int64_t i = 0, all = hr_shape_count(&c->sig->out[0].shape); i < all; i++) {
        const int64_t row = i / n, column = i % n;
        double sum = 0;
        for (int64_t q = 0; q < k; q++) {
            sum += ref_f8((int)c->in[0][row * k + q]) *
                   ref_f8((int)c->in[1][p->turned ? column * k + q : q * n + column]);
        }
        const double is = sum * c->in[4][0] * c->in[2][column] + c->in[3][column];
        c->out[0][i] = p->relu ? fmax(is, 0.0) : is;
    }
}

const test_ref test_ref_matmul_f8 = {"matmul_f8", run};
