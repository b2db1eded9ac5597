/* adafactor, as torch.optim.Adafactor has it, with whole matrices. */
#include <math.h>
#include <stdlib.h>

#include "ref.h"

/* As few rows and columns as can be. */
static int64_t rows_of(const hr_shape *s) {
    int64_t best = 1;
    const int64_t all = hr_shape_count(s);
    for (int cut = 1; cut < s->rank && all > 0; cut++) {
        int64_t rows = 1;
        for (int d = 0; d < cut; d++) {
            rows *= s->dim[d];
        }
        if (rows > 1 && rows < all && (best == 1 || rows + all / rows < best + all / best)) {
            best = rows;
        }
    }
    return best;
}

static void run(const ref_call *c) {
    const struct {
        double exponent, epsilon, floor, clip, decay;
        bool relative;
    } *p = c->sig->attr;
    const hr_shape *s = &c->sig->in[0].shape;
    const int64_t all = hr_shape_count(s), R = rows_of(s), C = all / R;
    const double rate = c->in[2][0], t = c->in[3][0];
    const double factor = c->sig->in_count > 6 ? c->in[6][0] : 1.0;
    double *v = malloc((size_t)(all ? all : 1) * sizeof *v), mean = 0, size = 0, norm = 0;
    for (int64_t i = 0; i < R; i++) {
        double sum = 0;
        for (int64_t k = 0; k < C; k++) {
            sum += pow(factor * c->in[1][i * C + k], 2) / (double)C;
            size += pow(c->in[0][i * C + k], 2) / (double)all;
        }
        c->out[1][i] = all ? c->in[4][i] + pow(t, p->exponent) * (sum - c->in[4][i]) : c->in[4][i];
        mean += c->out[1][i] / (double)R;
    }
    for (int64_t k = 0; k < C; k++) {
        double sum = 0;
        for (int64_t i = 0; i < R; i++) {
            sum += pow(factor * c->in[1][i * C + k], 2) / (double)R;
        }
        c->out[2][k] = c->in[5][k] + pow(t, p->exponent) * (sum - c->in[5][k]);
    }
    for (int64_t i = 0; i < all; i++) {
        const double rows = c->out[1][i / C], columns = c->out[2][i % C];
        const double est = s->rank < 2 ? columns : rows * columns / fmax(mean, p->epsilon);
        v[i] = factor * c->in[1][i] / sqrt(fmax(est, p->epsilon * p->epsilon));
        norm += v[i] * v[i] / (double)all;
    }
    const double alpha = p->relative ? fmax(p->floor, sqrt(size)) * fmin(rate, 1 / sqrt(t)) : rate;
    const double denominator = fmax(1.0, sqrt(norm) / p->clip);
    for (int64_t i = 0; i < all; i++) {
        c->out[0][i] = c->in[0][i] * (1 - rate * p->decay) - alpha / denominator * v[i];
    }
    free(v);
}

const test_ref test_ref_adafactor = {"adafactor", run};
