/* gelu and its gradient, exact form, in vectors of 16.  For gelu_kernel.c and the test, behind rows16.h. */
#ifndef HRI_OPS_COMMON_GELU_ROWS_H
#define HRI_OPS_COMMON_GELU_ROWS_H

#include <string.h>

#include "ops/common/rows16.h"

HRI_ROWS_INLINE void hri_rows_gelu_16(const float *from, float *to) {
    const hri_r16 x = *(const hri_r16 *)from;
    hri_r16 P, slope;
    hri_rows_normal(&x, &P, &slope);
    *(hri_r16 *)to = x * P;
}

HRI_ROWS_INLINE void hri_rows_gelu_grad_16(const float *dy, const float *from, float *to) {
    const hri_r16 x = *(const hri_r16 *)from;
    hri_r16 P, slope;
    hri_rows_normal(&x, &P, &slope);
    *(hri_r16 *)to = *(const hri_r16 *)dy * (x * 0.3989422804014327f * slope + P);
}

/* y may lie over what is read. */
HRI_ROWS_TARGET static void hri_rows_gelu(const float *x, float *y, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        hri_rows_gelu_16(x + i, y + i);
    }
    if (i < n) {
        float room[16] = {0};
        memcpy(room, x + i, (size_t)(n - i) * sizeof *x);
        hri_rows_gelu_16(room, room);
        memcpy(y + i, room, (size_t)(n - i) * sizeof *y);
    }
}

HRI_ROWS_TARGET static void hri_rows_gelu_grad(const float *dy, const float *x, float *y,
                                               int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        hri_rows_gelu_grad_16(dy + i, x + i, y + i);
    }
    if (i < n) {
        float room[2][16] = {{0}};
        memcpy(room[0], dy + i, (size_t)(n - i) * sizeof *dy);
        memcpy(room[1], x + i, (size_t)(n - i) * sizeof *x);
        hri_rows_gelu_grad_16(room[0], room[1], room[0]);
        memcpy(y + i, room[0], (size_t)(n - i) * sizeof *y);
    }
}

#endif
