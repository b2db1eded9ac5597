/* square_sum_ranks, one number after the other. */
#include "ref.h"

static void run(const ref_call *c) {
    double sum = 0.0;
    for (uint32_t i = 0; i < c->sig->in_count; i++) {
        for (int64_t k = 0, n = hr_shape_count(&c->sig->in[i].shape); k < n; k++) {
            sum += c->in[i][k] * c->in[i][k];
        }
    }
    c->out[0][0] = sum;
}

const test_ref test_ref_square_sum_ranks = {"square_sum_ranks", run};
