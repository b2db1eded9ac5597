/* matmul_codes: the weight, number by number, and three loops. */
#include "ref.h"

static double weight(const ref_call *c, int64_t bits, int64_t group, int64_t depth, int64_t n,
                     int64_t k) {
    const int64_t groups = (depth + group - 1) / group, g = k / group;
    const double scale = c->in[2][n * groups + g];
    if (bits == 8) {
        return c->in[1][n * depth + k] * scale;
    }
    const int64_t byte = (int64_t)c->in[1][n * ((depth + 1) / 2) + k / 2];
    const int64_t zeros = (int64_t)c->in[3][n * ((groups + 1) / 2) + g / 2];
    return (double)((k % 2 ? byte / 16 : byte % 16) - (g % 2 ? zeros / 16 : zeros % 16)) * scale;
}

static void run(const ref_call *c) {
    const struct {
        int64_t bits, group, depth;
        bool back;
    } *p = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape, *y = &c->sig->out[0].shape;
    const int64_t inner = x->dim[x->rank - 1], wide = y->dim[y->rank - 1];
    const uint32_t bias = p->bits == 4 ? 4 : 3;
    for (int64_t i = 0, all = hr_shape_count(y); i < all; i++) {
        double sum = c->sig->in_count > bias ? c->in[bias][i % wide] : 0.0;
        for (int64_t q = 0; q < inner; q++) {
            const int64_t n = p->back ? q : i % wide, k = p->back ? i % wide : q;
            sum += c->in[0][i / wide * inner + q] * weight(c, p->bits, p->group, p->depth, n, k);
        }
        c->out[0][i] = sum;
    }
}

const test_ref test_ref_matmul_codes = {"matmul_codes", run};
