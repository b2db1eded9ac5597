/* The kernels of gemm_kernel.h: vectors of four for every machine, wider ones where they are found. */
#include "ops/common/gemm_kernel.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif
#if defined(__x86_64__)
#include "ops/common/gemm_x86.h"
#endif

#include "ops/common/gemm.h"

enum { MR = HRI_GEMM_MR, NR = HRI_GEMM_NR };

/* ---- for any machine with four lanes ---- */

#if defined(__aarch64__)
typedef float32x4_t v4;
#define load4(P)           vld1q_f32(P)
#define store4(P, V)       vst1q_f32((P), (V))
#define FMA(C, B, A, LANE) vfmaq_laneq_f32((C), (B), (A), LANE) /* C + B * A[LANE] */
#else
typedef float v4 __attribute__((vector_size(16)));
typedef float v4_any __attribute__((vector_size(16), aligned(4), may_alias));
#define load4(P)           ((v4) * (const v4_any *)(P))
#define store4(P, V)       (*(v4_any *)(P) = (V))
#define FMA(C, B, A, LANE) ((C) + (B) * (A)[LANE])
#endif

#define ROW(I, A, LANE)                                                                            \
    c##I##0 = FMA(c##I##0, b0, A, LANE);                                                           \
    c##I##1 = FMA(c##I##1, b1, A, LANE);                                                           \
    c##I##2 = FMA(c##I##2, b2, A, LANE);
#define ROWS(X)    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define DECLARE(I) v4 c##I##0 = {0}, c##I##1 = {0}, c##I##2 = {0};
#define STORE(I)                                                                                   \
    store4(c + I * ldc, c##I##0);                                                                  \
    store4(c + I * ldc + 4, c##I##1);                                                              \
    store4(c + I * ldc + 8, c##I##2);
#define ADD(I)                                                                                     \
    store4(c + I * ldc, load4(c + I * ldc) + c##I##0);                                             \
    store4(c + I * ldc + 4, load4(c + I * ldc + 4) + c##I##1);                                     \
    store4(c + I * ldc + 8, load4(c + I * ldc + 8) + c##I##2);

/* 24 sums stay in registers; each step of k is 5 loads and 24 multiply-adds. */
static void kernel(int64_t kc, const float *a, int64_t apart, const float *b, float *c, int64_t ldc,
                   int first) {
    (void)apart;
    ROWS(DECLARE)
#pragma GCC unroll 4
    for (int64_t k = 0; k < kc; k++, a += MR, b += NR) {
        const v4 a0 = load4(a), a1 = load4(a + 4);
        const v4 b0 = load4(b), b1 = load4(b + 4), b2 = load4(b + 8);
        ROW(0, a0, 0)
        ROW(1, a0, 1)
        ROW(2, a0, 2)
        ROW(3, a0, 3)
        ROW(4, a1, 0)
        ROW(5, a1, 1)
        ROW(6, a1, 2)
        ROW(7, a1, 3)
    }
    if (first) {
        ROWS(STORE)
    } else {
        ROWS(ADD)
    }
}

/* ---- the last columns: 8 x 8 and 16 x 4, so that no register is spent on columns that are not there ---- */

#define DECLARE8(I) v4 c##I##0 = {0}, c##I##1 = {0};
#define ROW8(I, A, LANE)                                                                           \
    c##I##0 = FMA(c##I##0, b0, A, LANE);                                                           \
    c##I##1 = FMA(c##I##1, b1, A, LANE);
#define STORE8(I)                                                                                  \
    store4(c + I * ldc, first ? c##I##0 : load4(c + I * ldc) + c##I##0);                           \
    store4(c + I * ldc + 4, first ? c##I##1 : load4(c + I * ldc + 4) + c##I##1);

static void kernel_8(int64_t kc, const float *a, int64_t apart, const float *b, float *c,
                     int64_t ldc, int first) {
    (void)apart;
    ROWS(DECLARE8)
#pragma GCC unroll 4
    for (int64_t k = 0; k < kc; k++, a += MR, b += NR) {
        const v4 a0 = load4(a), a1 = load4(a + 4), b0 = load4(b), b1 = load4(b + 4);
        ROW8(0, a0, 0)
        ROW8(1, a0, 1)
        ROW8(2, a0, 2)
        ROW8(3, a0, 3)
        ROW8(4, a1, 0)
        ROW8(5, a1, 1)
        ROW8(6, a1, 2)
        ROW8(7, a1, 3)
    }
    ROWS(STORE8)
}

#define DECLARE4(I) v4 c##I##0 = {0}, c##I##1 = {0}; /* rows I and MR + I */
#define ROW4(I, A, B, LANE)                                                                        \
    c##I##0 = FMA(c##I##0, b0, A, LANE);                                                           \
    c##I##1 = FMA(c##I##1, b0, B, LANE);
#define STORE4(I)                                                                                  \
    store4(c + I * ldc, first ? c##I##0 : load4(c + I * ldc) + c##I##0);                           \
    store4(c + (MR + I) * ldc, first ? c##I##1 : load4(c + (MR + I) * ldc) + c##I##1);

static void kernel_4(int64_t kc, const float *a, int64_t apart, const float *b, float *c,
                     int64_t ldc, int first) {
    const float *more = a + apart; /* the second panel */
    ROWS(DECLARE4)
#pragma GCC unroll 4
    for (int64_t k = 0; k < kc; k++, a += MR, more += MR, b += NR) {
        const v4 a0 = load4(a), a1 = load4(a + 4), m0 = load4(more), m1 = load4(more + 4);
        const v4 b0 = load4(b);
        ROW4(0, a0, m0, 0)
        ROW4(1, a0, m0, 1)
        ROW4(2, a0, m0, 2)
        ROW4(3, a0, m0, 3)
        ROW4(4, a1, m1, 0)
        ROW4(5, a1, m1, 1)
        ROW4(6, a1, m1, 2)
        ROW4(7, a1, m1, 3)
    }
    ROWS(STORE4)
}

hri_gemm_kernels hri_gemm_kernels_pick(void) {
#if defined(__x86_64__)
    _Static_assert(MR == 8 && NR == 12, "the kernels of gemm_x86.h are written for these");
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("fma")) {
        return (hri_gemm_kernels){
            .one = hri_kernel_avx2, .two = hri_kernel_avx512, .four = hri_kernel_avx512_four};
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return (hri_gemm_kernels){.one = hri_kernel_avx2, .two = hri_kernel_avx2_two};
    }
#endif
    return (hri_gemm_kernels){.one = kernel, .one_8 = kernel_8, .two_4 = kernel_4};
}
