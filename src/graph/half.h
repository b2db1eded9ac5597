/* bf16 and f16 as bits: conversions that round to the nearest even number, keep NaN and signed zeros, overflow to
 * infinity and know subnormal numbers.  All arithmetic happens in f32; these types only store. */
#ifndef HRI_GRAPH_HALF_H
#define HRI_GRAPH_HALF_H

#include <stdint.h>
#include <string.h>

typedef struct hri_bf16 {
    uint16_t bits;
} hri_bf16;
typedef struct hri_f16 {
    uint16_t bits;
} hri_f16;

static inline float hri_from_bf16(hri_bf16 h) {
    const uint32_t bits = (uint32_t)h.bits << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline hri_bf16 hri_to_bf16(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet = (bits >> 16) | 0x40u; /* adding could carry a NaN into infinity */
    return (hri_bf16){(uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded)};
}

/* To one of the two neighbours, so that the mean over draws of 16 bits is f. */
static inline hri_bf16 hri_to_bf16_drawn(float f, uint32_t draw) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const int whole = (bits & 0x7f800000u) != 0x7f800000u;
    return whole ? (hri_bf16){(uint16_t)((bits + (draw & 0xffffu)) >> 16)} : hri_to_bf16(f);
}

#if defined(__ARM_FP16_FORMAT_IEEE)
static inline float hri_from_f16(hri_f16 h) {
    __fp16 x;
    memcpy(&x, &h, sizeof x);
    return (float)x;
}
static inline hri_f16 hri_to_f16(float f) {
    const __fp16 x = (__fp16)f;
    hri_f16 h;
    memcpy(&h, &x, sizeof h);
    return h;
}
#else
static inline float hri_from_f16(hri_f16 h) {
    /* Shift the 10-bit fraction up and correct the exponent by a multiplication, which also normalises subnormals. */
    const uint32_t sign = (uint32_t)(h.bits & 0x8000u) << 16;
    uint32_t bits = (uint32_t)(h.bits & 0x7fffu) << 13;
    float f;
    memcpy(&f, &bits, sizeof f);
    f *= 0x1p112f;
    memcpy(&bits, &f, sizeof bits);
    if ((h.bits & 0x7c00u) == 0x7c00u) {
        bits = 0x7f800000u | (uint32_t)(h.bits & 0x3ffu) << 13;
    }
    bits |= sign;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline hri_f16 hri_to_f16(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    bits &= 0x7fffffffu;
    uint32_t half;
    if (bits > 0x7f800000u) {
        half = 0x7e00u | ((bits >> 13) & 0x3ffu);
    } else if (bits >= 0x477ff000u) { /* 65520 and more round to infinity */
        half = 0x7c00u;
    } else if (bits >= 0x38800000u) { /* normal: 2^-14 and more */
        half = (bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1u)) >> 13;
    } else { /* the addition aligns the fraction and rounds it */
        float x;
        memcpy(&x, &bits, sizeof x);
        x += 0.5f;
        memcpy(&half, &x, sizeof half);
        half -= 0x3f000000u;
    }
    return (hri_f16){(uint16_t)(sign | half)};
}
#endif

#endif
