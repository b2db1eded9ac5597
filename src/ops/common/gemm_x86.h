/* The kernels of gemm_kernel.h for AVX2 and AVX-512.
 *
 * A panel of A is 8 rows, one 256-bit vector; two panels side by side are one of 512 bits.  B is broadcast number by
 * number, so the 12 sums are columns of C, and they are turned over once at the end of the depth.  12 sums, one vector
 * of A and one of B fit into the 16 registers of AVX2.  For gemm_kernel.c alone. */
#ifndef HRI_OPS_COMMON_GEMM_X86_H
#define HRI_OPS_COMMON_GEMM_X86_H

#include <immintrin.h>
#include <stdint.h>

#define HRI_COLUMNS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

/* columns[j * rows + i] to c (rows, 12). */
static inline void hri_x86_put(const float *columns, int64_t rows, float *c, int64_t ldc,
                               int first) {
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < 12; j++) {
            const float x = columns[j * rows + i];
            c[i * ldc + j] = first ? x : c[i * ldc + j] + x;
        }
    }
}

__attribute__((target("avx2,fma"))) static void
hri_kernel_avx2(int64_t kc, const float *a, const float *b, float *c, int64_t ldc, int first) {
#define DECLARE(J) __m256 s##J = _mm256_setzero_ps();
#define ADD(J)     s##J = _mm256_fmadd_ps(x, _mm256_broadcast_ss(b + J), s##J);
#define STORE(J)   _mm256_storeu_ps(columns + 8 * J, s##J);
    float columns[12 * 8];
    HRI_COLUMNS(DECLARE)
    for (int64_t k = 0; k < kc; k++, a += 8, b += 12) {
        const __m256 x = _mm256_loadu_ps(a);
        HRI_COLUMNS(ADD)
    }
    HRI_COLUMNS(STORE)
    hri_x86_put(columns, 8, c, ldc, first);
#undef DECLARE
#undef ADD
#undef STORE
}

__attribute__((target("avx512f,avx512dq"))) static void
hri_kernel_avx512(int64_t kc, const float *a, const float *b, float *c, int64_t ldc, int first) {
#define DECLARE(J) __m512 s##J = _mm512_setzero_ps();
#define ADD(J)     s##J = _mm512_fmadd_ps(x, _mm512_set1_ps(b[J]), s##J);
#define STORE(J)   _mm512_storeu_ps(columns + 16 * J, s##J);
    float columns[12 * 16];
    const float *more = a + kc * 8; /* the second panel */
    HRI_COLUMNS(DECLARE)
    for (int64_t k = 0; k < kc; k++, a += 8, more += 8, b += 12) {
        const __m512 x = _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(a)),
                                            _mm256_loadu_ps(more), 1);
        HRI_COLUMNS(ADD)
    }
    HRI_COLUMNS(STORE)
    hri_x86_put(columns, 16, c, ldc, first);
#undef DECLARE
#undef ADD
#undef STORE
}

#endif
