/* attention_masked_grad with the whole matrix, one head and one query after the other.  Probabilities are those of the lse that is
 * given, but of queries that see none but large numbers: those are made of their scores. */
#include "ref_attention.h"

static void run(const ref_call *c) {
    const ref_attention a = ref_attention_of(c, 1, 6);
    const double scale = a.p->scale != 0.0 ? a.p->scale : 1.0 / sqrt((double)a.D);
    for (uint32_t k = 0; k < c->sig->out_count; k++) {
        for (int64_t i = 0; i < hr_shape_count(&c->sig->out[k].shape); i++) {
            c->out[k][i] = 0.0;
        }
    }
    for (int64_t i = 0; i < a.B * a.H * a.T; i++) {
        const int64_t b = i / (a.H * a.T), h = i / a.T % a.H, t = i % a.T;
        const int far = ref_attention_far(c->in[5][i]);
        double sum = 1.0;
        const double most = far ? ref_attention_sum(&a, b, h, t, &sum) : c->in[5][i];
        for (int64_t s = 0; s < a.S; s++) {
            const double w = exp(ref_attention_score(&a, b, h, t, s) - most) / sum;
            const double kept = ref_attention_kept(&a, b, h, t, s);
            double ds = 0.0;
            for (int64_t d = 0; d < a.D; d++) {
                const int64_t at = ref_attention_at(&a, a.T, b, t, h, d);
                ds += c->in[0][at] *
                      (kept * c->in[3][ref_attention_key(&a, b, s, h, d)] - c->in[4][at]);
            }
            for (int64_t d = 0; d < a.D; d++) {
                const int64_t at = ref_attention_at(&a, a.T, b, t, h, d);
                const int64_t key = ref_attention_key(&a, b, s, h, d);
                c->out[0][at] += scale * w * ds * a.k[key];
                c->out[1][key] += scale * w * ds * a.q[at];
                c->out[2][key] += w * kept * c->in[0][at];
            }
        }
    }
}

const test_ref test_ref_attention_masked_grad = {"attention_masked_grad", run};
