/* exp for loops: the same result on every machine with the same rounding of products, within 2 ulp, and without
 * branches, so that compilers make vectors of it.  Infinities, NaN, overflow and subnormal results come out right.
 *
 *   exp(x) = 2^n exp(r),  n the nearest whole number to x / ln 2,  |r| <= ln 2 / 2
 *
 * exp(r) is its series up to r^7, which leaves out 5e-9 at most.  2^n is multiplied in two steps, so that neither
 * factor leaves the range. */
#ifndef HRI_OPS_COMMON_EXP_H
#define HRI_OPS_COMMON_EXP_H

#include <stdint.h>
#include <string.h>

static inline float hri_exp2_of(int32_t n) {
    const uint32_t bits = ((uint32_t)n + 127u) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline float hri_expf(float x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    float c = x > 89.0f ? 89.0f : x;
    c = c < -104.0f ? -104.0f : c;
    const float t = c * 1.44269504f + magic;
    const float n = t - magic;
    int32_t e;
    memcpy(&e, &t, sizeof e);
    e = (int32_t)((uint32_t)e - 0x4b400000u);
    /* ln 2 in two parts; the first has few bits, so that n times it is exact. */
    const float r = (c - n * 0.693145752f) - n * 1.42860677e-6f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    const int32_t half = (int32_t)((uint32_t)e + 1024u) / 2 - 512; /* e may be anything for a NaN */
    return p * hri_exp2_of(half) * hri_exp2_of((int32_t)((uint32_t)e - (uint32_t)half));
}

#endif
