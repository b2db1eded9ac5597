/* resize: every output pixel and the four input pixels around its source. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const struct {
        int64_t height, width;
        int mode;
    } *p = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape, *y = &c->sig->out[0].shape;
    for (int64_t i = 0; i < hr_shape_count(&c->sig->out[0].shape); i++) {
        c->out[0][i] = 0.0;
    }
    for (int64_t i = 0; i < hr_shape_count(y); i++) {
        int64_t at[HR_RANK_MAX], low[2];
        double part[2];
        ref_unflatten(y, i, at);
        for (int d = 0; d < 2; d++) {
            const double in = (double)x->dim[d + 1], out = (double)y->dim[d + 1];
            const double o = (double)at[d + 1];
            const double source = p->mode == 0   ? floor(o * in / out + 1e-6)
                                  : p->mode == 2 ? (out > 1 ? o * (in - 1) / (out - 1) : 0.0)
                                                 : fmax(0.0, (o + 0.5) * in / out - 0.5);
            low[d] = (int64_t)source;
            part[d] = source - (double)low[d];
        }
        for (int q = 0; q < 4; q++) {
            const int64_t h = low[0] + q / 2, w1 = low[1] + q % 2;
            const double w = (q / 2 ? part[0] : 1.0 - part[0]) * (q % 2 ? part[1] : 1.0 - part[1]);
            const int64_t from =
                ref_flatten(x, (int64_t[]){at[0], h < x->dim[1] ? h : x->dim[1] - 1,
                                           w1 < x->dim[2] ? w1 : x->dim[2] - 1, at[3]});
            c->out[0][i] += w * c->in[0][from];
        }
    }
}

const test_ref test_ref_resize = {"resize", run};
