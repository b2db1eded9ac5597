/* max_pool_i8: the largest byte of each window. */
#include "ref.h"

static int64_t number(const hri_dims *d, int i, int64_t none) {
    return d->count == 0 ? none : d->at[d->count > 1 ? i : 0];
}

static void run(const ref_call *c) {
    const struct {
        hri_dims kernel, stride, pad;
        int64_t height, width;
        bool without_pad;
    } *p = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape, *y = &c->sig->out[0].shape;
    const int64_t kh = number(&p->kernel, 0, 0), kw = number(&p->kernel, 1, 0);
    const int64_t sh = number(&p->stride, 0, kh), sw = number(&p->stride, 1, kw);
    const int64_t ph = number(&p->pad, 0, 0), pw = number(&p->pad, 1, 0);
    for (int64_t i = 0, n = hr_shape_count(y); i < n; i++) {
        int64_t at[HR_RANK_MAX];
        ref_unflatten(y, i, at);
        int found = 0;
        for (int64_t q = 0; q < kh * kw; q++) {
            const int64_t h = at[1] * sh - ph + q / kw, w = at[2] * sw - pw + q % kw;
            if (h < 0 || h >= x->dim[1] || w < 0 || w >= x->dim[2]) {
                continue;
            }
            const int64_t from = ref_flatten(x, (int64_t[]){at[0], h, w, at[3]});
            if (!found || c->in[0][from] > c->out[0][i]) {
                c->out[0][i] = c->in[0][from];
                found = 1;
            }
        }
    }
}

const test_ref test_ref_max_pool_i8 = {"max_pool_i8", run};
