/* conv2d_i8: whole sums in a loop, then the rule of rounding, in doubles that are rounded where f32 is. */
#include <math.h>

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
    const int64_t sh = number(&p->stride, 0, 1), sw = number(&p->stride, 1, 1);
    const int64_t ph = number(&p->pad, 0, 0), pw = number(&p->pad, 1, 0);
    const int64_t dh = number(&p->dilation, 0, 1), dw = number(&p->dilation, 1, 1);
    for (int64_t i = 0, n = hr_shape_count(y); i < n; i++) {
        int64_t at[HR_RANK_MAX];
        int32_t sum = 0;
        ref_unflatten(y, i, at);
        for (int64_t q = 0; q < w->dim[0] * w->dim[1]; q++) {
            const int64_t r = q / w->dim[1], s = q % w->dim[1];
            const int64_t h = at[1] * sh - ph + r * dh, v = at[2] * sw - pw + s * dw;
            const int64_t channel = at[3] / (w->dim[3] / p->groups) * w->dim[2];
            for (int64_t k = 0; k < w->dim[2]; k++) {
                const int inside = h >= 0 && h < x->dim[1] && v >= 0 && v < x->dim[2];
                const double from =
                    inside ? c->in[0][ref_flatten(x, (int64_t[]){at[0], h, v, channel + k})]
                           : c->in[5][0];
                sum += (int32_t)((from - c->in[5][0]) *
                                 c->in[1][ref_flatten(w, (int64_t[]){r, s, k, at[3]})]);
            }
        }
        c->out[0][i] = ref_requantize(c, sum, at[3], p->relu);
    }
}

const test_ref test_ref_conv2d_i8 = {"conv2d_i8", run};
