/* The kernels of gemm_i8.h for Arm: products of matrices of bytes (USMMLA, "i8mm") and the dot product (SDOT); for
 * gemm_i8_kernel.c alone.
 *
 * USMMLA multiplies two rows of eight unsigned bytes with two columns of eight signed ones: six rows and 16 columns are 24
 * sums of 2 x 2 in registers.  SDOT multiplies signed bytes, so 128 is taken off those of A, which gemm_i8.c puts into what
 * is added to sums; four rows and 16 columns are 16 sums in registers. */
#ifndef HRI_OPS_COMMON_GEMM_I8_ARM_H
#define HRI_OPS_COMMON_GEMM_I8_ARM_H

#include <arm_neon.h>
#include <string.h>

#include "ops/common/gemm_i8_finish.h"

#ifndef HWCAP_ASIMDDP
#define HWCAP_ASIMDDP (1 << 20)
#endif
#ifndef HWCAP2_I8MM
#define HWCAP2_I8MM (1 << 13)
#endif

#if defined(__clang__)
#define HRI_DOT __attribute__((target("dotprod")))
#define HRI_MM  __attribute__((target("i8mm")))
#else
#define HRI_DOT __attribute__((target("arch=armv8.2-a+dotprod")))
#define HRI_MM  __attribute__((target("arch=armv8.2-a+i8mm")))
#endif
#define HRI_ARM_INLINE static inline __attribute__((always_inline))

/* ---- sums of a row, 16 columns from number 16 * half on, to their place ---- */

HRI_ARM_INLINE void hri_i8_real_arm(const float32x4_t *by, int half, int64_t row,
                                    const hri_i8_finish *f) {
    float y[16];
    for (int q = 0; q < 4; q++) {
        float32x4_t v = vaddq_f32(by[q], vld1q_f32(f->bias + 16 * half + 4 * q));
        v = f->relu ? vmaxnmq_f32(v, vdupq_n_f32(0.0f)) : v;
        vst1q_f32(y + 4 * q, v);
    }
    const int left = f->columns - 16 * half;
    memcpy(f->real + row * f->ldc + 16 * half, y, (size_t)(left < 16 ? left : 16) * sizeof *y);
}

HRI_ARM_INLINE void hri_i8_store_arm(const int32x4_t *sum, int half, int64_t row,
                                     const hri_i8_finish *f) {
    float32x4_t by[4];
    for (int q = 0; q < 4; q++) {
        const int32x4_t whole = vaddq_s32(sum[q], vld1q_s32(f->add + 16 * half + 4 * q));
        by[q] = vmulq_f32(vcvtq_f32_s32(whole), vld1q_f32(f->by + 16 * half + 4 * q));
    }
    if (!f->c) {
        hri_i8_real_arm(by, half, row, f);
        return;
    }
    const float32x4_t low = vdupq_n_f32(f->low), high = vdupq_n_f32(f->high);
    uint16x4_t part[4];
    for (int q = 0; q < 4; q++) {
        const float32x4_t held = vminnmq_f32(vmaxnmq_f32(by[q], low), high);
        const int32x4_t byte = vaddq_s32(vcvtnq_s32_f32(held), vdupq_n_s32(f->zero));
        part[q] = vmovn_u32(vreinterpretq_u32_s32(byte));
    }
    const uint8x16_t all = vcombine_u8(vmovn_u16(vcombine_u16(part[0], part[1])),
                                       vmovn_u16(vcombine_u16(part[2], part[3])));
    uint8_t *to = f->c + row * f->ldc + 16 * half;
    if (f->columns - 16 * half >= 16) {
        vst1q_u8(to, all);
        return;
    }
    uint8_t bytes[16];
    vst1q_u8(bytes, all);
    memcpy(to, bytes, (size_t)(f->columns - 16 * half));
}

/* ---- i8mm ---- */

HRI_ARM_INLINE HRI_MM uint8x16_t hri_i8_pair(const uint8_t *a, const uint8_t *b) {
    return vcombine_u8(vld1_u8(a), vld1_u8(b));
}

/* `pairs` pairs of rows, of which the last may be one row twice; 16 columns. */
HRI_ARM_INLINE HRI_MM void hri_i8_block_mm(const int pairs, int64_t eights, const uint8_t *a,
                                           int64_t lda, int rows, const int8_t *b, int half,
                                           int64_t first, const hri_i8_finish *f) {
    int32x4_t s[3][8];
    const uint8_t *at[6];
#pragma GCC unroll 3
    for (int i = 0; i < pairs; i++) {
        at[2 * i] = a + 2 * i * lda;
        at[2 * i + 1] = a + (2 * i + 1 < rows ? 2 * i + 1 : 2 * i) * lda;
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            s[i][j] = vdupq_n_s32(0);
        }
    }
    b += 128 * half;
    for (int64_t k = 0; k < eights; k++, b += 8 * HRI_I8_COLUMNS) {
        uint8x16_t x[3];
#pragma GCC unroll 3
        for (int i = 0; i < pairs; i++) {
            x[i] = hri_i8_pair(at[2 * i] + 8 * k, at[2 * i + 1] + 8 * k);
        }
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            const int8x16_t w = vld1q_s8(b + 16 * j);
#pragma GCC unroll 3
            for (int i = 0; i < pairs; i++) {
                s[i][j] = vusmmlaq_s32(s[i][j], x[i], w);
            }
        }
    }
#pragma GCC unroll 3
    for (int i = 0; i < pairs; i++) {
        int32x4_t up[4], down[4];
        for (int q = 0; q < 4; q++) {
            const int64x2_t l = vreinterpretq_s64_s32(s[i][2 * q]);
            const int64x2_t r = vreinterpretq_s64_s32(s[i][2 * q + 1]);
            up[q] = vreinterpretq_s32_s64(vtrn1q_s64(l, r));
            down[q] = vreinterpretq_s32_s64(vtrn2q_s64(l, r));
        }
        hri_i8_store_arm(up, half, first + 2 * i, f);
        if (2 * i + 1 < rows) {
            hri_i8_store_arm(down, half, first + 2 * i + 1, f);
        }
    }
}

static HRI_MM void hri_i8_i8mm(int64_t eights, const uint8_t *a, int64_t lda, int rows,
                               const int8_t *b, const hri_i8_finish *f) {
    for (int half = 0; 16 * half < f->columns; half++) {
        int i = 0;
        for (; i + 6 <= rows; i += 6) {
            hri_i8_block_mm(3, eights, a + i * lda, lda, 6, b, half, i, f);
        }
        for (; i < rows; i += 2) {
            hri_i8_block_mm(1, eights, a + i * lda, lda, rows - i < 2 ? 1 : 2, b, half, i, f);
        }
    }
}

/* ---- dotprod ---- */

HRI_ARM_INLINE HRI_DOT int8x16_t hri_i8_signed(const uint8_t *a) {
    return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(a), vdupq_n_u8(128)));
}

/* Four bytes of each of four rows at depth 4 k; lane i is row i. */
HRI_ARM_INLINE HRI_DOT int8x16_t hri_i8_rows4(const uint8_t *const a[4], int64_t k) {
    uint32_t x[4];
    for (int i = 0; i < 4; i++) {
        memcpy(&x[i], a[i] + 4 * k, sizeof x[i]);
    }
    return vreinterpretq_s8_u8(veorq_u8(vreinterpretq_u8_u32(vld1q_u32(x)), vdupq_n_u8(128)));
}

/* Lane `l` of x[i] times four vectors of columns. */
#define HRI_DOT_ROW(I, X, L)                                                                       \
    s[I][0] = vdotq_laneq_s32(s[I][0], w0, X, L);                                                  \
    s[I][1] = vdotq_laneq_s32(s[I][1], w1, X, L);                                                  \
    s[I][2] = vdotq_laneq_s32(s[I][2], w2, X, L);                                                  \
    s[I][3] = vdotq_laneq_s32(s[I][3], w3, X, L);
#define HRI_DOT_LOAD(B)                                                                            \
    const int8x16_t w0 = vld1q_s8(B), w1 = vld1q_s8((B) + 16), w2 = vld1q_s8((B) + 32),            \
                    w3 = vld1q_s8((B) + 48);
/* Four neighbours of each of four rows, a group of four along the depth. */
#define HRI_DOT_FOUR(L)                                                                            \
    {                                                                                              \
        HRI_DOT_LOAD(b + 4 * HRI_I8_COLUMNS * L)                                                   \
        HRI_DOT_ROW(0, x0, L)                                                                      \
        HRI_DOT_ROW(1, x1, L)                                                                      \
        HRI_DOT_ROW(2, x2, L)                                                                      \
        HRI_DOT_ROW(3, x3, L)                                                                      \
    }

HRI_ARM_INLINE HRI_DOT void hri_i8_block_dot(int64_t fours, const uint8_t *const a[4], int rows,
                                             const int8_t *b, int half, int64_t first,
                                             const hri_i8_finish *f) {
    int32x4_t s[4][4];
    int64_t k = 0;
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            s[i][j] = vdupq_n_s32(0);
        }
    }
    b += 64 * half;
    for (; k + 4 <= fours; k += 4, b += 16 * HRI_I8_COLUMNS) {
        const int8x16_t x0 = hri_i8_signed(a[0] + 4 * k), x1 = hri_i8_signed(a[1] + 4 * k);
        const int8x16_t x2 = hri_i8_signed(a[2] + 4 * k), x3 = hri_i8_signed(a[3] + 4 * k);
        HRI_DOT_FOUR(0)
        HRI_DOT_FOUR(1)
        HRI_DOT_FOUR(2)
        HRI_DOT_FOUR(3)
    }
    for (; k < fours; k++, b += 4 * HRI_I8_COLUMNS) {
        const int8x16_t x = hri_i8_rows4(a, k);
        HRI_DOT_LOAD(b)
        HRI_DOT_ROW(0, x, 0)
        HRI_DOT_ROW(1, x, 1)
        HRI_DOT_ROW(2, x, 2)
        HRI_DOT_ROW(3, x, 3)
    }
    for (int i = 0; i < rows; i++) {
        hri_i8_store_arm(s[i], half, first + i, f);
    }
}

static HRI_DOT void hri_i8_dotprod(int64_t fours, const uint8_t *a, int64_t lda, int rows,
                                   const int8_t *b, const hri_i8_finish *f) {
    for (int half = 0; 16 * half < f->columns; half++) {
        for (int i = 0; i < rows; i += 4) {
            const int there = rows - i < 4 ? rows - i : 4;
            const uint8_t *row[4];
            for (int r = 0; r < 4; r++) {
                row[r] = a + (i + (r < there ? r : 0)) * lda;
            }
            hri_i8_block_dot(fours, row, there, b, half, i, f);
        }
    }
}

#endif
