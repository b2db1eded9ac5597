/* The kernel of gemm_i8.h for Arm's dot product (SDOT); for gemm_i8_kernel.c alone.
 *
 * SDOT multiplies signed bytes, so 128 is taken off those of A, which gemm_i8.c puts into what is added to sums.  Four rows
 * and 16 columns are 16 sums in registers. */
#ifndef HRI_OPS_COMMON_GEMM_I8_ARM_H
#define HRI_OPS_COMMON_GEMM_I8_ARM_H

#include <arm_neon.h>
#include <string.h>

#include "ops/common/gemm_i8_finish.h"

#ifndef HWCAP_ASIMDDP
#define HWCAP_ASIMDDP (1 << 20)
#endif

#if defined(__clang__)
#define HRI_DOT __attribute__((target("dotprod")))
#else
/* gcc inlines arm_neon.h only into functions of its whole architecture, not of the extension alone. */
#define HRI_DOT __attribute__((target("arch=armv8.2-a+dotprod")))
#endif

/* Four bytes of each of four rows, less 128. */
static inline HRI_DOT int8x16_t hri_i8_rows4(const uint8_t *const a[4], int64_t at) {
    uint32_t x[4];
    for (int i = 0; i < 4; i++) {
        memcpy(&x[i], a[i] + at, sizeof x[i]);
    }
    return vreinterpretq_s8_u8(veorq_u8(vreinterpretq_u8_u32(vld1q_u32(x)), vdupq_n_u8(128)));
}

#define HRI_DOT_ROW(I)                                                                             \
    s[I][0] = vdotq_laneq_s32(s[I][0], w0, x, I);                                                  \
    s[I][1] = vdotq_laneq_s32(s[I][1], w1, x, I);                                                  \
    s[I][2] = vdotq_laneq_s32(s[I][2], w2, x, I);                                                  \
    s[I][3] = vdotq_laneq_s32(s[I][3], w3, x, I);

static HRI_DOT void hri_i8_block_dot(int64_t fours, const uint8_t *const a[4], const int8_t *b,
                                     int32_t (*sum)[HRI_I8_COLUMNS]) {
    int32x4_t s[4][4];
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            s[i][j] = vdupq_n_s32(0);
        }
    }
    for (int64_t k = 0; k < fours; k++, b += 4 * HRI_I8_COLUMNS) {
        const int8x16_t x = hri_i8_rows4(a, 4 * k);
        const int8x16_t w0 = vld1q_s8(b), w1 = vld1q_s8(b + 16);
        const int8x16_t w2 = vld1q_s8(b + 32), w3 = vld1q_s8(b + 48);
        HRI_DOT_ROW(0)
        HRI_DOT_ROW(1)
        HRI_DOT_ROW(2)
        HRI_DOT_ROW(3)
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            vst1q_s32(sum[i] + 4 * j, s[i][j]);
        }
    }
}

static HRI_DOT void hri_i8_dotprod(int64_t fours, const uint8_t *a, int64_t lda, int rows,
                                   const int8_t *b, const hri_i8_finish *f) {
    for (int i = 0; i < rows; i += 4) {
        const int there = rows - i < 4 ? rows - i : 4;
        int32_t sum[4][HRI_I8_COLUMNS];
        const uint8_t *row[4];
        for (int r = 0; r < 4; r++) {
            row[r] = a + (i + (r < there ? r : 0)) * lda;
        }
        for (int j = 0; j < f->columns; j += 16) {
            hri_i8_block_dot(fours, row, b + 4 * j, (int32_t(*)[HRI_I8_COLUMNS])(sum[0] + j));
        }
        for (int r = 0; r < there; r++) {
            hri_i8_put(sum[r], i + r, f);
        }
    }
}

#endif
