/* From sums of whole numbers to bytes: one rounding rule for every kernel, for quantizing and for tests.
 *
 *   real = scale (q - zero)          q 0 .. 255, zero a byte; weights -127 .. 127 with a scale a column and zero 0
 *
 * A sum is converted to f32, multiplied once, held between two whole bounds and rounded to the nearest, even on ties: one
 * conversion, one product, one rounding, so that every machine has the same bits.  Bounds are whole, so holding before
 * rounding is the same as holding after it.  Files that use it are compiled without fused multiply-adds (CMakeLists.txt:
 * every *_i8*, quantize and dequantize). */
#ifndef HRI_OPS_COMMON_REQUANTIZE_H
#define HRI_OPS_COMMON_REQUANTIZE_H

#include <math.h>
#include <stdint.h>

/* NaN is the lower bound. */
static inline float hri_held(float x, float low, float high) {
    const float above = x > low ? x : low;
    return above < high ? above : high;
}

/* The nearest whole number, even on ties, of what is not beyond 2^22: vector code needs no instruction for it. */
static inline int32_t hri_nearest(float x) {
    const union {
        float real;
        int32_t bits;
    } u = {.real = x + 0x1.8p23f};
    return u.bits - 0x4b400000;
}

/* x / scale, rounded, around `zero`. */
static inline uint8_t hri_quantize(float x, float scale, int32_t zero) {
    const float z = (float)zero;
    return (uint8_t)(hri_nearest(hri_held(x / scale, -z, 255.0f - z)) + zero);
}

static inline float hri_dequantize(uint8_t q, float scale, int32_t zero) {
    return (float)((int32_t)q - zero) * scale;
}

/* A sum as a byte; `low` is -zero, or 0 after relu. */
static inline uint8_t hri_requantize(int32_t sum, float by, float low, int32_t zero) {
    const float held = hri_held((float)sum * by, low, 255.0f - (float)zero);
    return (uint8_t)(hri_nearest(held) + zero);
}

/* A bias in units of the sum, which has room for it: no sum of 65,536 products reaches 2^31 then. */
static inline int32_t hri_quantize_bias(float bias, float unit) {
    return (int32_t)rintf(hri_held(bias / unit, -0x1p29f, 0x1p29f));
}

enum { HRI_I8_DEPTH_MAX = 32768 }; /* products of one sum: 2^15 * 255 * 128 < 2^30 */

#endif
