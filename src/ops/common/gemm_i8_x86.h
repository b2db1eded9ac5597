/* The kernels of gemm_i8.h for AVX-512 with VNNI, AVX-VNNI and AVX2; for gemm_i8_kernel.c alone.
 *
 * VNNI multiplies four bytes of a row with four of each of 16 columns and adds all four: 12 rows and two vectors of columns
 * are 24 sums in registers; with half as wide vectors 3 rows and four of them are 12.  AVX2 has no such instruction that could not overflow, so bytes are widened to 16 bits first. */
#ifndef HRI_OPS_COMMON_GEMM_I8_X86_H
#define HRI_OPS_COMMON_GEMM_I8_X86_H

#include <immintrin.h>
#include <string.h>

#include "ops/common/gemm_i8_finish.h"

#define HRI_VNNI   __attribute__((target("avx512f,avx512bw,avx512vnni")))
#define HRI_INLINE static inline __attribute__((always_inline))

/* One vector of sums of one row. */
HRI_INLINE HRI_VNNI void hri_i8_store512(__m512i sum, int half, int64_t row,
                                         const hri_i8_finish *f) {
    const int left = f->columns - 16 * half;
    const __mmask16 mask = left >= 16 ? 0xffff : left <= 0 ? 0 : (__mmask16)((1u << left) - 1u);
    sum = _mm512_add_epi32(sum, _mm512_loadu_si512(f->add + 16 * half));
    const __m512 by = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_loadu_ps(f->by + 16 * half));
    if (!f->c) {
        __m512 y = _mm512_add_ps(by, _mm512_loadu_ps(f->bias + 16 * half));
        y = f->relu ? _mm512_max_ps(y, _mm512_setzero_ps()) : y;
        _mm512_mask_storeu_ps(f->real + row * f->ldc + 16 * half, mask, y);
        return;
    }
    const __m512 held =
        _mm512_min_ps(_mm512_max_ps(by, _mm512_set1_ps(f->low)), _mm512_set1_ps(f->high));
    const __m512i q = _mm512_add_epi32(_mm512_cvtps_epi32(held), _mm512_set1_epi32(f->zero));
    _mm512_mask_cvtepi32_storeu_epi8(f->c + row * f->ldc + 16 * half, mask, q);
}

HRI_INLINE HRI_VNNI __m512i hri_i8_four512(const uint8_t *a) {
    int32_t x;
    memcpy(&x, a, sizeof x);
    return _mm512_set1_epi32(x);
}

/* Rows in threes: two strides are what an address can add to a pointer. */
HRI_INLINE HRI_VNNI void hri_i8_block512(const int rows, int64_t fours, const uint8_t *a,
                                         int64_t lda, const int8_t *b, int64_t first,
                                         const hri_i8_finish *f) {
    __m512i s[HRI_I8_ROWS], t[HRI_I8_ROWS];
    const uint8_t *at[HRI_I8_ROWS / 3];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        s[i] = t[i] = _mm512_setzero_si512();
    }
#pragma GCC unroll 4
    for (int i = 0; i < (rows + 2) / 3; i++) {
        at[i] = a + 3 * i * lda;
    }
    for (int64_t k = 0; k < fours; k++, b += 128) {
        const __m512i x = _mm512_loadu_si512(b), y = _mm512_loadu_si512(b + 64);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            const __m512i z = hri_i8_four512(at[i / 3] + i % 3 * lda);
            s[i] = _mm512_dpbusd_epi32(s[i], z, x);
            t[i] = _mm512_dpbusd_epi32(t[i], z, y);
        }
#pragma GCC unroll 4
        for (int i = 0; i < (rows + 2) / 3; i++) {
            at[i] += 4;
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        hri_i8_store512(s[i], 0, first + i, f);
        if (f->columns > 16) {
            hri_i8_store512(t[i], 1, first + i, f);
        }
    }
}

HRI_VNNI static void hri_i8_avx512(int64_t fours, const uint8_t *a, int64_t lda, int rows,
                                   const int8_t *b, const hri_i8_finish *f) {
    if (rows == 12) {
        hri_i8_block512(12, fours, a, lda, b, 0, f);
        return;
    }
    int i = 0;
    for (; i + 6 <= rows; i += 6) {
        hri_i8_block512(6, fours, a + i * lda, lda, b, i, f);
    }
    for (; i + 2 <= rows; i += 2) {
        hri_i8_block512(2, fours, a + i * lda, lda, b, i, f);
    }
    if (i < rows) {
        hri_i8_block512(1, fours, a + i * lda, lda, b, i, f);
    }
}

/* ---- AVX-VNNI ---- */

#define HRI_AVX_VNNI __attribute__((target("avx2,avxvnni")))

HRI_INLINE HRI_AVX_VNNI __m256i hri_i8_four256(const uint8_t *a) {
    int32_t x;
    memcpy(&x, a, sizeof x);
    return _mm256_set1_epi32(x);
}

/* Three rows (fewer: the last one again), 32 columns. */
HRI_INLINE HRI_AVX_VNNI void hri_i8_block_vnni(int64_t fours, const uint8_t *const row[3],
                                               const int8_t *b, int32_t (*sum)[HRI_I8_COLUMNS]) {
    __m256i s[3][4];
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            s[i][j] = _mm256_setzero_si256();
        }
    }
    for (int64_t k = 0; k < fours; k++, b += 4 * HRI_I8_COLUMNS) {
#pragma GCC unroll 3
        for (int i = 0; i < 3; i++) {
            const __m256i x = hri_i8_four256(row[i] + 4 * k);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                const __m256i w = _mm256_loadu_si256((const __m256i *)(const void *)(b + 32 * j));
                s[i][j] = _mm256_dpbusd_avx_epi32(s[i][j], x, w);
            }
        }
    }
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            _mm256_storeu_si256((__m256i *)(void *)(sum[i] + 8 * j), s[i][j]);
        }
    }
}

HRI_AVX_VNNI static void hri_i8_avx_vnni(int64_t fours, const uint8_t *a, int64_t lda, int rows,
                                         const int8_t *b, const hri_i8_finish *f) {
    for (int i = 0; i < rows; i += 3) {
        int32_t sum[3][HRI_I8_COLUMNS];
        const int last = rows - 1;
        const uint8_t *const row[3] = {a + i * lda, a + (i + 1 < last ? i + 1 : last) * lda,
                                       a + (i + 2 < last ? i + 2 : last) * lda};
        hri_i8_block_vnni(fours, row, b, sum);
        for (int k = 0; k < 3 && i + k < rows; k++) {
            hri_i8_put(sum[k], i + k, f);
        }
    }
}

/* ---- AVX2 ---- */

#define HRI_AVX2 __attribute__((target("avx2")))

/* Two rows (or one twice), 16 columns: sums of pairs lie side by side until the end. */
HRI_INLINE HRI_AVX2 void hri_i8_block256(int64_t fours, const uint8_t *a, const uint8_t *more,
                                         const int8_t *b, int32_t *sum, int32_t *sum_more) {
    __m256i s[4], t[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        s[j] = t[j] = _mm256_setzero_si256();
    }
    for (int64_t k = 0; k < fours; k++, b += 4 * HRI_I8_COLUMNS) {
        int32_t x, y;
        memcpy(&x, a + 4 * k, sizeof x);
        memcpy(&y, more + 4 * k, sizeof y);
        const __m256i p = _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(x)));
        const __m256i q = _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(y)));
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            const __m256i w =
                _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(b + 16 * j)));
            s[j] = _mm256_add_epi32(s[j], _mm256_madd_epi16(p, w));
            t[j] = _mm256_add_epi32(t[j], _mm256_madd_epi16(q, w));
        }
    }
    for (int j = 0; j < 4; j++) {
        int32_t pairs[16];
        _mm256_storeu_si256((__m256i *)(void *)pairs, s[j]);
        _mm256_storeu_si256((__m256i *)(void *)(pairs + 8), t[j]);
        for (int q = 0; q < 4; q++) {
            sum[4 * j + q] = pairs[2 * q] + pairs[2 * q + 1];
            sum_more[4 * j + q] = pairs[8 + 2 * q] + pairs[8 + 2 * q + 1];
        }
    }
}

HRI_AVX2 static void hri_i8_avx2(int64_t fours, const uint8_t *a, int64_t lda, int rows,
                                 const int8_t *b, const hri_i8_finish *f) {
    for (int i = 0; i < rows; i += 2) {
        int32_t sum[2][HRI_I8_COLUMNS];
        const uint8_t *more = a + (i + 1 < rows ? i + 1 : i) * lda;
        for (int j = 0; j < HRI_I8_COLUMNS && j < f->columns; j += 16) {
            hri_i8_block256(fours, a + i * lda, more, b + 4 * j, sum[0] + j, sum[1] + j);
        }
        hri_i8_put(sum[0], i, f);
        if (i + 1 < rows) {
            hri_i8_put(sum[1], i + 1, f);
        }
    }
}

#endif
