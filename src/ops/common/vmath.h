/* exp, log, tanh, erf and the normal distribution of f32 without branches and calls, so that loops over them become vector code.
 *
 * The idea is the usual one: bring the argument into a short interval, evaluate one polynomial there (fitted at
 * Chebyshev nodes), put the result together by integer work on the exponent; every special value comes out of a
 * select.  tests/unit/vmath.c compares them with libm in double: at most 2 ulp, and the exact answers for zeros,
 * infinities and NaN.  exp and log know subnormal numbers.
 *
 * Including this file after <tgmath.h> makes exp, log, tanh and erf of a float mean these; of a double they stay
 * libm's, so the expressions of map.h need no other words, and their text stays good for other back ends. */
#ifndef HRI_OPS_COMMON_VMATH_H
#define HRI_OPS_COMMON_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t hri_float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float hri_bits_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The smaller of x and `most`, neither below 0, as integers: compilers make one instruction of it, where comparing numbers that
 * may be NaN takes many.  What NaN becomes is put right at the end. */
__attribute__((always_inline)) static inline float hri_at_most(float x, float most) {
    const int32_t a = (int32_t)hri_float_bits(x), b = (int32_t)hri_float_bits(most);
    return hri_bits_float((uint32_t)(a < b ? a : b));
}

/* e^x for x between -104 and 89: 2^n e^r with |r| <= log(2) / 2.  2^n is multiplied on in two halves, so that neither leaves
 * the range. */
__attribute__((always_inline)) static inline float hri_exp_within(float x) {
    const float magic = 0x1.8p23f; /* adding it rounds to a whole number, which the low bits show */
    const float shifted = x * 0x1.715476p0f + magic;
    const float n = shifted - magic;
    const float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
    const uint32_t whole = hri_float_bits(shifted) - hri_float_bits(magic);
    const uint32_t first = (uint32_t)((int32_t)whole >> 1), second = whole - first;
    float p = 0x1.6d10fcp-10f;
    p = p * r + 0x1.120b62p-7f;
    p = p * r + 0x1.55551ap-5f;
    p = p * r + 0x1.5554dep-3f;
    p = p * r + 0.5f;
    p = (p * r) * r + r + 1.0f;
    return p * hri_bits_float((first + 127u) << 23) * hri_bits_float((second + 127u) << 23);
}

__attribute__((always_inline)) static inline float hri_exp(float x) {
    const uint32_t low =
        0xc2d00000u; /* -104: of numbers below 0, the larger bits are further from it */
    const uint32_t bits = hri_float_bits(hri_at_most(x, 89.0f));
    const float y = hri_exp_within(hri_bits_float(bits < low ? bits : low));
    return x == x ? y : x;
}

/* log x = e log 2 + log(1 + f) with 1 + f between the roots of 1/2 and 2. */
__attribute__((always_inline)) static inline float hri_log(float x) {
    const int tiny = x < 0x1p-126f;
    const uint32_t bits = hri_float_bits(tiny ? x * 0x1p24f : x) - 0x3f3504f3u;
    const int32_t exponent = (int32_t)bits >> 23;
    const float e = (float)(tiny ? exponent - 24 : exponent);
    const float f = hri_bits_float((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float p = 0x1.1d8ea6p-4f;
    p = p * f - 0x1.d635bcp-4f;
    p = p * f + 0x1.dea282p-4f;
    p = p * f - 0x1.fcf4c6p-4f;
    p = p * f + 0x1.23d21ap-3f;
    p = p * f - 0x1.555b4ap-3f;
    p = p * f + 0x1.999d5ap-3f;
    p = p * f - 0x1.fffffcp-3f;
    p = p * f + 0x1.555554p-2f;
    const float square = f * f;
    const float y =
        e * 0x1.62e4p-1f + (f + (e * 0x1.7f7d1cp-20f + (square * f * p - 0.5f * square)));
    const float edge = x == 0.0f ? -INFINITY : x > 0.0f ? x : NAN; /* and NaN itself */
    return x > 0.0f && x < INFINITY ? y : edge;
}

__attribute__((always_inline)) static inline float hri_tanh(float x) {
    const float a = fabsf(x), u = x * x;
    float p = -0x1.8f8de4p-8f;
    p = p * u + 0x1.58048ep-6f;
    p = p * u - 0x1.b9258ap-5f;
    p = p * u + 0x1.110e1cp-3f;
    p = p * u - 0x1.555552p-2f;
    const float near = (p * u) * x + x;
    const float far = 1.0f - 2.0f / (hri_exp(2.0f * a) + 1.0f);
    return copysignf(a < 0.625f ? near : far, x);
}

/* Above 1, erf a = 1 - e^-q(a); from 4 on it is 1 in f32. */
__attribute__((always_inline)) static inline float hri_erf(float x) {
    const float a = fabsf(x), u = x * x;
    /* Both polynomials in pairs: a chain of half the length, as most processors wait for one multiply-add after the other. */
    const float u2 = u * u;
    float p = (0x1.4a5690p-14f * u - 0x1.a45088p-11f) * u2 + (0x1.541270p-8f * u - 0x1.b7fabap-6f);
    p = (p * u2 + (0x1.ce2d10p-4f * u - 0x1.81273ep-2f)) * u + 0x1.06eba8p-3f;
    const float near = p * x + x;
    const float b = hri_at_most(a, 4.0f);
    const float b2 = b * b, b4 = b2 * b2;
    const float q0 =
        (0x1.c2e356p-4f * b + 0x1.437eb4p-1f) * b2 + (0x1.2156fap+0f * b - 0x1.4fb068p-12f);
    const float q1 =
        (0x1.825ce4p-15f * b - 0x1.38e5e6p-11f) * b2 + (0x1.37ecc6p-8f * b - 0x1.b0e246p-6f);
    const float q = (-0x1.b77830p-20f * b4 + q1) * b4 + q0;
    const float far = copysignf(1.0f - hri_exp_within(-q), x);
    const float y = a < 1.0f ? near : far;
    return x == x ? y : x;
}

/* P(x), the distribution function of the normal distribution, and *e = exp(-x^2 / 2), its slope but for 1 / sqrt(2 pi).
 * With a = |x|, P(-a) = e (1/2 - a w(a)): w is smooth and slow, one polynomial of 1 / (1 + 0.35 a), which is off by at most 4e-9
 * of P.  NaN gives some number: whoever multiplies by x makes NaN of it. */
__attribute__((always_inline)) static inline float hri_normal(float x, float *e) {
    const float a = hri_at_most(fabsf(x), 13.0f); /* e is below 2^-121 there, and stays normal */
    const float shifted = a * a * -0x1.715476p-1f + 0x1.8p23f; /* as in hri_exp_within */
    const float n = shifted - 0x1.8p23f;
    const float r = (-0.5f * a * a - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
    float p = 0x1.6d10fcp-10f;
    p = p * r + 0x1.120b62p-7f;
    p = p * r + 0x1.55551ap-5f;
    p = p * r + 0x1.5554dep-3f;
    p = p * r + 0.5f;
    p = (p * r) * r + r + 1.0f;
    *e = p * hri_bits_float((hri_float_bits(shifted) + 127u) << 23);
    const float t = 1.0f / (1.0f + 0.35f * a), t2 = t * t;
    const float w0 =
        (0x1.e8d7c0p-8f * t + 0x1.325268p-3f) * t2 + (0x1.5dee72p-3f * t + 0x1.31e798p-12f);
    const float w1 = 0x1.3b28d6p-6f * t2 + (-0x1.97f122p-4f * t + 0x1.357b86p-3f);
    const float h = *e * (0.5f - a * (w1 * (t2 * t2) + w0));
    return x < 0.0f ? h : 1.0f - h;
}

#ifdef _TGMATH_H
#undef exp
#undef log
#undef tanh
#undef erf
#define exp(X)  _Generic((X), float : hri_exp, default : exp)(X)
#define log(X)  _Generic((X), float : hri_log, default : log)(X)
#define tanh(X) _Generic((X), float : hri_tanh, default : tanh)(X)
#define erf(X)  _Generic((X), float : hri_erf, default : erf)(X)
#endif

#endif
