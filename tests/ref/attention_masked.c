/* attention_masked with the whole matrix, one head and one query after the other. */
#include "ref_attention.h"

#include <stdlib.h>

static void run(const ref_call *c) {
    const ref_attention a = ref_attention_of(c, 0, 3);
    double *w = calloc((size_t)a.S + 1, sizeof *w);
    for (int64_t i = 0; i < a.B * a.H * a.T; i++) {
        const int64_t b = i / (a.H * a.T), h = i / a.T % a.H, t = i % a.T;
        double sum;
        const double most = ref_attention_sum(&a, b, h, t, &sum);
        c->out[1][i] = ref_attention_lse(&a, most, sum);
        for (int64_t s = 0; s < a.S; s++) { /* one that sees nothing gives 0 */
            w[s] = (sum > 0 ? exp(ref_attention_score(&a, b, h, t, s) - most) / sum : 0.0) *
                   ref_attention_kept(&a, b, h, t, s);
        }
        for (int64_t d = 0; d < a.D; d++) {
            double o = 0.0;
            for (int64_t s = 0; s < a.S; s++) {
                o += w[s] * c->in[2][ref_attention_key(&a, b, s, h, d)];
            }
            c->out[0][ref_attention_at(&a, a.T, b, t, h, d)] = o;
        }
    }
    free(w);
}

const test_ref test_ref_attention_masked = {"attention_masked", run};
