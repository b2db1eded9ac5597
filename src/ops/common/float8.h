/* Floats of 8 bits, e4m3: a sign, 4 bits of exponent (7 is 0), 3 of mantissa.
 *
 *   0x00 zero   0x01 .. 0x07 multiples of 2^-9   0x08 .. 0x7e 2^-6 .. 448   0x7f NaN   with 0x80 negative; there is no infinity
 *
 * What is larger becomes 448, ties go to the even code.  cuda/bytes_i8.cu has the same. */
#ifndef HRI_OPS_COMMON_FLOAT8_H
#define HRI_OPS_COMMON_FLOAT8_H

#include <stdint.h>
#include <string.h>

#define HRI_F8_MAX 448.0f

static inline uint8_t hri_to_f8(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = bits >> 24 & 128u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) {
        return (uint8_t)(sign | 127u);
    }
    if (size >= 0x43e00000u) { /* 448 */
        return (uint8_t)(sign | 126u);
    }
    if (size < 0x3c800000u) { /* 2^-6: a sum with ulps of 2^-9 rounds */
        float sum;
        memcpy(&sum, &size, sizeof sum);
        sum += 0x1.8p14f;
        memcpy(&bits, &sum, sizeof bits);
        return (uint8_t)(sign | (bits - 0x46c00000u));
    }
    return (uint8_t)(sign | (((size + 0x7ffffu + (size >> 20 & 1u)) >> 20) - (120u << 3)));
}

static inline float hri_from_f8(uint8_t code) {
    const uint32_t sign = (code & 128u) << 24, size = code & 127u;
    uint32_t bits = sign | ((size << 20) + (120u << 23));
    float x;
    if (size == 127u) {
        bits = sign | 0x7fc00000u;
    } else if (size < 8u) {
        x = (float)size * 0x1p-9f;
        memcpy(&bits, &x, sizeof bits);
        bits |= sign;
    }
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
