/* Rows of scores in vectors of 16: softmax forward, and what backward makes of a row, each in one pass over numbers that are close.  For
 * attention_rows_kernel.c and the test, behind rows16.h. */
#ifndef HRI_OPS_COMMON_ATTENTION_ROWS_H
#define HRI_OPS_COMMON_ATTENTION_ROWS_H

#include "ops/common/rows16.h"

#define HRI_ROWS_HALVES(V, TAKE)                                                                   \
    TAKE(V, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)                                  \
    TAKE(V, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)                                  \
    TAKE(V, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)                                  \
    TAKE(V, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#define HRI_ROWS_TAKE_MAX(V, ...)                                                                  \
    {                                                                                              \
        const hri_r16 turned = __builtin_shufflevector(V, V, __VA_ARGS__);                         \
        V = HRI_ROWS_MAX(turned, V);                                                               \
    }
#define HRI_ROWS_TAKE_SUM(V, ...) V += __builtin_shufflevector(V, V, __VA_ARGS__);

/* All bits for the first `n` numbers of a vector. */
HRI_ROWS_INLINE void hri_rows_first(int64_t n, hri_i16 *to) {
    const hri_i16 number = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    *to = number < (int32_t)n;
}

/* n > 0 scores, which become e^(score * scale - *most), behind them 0 to a whole vector: *most becomes the largest so far, *sum what it
 * was by that and these.  Returns by how much things that were summed before change.  A largest of minus infinity: nothing is seen. */
HRI_ROWS_TARGET static float hri_rows_soften(float *s, int64_t n, float scale, float *most,
                                             float *sum) {
    const int64_t whole = n - n % 16;
    const hri_r16 least = (hri_r16){0} - INFINITY, none = {0};
    hri_r16 top = least, top_2 = least, add = {0}, add_2 = {0}, last = least;
    hri_i16 there;
    int64_t k = 0;
    hri_rows_first(n - whole, &there);
    for (; k + 32 <= n; k += 32) {
        const hri_r16 x = *(const hri_r16 *)(s + k) * scale;
        const hri_r16 y = *(const hri_r16 *)(s + k + 16) * scale;
        top = HRI_ROWS_MAX(x, top);
        top_2 = HRI_ROWS_MAX(y, top_2);
    }
    if (k < whole) {
        const hri_r16 x = *(const hri_r16 *)(s + k) * scale;
        top = HRI_ROWS_MAX(x, top);
    }
    if (whole < n) {
        const hri_r16 x = *(const hri_r16 *)(s + whole) * scale;
        last = (hri_r16)(((hri_i16)x & there) | ((hri_i16)least & ~there));
        top_2 = HRI_ROWS_MAX(last, top_2);
    }
    top = HRI_ROWS_MAX(top, top_2);
    HRI_ROWS_HALVES(top, HRI_ROWS_TAKE_MAX)
    const float now = top[0] > *most ? top[0] : *most;
    if (now == -INFINITY) {
        for (k = 0; k < n; k += 16) {
            *(hri_r16 *)(s + k) = none;
        }
        return 1.0f;
    }
    for (k = 0; k + 32 <= n; k += 32) {
        const hri_r16 x = *(const hri_r16 *)(s + k) * scale - now;
        const hri_r16 y = *(const hri_r16 *)(s + k + 16) * scale - now;
        hri_r16 e, f;
        hri_rows_exp(&x, &e);
        hri_rows_exp(&y, &f);
        *(hri_r16 *)(s + k) = e;
        *(hri_r16 *)(s + k + 16) = f;
        add += e;
        add_2 += f;
    }
    if (k < whole) {
        const hri_r16 x = *(const hri_r16 *)(s + k) * scale - now;
        hri_r16 e;
        hri_rows_exp(&x, &e);
        *(hri_r16 *)(s + k) = e;
        add += e;
    }
    if (whole < n) {
        const hri_r16 x = last - now;
        hri_r16 e;
        hri_rows_exp(&x, &e);
        *(hri_r16 *)(s + whole) = e;
        add_2 += e;
    }
    add += add_2;
    HRI_ROWS_HALVES(add, HRI_ROWS_TAKE_SUM)
    if (*most == -INFINITY) { /* nothing was summed */
        *most = now;
        *sum = add[0];
        return 1.0f;
    }
    const hri_r16 less = (hri_r16){0} + (*most - now);
    hri_r16 keep;
    hri_rows_exp(&less, &keep);
    *most = now;
    *sum = *sum * keep[0] + add[0];
    return keep[0];
}

/* n scores and as many do . v to p and ds; behind them 0 to a whole vector. */
HRI_ROWS_TARGET static void hri_rows_differentiate(float *p, float *ds, int64_t n, float scale,
                                                   float lse, float delta) {
    const int64_t whole = n - n % 16;
    for (int64_t k = 0; k < whole; k += 16) {
        const hri_r16 x = *(const hri_r16 *)(p + k) * scale - lse;
        hri_r16 e;
        hri_rows_exp(&x, &e);
        *(hri_r16 *)(p + k) = e;
        *(hri_r16 *)(ds + k) = (e * scale) * (*(const hri_r16 *)(ds + k) - delta);
    }
    if (whole < n) {
        const hri_r16 x = *(const hri_r16 *)(p + whole) * scale - lse;
        hri_r16 e;
        hri_i16 there;
        hri_rows_exp(&x, &e);
        hri_rows_first(n - whole, &there);
        const hri_r16 d = (e * scale) * (*(const hri_r16 *)(ds + whole) - delta);
        *(hri_r16 *)(p + whole) = (hri_r16)((hri_i16)e & there);
        *(hri_r16 *)(ds + whole) = (hri_r16)((hri_i16)d & there);
    }
}

/* The sum of n products. */
HRI_ROWS_TARGET static float hri_rows_dot(const float *x, const float *y, int64_t n) {
    const int64_t whole = n - n % 16;
    hri_r16 add = {0};
    for (int64_t k = 0; k < whole; k += 16) {
        add += *(const hri_r16 *)(x + k) * *(const hri_r16 *)(y + k);
    }
    HRI_ROWS_HALVES(add, HRI_ROWS_TAKE_SUM)
    float sum = add[0];
    for (int64_t k = whole; k < n; k++) {
        sum += x[k] * y[k];
    }
    return sum;
}

#endif
