/* depthwise_i8: whole sums in a loop, a channel at a time. */
#include "ref.h"

static int64_t number(const hri_dims *d, int i, int64_t none) {
    return d->count == 0 ? none : d->at[d->count > 1 ? i : 0];
}

static void run(const ref_call *c) {
    const struct {
        hri_dims stride, pad, dilation, size;
        int64_t groups;
        bool relu;
    } *p = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape, *w = &c->sig->in[1].shape, *y = &c->sig->out[0].shape;
    for (int64_t i = 0, n = hr_shape_count(y); i < n; i++) {
        int64_t at[HR_RANK_MAX];
        int32_t sum = 0;
        ref_unflatten(y, i, at);
        for (int64_t q = 0; q < w->dim[0] * w->dim[1]; q++) {
            const int64_t r = q / w->dim[1], s = q % w->dim[1];
            const int64_t h = at[1] * number(&p->stride, 0, 1) - number(&p->pad, 0, 0) +
                              r * number(&p->dilation, 0, 1);
            const int64_t v = at[2] * number(&p->stride, 1, 1) - number(&p->pad, 1, 0) +
                              s * number(&p->dilation, 1, 1);
            if (h >= 0 && h < x->dim[1] && v >= 0 && v < x->dim[2]) {
                const double from = c->in[0][ref_flatten(x, (int64_t[]){at[0], h, v, at[3]})];
                sum += (int32_t)((from - c->in[5][0]) *
                                 c->in[1][ref_flatten(w, (int64_t[]){r, s, 0, at[3]})]);
            }
        }
        c->out[0][i] = ref_requantize(c, sum, at[3], p->relu);
    }
}

const test_ref test_ref_depthwise_i8 = {"depthwise_i8", run};
