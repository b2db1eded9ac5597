/* conv2d_f8: sums of decoded numbers in doubles. */
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
    for (int64_t i = 0, n = hr_shape_count(y); i < n; i++) {
        int64_t at[HR_RANK_MAX];
        double sum = 0;
        ref_unflatten(y, i, at);
        const int64_t first = at[3] / (w->dim[3] / p->groups) * w->dim[2];
        for (int64_t q = 0; q < w->dim[0] * w->dim[1] * w->dim[2]; q++) {
            const int64_t k = q % w->dim[2], s = q / w->dim[2] % w->dim[1],
                          r = q / w->dim[2] / w->dim[1];
            const int64_t h = at[1] * number(&p->stride, 0, 1) - number(&p->pad, 0, 0) +
                              r * number(&p->dilation, 0, 1);
            const int64_t v = at[2] * number(&p->stride, 1, 1) - number(&p->pad, 1, 0) +
                              s * number(&p->dilation, 1, 1);
            if (h >= 0 && h < x->dim[1] && v >= 0 && v < x->dim[2]) {
                const int64_t from[] = {at[0], h, v, first + k}, by[] = {r, s, k, at[3]};
                sum += ref_f8((int)c->in[0][ref_flatten(x, from)]) *
                       ref_f8((int)c->in[1][ref_flatten(w, by)]);
            }
        }
        const double is = sum * c->in[4][0] * c->in[2][at[3]] + c->in[3][at[3]];
        c->out[0][i] = p->relu ? fmax(is, 0.0) : is;
    }
}

const test_ref test_ref_conv2d_f8 = {"conv2d_f8", run};
