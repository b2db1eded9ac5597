/* matmul_i8: whole sums in a loop. */
#include "ref.h"

static void run(const ref_call *c) {
    const struct { bool turned, relu; } *p = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape, *y = &c->sig->out[0].shape;
    const int64_t k = x->dim[x->rank - 1], n = y->dim[y->rank - 1];
    for (int64_t i = 0, all = hr_shape_count(y); i < all; i++) {
        int32_t sum = 0;
        for (int64_t q = 0; q < k; q++) {
            const int64_t at = p->turned ? i % n * k + q : q * n + i % n;
            sum += (int32_t)((c->in[0][i / n * k + q] - c->in[5][0]) * c->in[1][at]);
        }
        c->out[0][i] = ref_requantize(c, sum, i % n, p->relu);
    }
}

const test_ref test_ref_matmul_i8 = {"matmul_i8", run};
