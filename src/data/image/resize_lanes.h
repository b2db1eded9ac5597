/* The two loops of a resize, sixteen bytes or one pixel of three colours at a time: with NEON, with SSE2 (which every
 * x86-64 has), and plainly.  All give the same numbers, because all are whole numbers that no step rounds but the last.
 *
 * SSE2 multiplies only signed numbers of 16 bits, in pairs: sums of rows have 2^15 taken away before, and because
 * weights add up to 2^14, 2^29 is added back after. */
#ifndef HRI_DATA_RESIZE_LANES_H
#define HRI_DATA_RESIZE_LANES_H

#include <stdbool.h>
#include <stdint.h>

enum { HRI_LANES = 16 };

/* Rows in a ring: where the first of a window lies, and where the ring ends. */
typedef struct hri_ring {
    const uint8_t *first, *start, *end;
    uint64_t row_bytes;
} hri_ring;

static inline const uint8_t *hri_ring_next(const hri_ring *r, const uint8_t *row) {
    row += r->row_bytes;
    return row == r->end ? r->start : row;
}

#if defined(__aarch64__)
#include <arm_neon.h>

/* to[i] = (sum over rows of weight x row[at + i] + 32) / 64: in units of 1 / 256, at most 255 x 256. */
static inline void hri_lanes_rows(uint16_t *to, const hri_ring *r, uint64_t at,
                                  const uint16_t *weights, uint32_t count) {
    uint32x4_t a = vdupq_n_u32(0), b = a, c = a, d = a;
    const uint8_t *row = r->first;
    for (uint32_t k = 0; k < count; k++, row = hri_ring_next(r, row)) {
        const uint8x16_t bytes = vld1q_u8(row + at);
        const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
        const uint16x4_t weight = vdup_n_u16(weights[k]);
        a = vmlal_u16(a, vget_low_u16(low), weight);
        b = vmlal_high_u16(b, low, vcombine_u16(weight, weight));
        c = vmlal_u16(c, vget_low_u16(high), weight);
        d = vmlal_high_u16(d, high, vcombine_u16(weight, weight));
    }
    vst1q_u16(to, vrshrn_high_n_u32(vrshrn_n_u32(a, 6), b, 6));
    vst1q_u16(to + 8, vrshrn_high_n_u32(vrshrn_n_u32(c, 6), d, 6));
}

/* pixel[c] = (sum over pixels of weight x sums[3 k + c] + 2^21) / 2^22. */
static inline void hri_lanes_pixel(uint8_t *pixel, const uint16_t *sums, const uint16_t *weights,
                                   uint32_t count) {
    uint32x4_t sum = vdupq_n_u32(1u << 21);
    for (uint32_t k = 0; k < count; k++) {
        sum = vmlal_n_u16(sum, vld1_u16(sums + 3 * (uint64_t)k), weights[k]);
    }
    sum = vshrq_n_u32(sum, 22);
    pixel[0] = (uint8_t)vgetq_lane_u32(sum, 0);
    pixel[1] = (uint8_t)vgetq_lane_u32(sum, 1);
    pixel[2] = (uint8_t)vgetq_lane_u32(sum, 2);
}

/* The same of four pixels, some of weight 0: the three colours in the low bytes. */
static inline uint32_t hri_lanes_four(const uint16_t *sums, const uint16_t *weights) {
    const uint16x4_t w = vld1_u16(weights);
    uint32x4_t sum = vmull_lane_u16(vld1_u16(sums), w, 0);
    sum = vmlal_lane_u16(sum, vld1_u16(sums + 3), w, 1);
    sum = vmlal_lane_u16(sum, vld1_u16(sums + 6), w, 2);
    sum = vmlal_lane_u16(sum, vld1_u16(sums + 9), w, 3);
    const uint16x4_t whole = vmovn_u32(vshrq_n_u32(vaddq_u32(sum, vdupq_n_u32(1u << 21)), 22));
    return vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(whole, whole))), 0);
}

#elif defined(__SSE2__)
#include <emmintrin.h>

/* Two weights side by side, in every lane. */
static inline __m128i hri_lanes_pair(uint16_t a, uint16_t b) {
    return _mm_set1_epi32((int)(a | (uint32_t)b << 16));
}

static inline __m128i hri_lanes_narrow(__m128i low, __m128i high) {
    const __m128i half = _mm_set1_epi32(32), off = _mm_set1_epi32(32768);
    low = _mm_sub_epi32(_mm_srli_epi32(_mm_add_epi32(low, half), 6), off);
    high = _mm_sub_epi32(_mm_srli_epi32(_mm_add_epi32(high, half), 6), off);
    return _mm_xor_si128(_mm_packs_epi32(low, high), _mm_set1_epi16(-32768));
}

static inline void hri_lanes_rows(uint16_t *to, const hri_ring *r, uint64_t at,
                                  const uint16_t *weights, uint32_t count) {
    const __m128i zero = _mm_setzero_si128();
    __m128i a = zero, b = zero, c = zero, d = zero;
    const uint8_t *row = r->first;
    for (uint32_t k = 0; k < count; k += 2) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(row + at));
        __m128i y = zero;
        row = hri_ring_next(r, row);
        if (k + 1 < count) {
            y = _mm_loadu_si128((const __m128i *)(const void *)(row + at));
            row = hri_ring_next(r, row);
        }
        const __m128i w = hri_lanes_pair(weights[k], k + 1 < count ? weights[k + 1] : 0);
        const __m128i low = _mm_unpacklo_epi8(x, y), high = _mm_unpackhi_epi8(x, y);
        a = _mm_add_epi32(a, _mm_madd_epi16(_mm_unpacklo_epi8(low, zero), w));
        b = _mm_add_epi32(b, _mm_madd_epi16(_mm_unpackhi_epi8(low, zero), w));
        c = _mm_add_epi32(c, _mm_madd_epi16(_mm_unpacklo_epi8(high, zero), w));
        d = _mm_add_epi32(d, _mm_madd_epi16(_mm_unpackhi_epi8(high, zero), w));
    }
    _mm_storeu_si128((__m128i *)(void *)to, hri_lanes_narrow(a, b));
    _mm_storeu_si128((__m128i *)(void *)(to + 8), hri_lanes_narrow(c, d));
}

static inline void hri_lanes_pixel(uint8_t *pixel, const uint16_t *sums, const uint16_t *weights,
                                   uint32_t count) {
    const __m128i off = _mm_set1_epi16(-32768);
    __m128i sum = _mm_set1_epi32((1 << 21) + (1 << 29));
    for (uint32_t k = 0; k < count; k += 2, sums += 6) {
        const bool two = k + 1 < count;
        const __m128i x = _mm_loadl_epi64((const __m128i *)(const void *)sums);
        const __m128i y = _mm_loadl_epi64((const __m128i *)(const void *)(sums + (two ? 3 : 0)));
        const __m128i both = _mm_xor_si128(_mm_unpacklo_epi16(x, y), off);
        sum = _mm_add_epi32(
            sum, _mm_madd_epi16(both, hri_lanes_pair(weights[k], two ? weights[k + 1] : 0)));
    }
    sum = _mm_srli_epi32(sum, 22);
    sum = _mm_packus_epi16(_mm_packs_epi32(sum, sum), sum);
    const uint32_t bytes = (uint32_t)_mm_cvtsi128_si32(sum);
    pixel[0] = (uint8_t)bytes;
    pixel[1] = (uint8_t)(bytes >> 8);
    pixel[2] = (uint8_t)(bytes >> 16);
}

static inline uint32_t hri_lanes_four(const uint16_t *sums, const uint16_t *weights) {
    const __m128i off = _mm_set1_epi16(-32768);
    const __m128i w = _mm_loadl_epi64((const __m128i *)(const void *)weights);
    const __m128i a = _mm_loadl_epi64((const __m128i *)(const void *)sums);
    const __m128i b = _mm_loadl_epi64((const __m128i *)(const void *)(sums + 3));
    const __m128i c = _mm_loadl_epi64((const __m128i *)(const void *)(sums + 6));
    const __m128i d = _mm_loadl_epi64((const __m128i *)(const void *)(sums + 9));
    const __m128i ab =
        _mm_madd_epi16(_mm_xor_si128(_mm_unpacklo_epi16(a, b), off), _mm_shuffle_epi32(w, 0x00));
    const __m128i cd =
        _mm_madd_epi16(_mm_xor_si128(_mm_unpacklo_epi16(c, d), off), _mm_shuffle_epi32(w, 0x55));
    __m128i sum = _mm_add_epi32(_mm_add_epi32(ab, cd), _mm_set1_epi32((1 << 21) + (1 << 29)));
    sum = _mm_srli_epi32(sum, 22);
    sum = _mm_packs_epi32(sum, sum);
    return (uint32_t)_mm_cvtsi128_si32(_mm_packus_epi16(sum, sum));
}

#else

static inline uint32_t hri_lanes_four(const uint16_t *sums, const uint16_t *weights) {
    uint32_t bytes = 0;
    for (uint32_t c = 0; c < 3; c++) {
        uint32_t sum = 1u << 21;
        for (uint32_t k = 0; k < 4; k++) {
            sum += (uint32_t)weights[k] * sums[3 * k + c];
        }
        bytes |= sum >> 22 << 8 * c;
    }
    return bytes;
}

static inline void hri_lanes_rows(uint16_t *to, const hri_ring *r, uint64_t at,
                                  const uint16_t *weights, uint32_t count) {
    uint32_t sums[HRI_LANES] = {0};
    const uint8_t *row = r->first;
    for (uint32_t k = 0; k < count; k++, row = hri_ring_next(r, row)) {
        for (uint32_t i = 0; i < HRI_LANES; i++) {
            sums[i] += (uint32_t)weights[k] * row[at + i];
        }
    }
    for (uint32_t i = 0; i < HRI_LANES; i++) {
        to[i] = (uint16_t)((sums[i] + 32) >> 6);
    }
}

static inline void hri_lanes_pixel(uint8_t *pixel, const uint16_t *sums, const uint16_t *weights,
                                   uint32_t count) {
    uint32_t sum[3] = {1u << 21, 1u << 21, 1u << 21};
    for (uint32_t k = 0; k < count; k++, sums += 3) {
        for (uint32_t c = 0; c < 3; c++) {
            sum[c] += (uint32_t)weights[k] * sums[c];
        }
    }
    for (uint32_t c = 0; c < 3; c++) {
        pixel[c] = (uint8_t)(sum[c] >> 22);
    }
}

#endif
#endif
