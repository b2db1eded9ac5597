/* matmul: three loops. */
#include "ref.h"

static void run(const ref_call *c) {
    const struct { bool ta, tb; } *p = c->sig->attr;
    const hr_shape *a = &c->sig->in[0].shape, *b = &c->sig->in[1].shape, *y = &c->sig->out[0].shape;
    const int64_t m = y->dim[y->rank - 2], n = y->dim[y->rank - 1];
    const int64_t k = a->dim[a->rank - (p->ta ? 2 : 1)];
    const int64_t batch = m * n > 0 ? hr_shape_count(y) / (m * n) : 0;
    for (int64_t q = 0; q < batch; q++) {
        const double *x = c->in[0] + q * m * k, *w = c->in[1] + (b->rank > 2 ? q * k * n : 0);
        for (int64_t i = 0; i < m; i++) {
            for (int64_t j = 0; j < n; j++) {
                double sum = c->sig->in_count > 2 ? c->in[2][j] : 0.0;
                for (int64_t d = 0; d < k; d++) {
                    sum += x[p->ta ? d * m + i : i * k + d] * w[p->tb ? j * k + d : d * n + j];
                }
                c->out[0][(q * m + i) * n + j] = sum;
            }
        }
    }
}

const test_ref test_ref_matmul = {"matmul", run};
