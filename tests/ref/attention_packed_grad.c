/* attention_packed_grad with the whole matrix, one head and one query after the other. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const struct {
        double scale;
        bool causal;
    } *p = c->sig->attr;
    const int64_t *dim = c->sig->in[1].shape.dim;
    const int64_t T = c->sig->in[0].shape.dim[1], S = dim[1], H = dim[3], D = dim[4];
    const double scale = p->scale != 0.0 ? p->scale : 1.0 / sqrt((double)D);
    for (uint32_t k = 0; k < c->sig->out_count; k++) {
        for (int64_t i = 0; i < hr_shape_count(&c->sig->out[k].shape); i++) {
            c->out[k][i] = 0.0;
        }
    }
    for (int64_t i = 0; i < dim[0] * H * T; i++) {
        const int64_t b = i / (H * T), h = i / T % H, t = i % T, end = p->causal ? t + 1 : S;
        const double *o = c->in[2] + ((b * T + t) * H + h) * D;
        const double *dy = c->in[0] + ((b * T + t) * H + h) * D;
        for (int64_t s = 0; s < end; s++) {
            double score = 0.0, ds = 0.0;
            for (int64_t d = 0; d < D; d++) {
                score += scale * c->in[1][((((b * S + t) * 3 + 0) * H + h) * D + d)] *
                         c->in[1][((((b * S + s) * 3 + 1) * H + h) * D + d)];
                ds += dy[d] * (c->in[1][((((b * S + s) * 3 + 2) * H + h) * D + d)] - o[d]);
            }
            const double w = exp(score - c->in[3][i]);
            for (int64_t d = 0; d < D; d++) {
                c->out[0][((((b * S + t) * 3 + 0) * H + h) * D + d)] +=
                    scale * w * ds * c->in[1][((((b * S + s) * 3 + 1) * H + h) * D + d)];
                c->out[0][((((b * S + s) * 3 + 1) * H + h) * D + d)] +=
                    scale * w * ds * c->in[1][((((b * S + t) * 3 + 0) * H + h) * D + d)];
                c->out[0][((((b * S + s) * 3 + 2) * H + h) * D + d)] += w * dy[d];
            }
        }
    }
}

const test_ref test_ref_attention_packed_grad = {"attention_packed_grad", run};
