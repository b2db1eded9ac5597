/* The seven loops of a convolution, for the oracles of conv2d and its two gradients. */
#ifndef HR_TEST_REF_CONV_H
#define HR_TEST_REF_CONV_H

#include "ref.h"

typedef struct ref_conv_attr {
    hri_dims stride, pad, dilation, size;
    int64_t groups;
} ref_conv_attr;

/* Calls visit(user, index in x, index in w, index in y) for every product. */
static inline void ref_conv(const ref_conv_attr *p, const hr_shape *x, const hr_shape *w,
                            const hr_shape *y,
                            void (*visit)(const ref_call *c, int64_t x, int64_t w, int64_t y),
                            const ref_call *c) {
    const int64_t two[3][2] = {
        {p->stride.at[0], p->stride.at[p->stride.count > 1]},
        {p->pad.at[0], p->pad.at[p->pad.count > 1]},
        {p->dilation.at[0], p->dilation.at[p->dilation.count > 1]},
    };
    const int64_t og = w->dim[3] / p->groups, cg = w->dim[2];
    for (int64_t i = 0, n = hr_shape_count(y); i < n; i++) {
        int64_t at[4];
        ref_unflatten(y, i, at);
        for (int64_t k = 0, m = w->dim[0] * w->dim[1] * cg; k < m; k++) {
            const int64_t r = k / cg / w->dim[1], s = k / cg % w->dim[1], q = k % cg;
            const int64_t from[4] = {at[0], at[1] * two[0][0] - two[1][0] + r * two[2][0],
                                     at[2] * two[0][1] - two[1][1] + s * two[2][1],
                                     at[3] / og * cg + q};
            if (from[1] >= 0 && from[1] < x->dim[1] && from[2] >= 0 && from[2] < x->dim[2]) {
                visit(c, ref_flatten(x, from), k * w->dim[3] + at[3], i);
            }
        }
    }
}

#endif
