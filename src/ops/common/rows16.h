/* Functions of 16 numbers at once, with multiply-adds that are fused: for kernels that are chosen by the processor and not by the level.
 *
 * It is included with HRI_ROWS_TARGET (which processor), HRI_ROWS_MAX(A, B) (A where it is larger, else B: NaN in A is passed over) and
 * HRI_ROWS_INVERSE(A) (1 / A) defined, by rows16_x86.h and by the test, which runs it on any processor. */
#ifndef HRI_OPS_COMMON_ROWS16_H
#define HRI_OPS_COMMON_ROWS16_H

#include <math.h>
#include <stdint.h>

typedef float hri_r16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t hri_i16 __attribute__((vector_size(64)));
typedef uint32_t hri_u16 __attribute__((vector_size(64)));

/* Vectors go by their address, as in gemm_wide.h. */
#define HRI_ROWS_INLINE HRI_ROWS_TARGET __attribute__((always_inline)) static inline

/* e^x for x below 88, as hri_exp_within; below -86 it is 0, and nothing in between is subnormal.  NaN stays. */
HRI_ROWS_INLINE void hri_rows_exp(const hri_r16 *of, hri_r16 *to) {
    const hri_r16 x = *of;
    const hri_r16 shifted = x * 0x1.715476p0f + 0x1.8p23f;
    const hri_r16 n = shifted - 0x1.8p23f;
    const hri_r16 r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
    hri_r16 p = r * 0x1.6d10fcp-10f + 0x1.120b62p-7f;
    p = p * r + 0x1.55551ap-5f;
    p = p * r + 0x1.5554dep-3f;
    p = p * r + 0.5f;
    p = ((p * r) * r + r) + 1.0f;
    const hri_u16 whole = (hri_u16)p + ((hri_u16)shifted << 23);
    *to = (hri_r16)((hri_i16)whole & ~(x < -86.0f));
}

/* hri_normal of vmath.h: P(x), and *slope = exp(-x^2 / 2).  NaN gives some number. */
HRI_ROWS_INLINE void hri_rows_normal(const hri_r16 *of, hri_r16 *P, hri_r16 *slope) {
    const hri_i16 bits = (hri_i16)*of & 0x7fffffff, most = (hri_i16)((hri_r16){0} + 13.0f);
    const hri_i16 small = bits < most;
    const hri_r16 a = (hri_r16)((bits & small) | (most & ~small));
    const hri_r16 half = a * a * -0.5f;
    hri_r16 e;
    hri_rows_exp(&half, &e);
    const hri_r16 d = a * 0.35f + 1.0f, t = HRI_ROWS_INVERSE(d), t2 = t * t;
    const hri_r16 w0 =
        (t * 0x1.e8d7c0p-8f + 0x1.325268p-3f) * t2 + (t * 0x1.5dee72p-3f + 0x1.31e798p-12f);
    const hri_r16 w1 = t2 * 0x1.3b28d6p-6f + (t * -0x1.97f122p-4f + 0x1.357b86p-3f);
    const hri_r16 h = e * (0.5f - a * (w1 * (t2 * t2) + w0));
    const hri_i16 below = *of < 0.0f;
    const hri_r16 other = 1.0f - h;
    *slope = e;
    *P = (hri_r16)(((hri_i16)h & below) | ((hri_i16)other & ~below));
}

#endif
