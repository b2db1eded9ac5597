/* attention_packed with the whole matrix, one head and one query after the other. */
#include "ref.h"

#include <math.h>
#include <stdlib.h>

static void run(const ref_call *c) {
    const struct {
        double scale;
        bool causal;
    } *p = c->sig->attr;
    const int64_t *dim = c->sig->in[0].shape.dim;
    const int64_t T = c->sig->out[0].shape.dim[1], S = dim[1], H = dim[3], D = dim[4];
    const double scale = p->scale != 0.0 ? p->scale : 1.0 / sqrt((double)D);
    double *w = calloc((size_t)S + 1, sizeof *w);
    for (int64_t i = 0; i < dim[0] * H * T; i++) {
        const int64_t b = i / (H * T), h = i / T % H, t = i % T, end = p->causal ? t + 1 : S;
        double most = -INFINITY, sum = 0.0;
        for (int64_t s = 0; s < end; s++) {
            w[s] = 0.0;
            for (int64_t d = 0; d < D; d++) {
                w[s] += scale * c->in[0][((((b * S + t) * 3 + 0) * H + h) * D + d)] *
                        c->in[0][((((b * S + s) * 3 + 1) * H + h) * D + d)];
            }
            most = fmax(most, w[s]);
        }
        for (int64_t s = 0; s < end; s++) {
            sum += exp(w[s] - most);
        }
        c->out[1][i] = most + log(sum);
        for (int64_t d = 0; d < D; d++) {
            double o = 0.0;
            for (int64_t s = 0; s < end; s++) {
                o += exp(w[s] - c->out[1][i]) * c->in[0][((((b * S + s) * 3 + 2) * H + h) * D + d)];
            }
            c->out[0][((b * T + t) * H + h) * D + d] = o;
        }
    }
    free(w);
}

const test_ref test_ref_attention_packed = {"attention_packed", run};
