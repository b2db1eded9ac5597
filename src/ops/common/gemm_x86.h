/* The kernels of gemm_kernel.h for AVX2 and AVX-512.
 *
 * A panel of A is 8 rows, one 256-bit vector; two panels side by side are one of 512 bits.  B is broadcast number by
 * number, so the 12 sums are columns of C, and they are turned over once at the end of the depth.  12 sums, one or
 * two vectors of A and one of B fit into the 16 registers of AVX2; of AVX-512's 32, four panels take 24 sums, and each number of B is
 * fetched once for two of them, so that the adders wait for no load.  For gemm_kernel.c alone. */
#ifndef HRI_OPS_COMMON_GEMM_X86_H
#define HRI_OPS_COMMON_GEMM_X86_H

#include <immintrin.h>
#include <stdint.h>

#define HRI_COLUMNS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

/* columns[j * rows + i] to c (rows, 12), four by four. */
static inline void hri_x86_put(const float *columns, int64_t rows, float *c, int64_t ldc,
                               int first) {
    for (int64_t i = 0; i < rows; i += 4) {
        for (int64_t j = 0; j < 12; j += 4) {
            const float *from = columns + j * rows + i;
            float *to = c + i * ldc + j;
            __m128 r0 = _mm_loadu_ps(from), r1 = _mm_loadu_ps(from + rows);
            __m128 r2 = _mm_loadu_ps(from + 2 * rows), r3 = _mm_loadu_ps(from + 3 * rows);
            _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
            if (!first) {
                r0 = _mm_add_ps(_mm_loadu_ps(to), r0);
                r1 = _mm_add_ps(_mm_loadu_ps(to + ldc), r1);
                r2 = _mm_add_ps(_mm_loadu_ps(to + 2 * ldc), r2);
                r3 = _mm_add_ps(_mm_loadu_ps(to + 3 * ldc), r3);
            }
            _mm_storeu_ps(to, r0);
            _mm_storeu_ps(to + ldc, r1);
            _mm_storeu_ps(to + 2 * ldc, r2);
            _mm_storeu_ps(to + 3 * ldc, r3);
        }
    }
}

__attribute__((target("avx2,fma"))) static void hri_kernel_avx2(int64_t kc, const float *a,
                                                                int64_t apart, const float *b,
                                                                float *c, int64_t ldc, int first) {
    (void)apart;
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

/* Two panels, six columns at a time: 8 loads for 12 multiply-adds, where one panel takes 13, more than two a cycle. */
__attribute__((target("avx2,fma"))) static void hri_kernel_avx2_two(int64_t kc, const float *a,
                                                                    int64_t apart, const float *b,
                                                                    float *c, int64_t ldc,
                                                                    int first) {
#define HALF(X)    X(0) X(1) X(2) X(3) X(4) X(5)
#define DECLARE(J) __m256 s##J = _mm256_setzero_ps(), t##J = _mm256_setzero_ps();
#define ADD(J)                                                                                     \
    {                                                                                              \
        __m256 z = _mm256_broadcast_ss(q + J);                                                     \
        s##J = _mm256_fmadd_ps(x, z, s##J);                                                        \
        t##J = _mm256_fmadd_ps(y, z, t##J);                                                        \
    }
#define STORE(J)                                                                                   \
    _mm256_storeu_ps(to + 16 * J, s##J);                                                           \
    _mm256_storeu_ps(to + 16 * J + 8, t##J);
    float columns[12 * 16];
    for (int64_t j = 0; j < 12; j += 6) {
        const float *p = a, *q = b + j;
        float *to = columns + 16 * j;
        HALF(DECLARE)
        for (int64_t k = 0; k < kc; k++, p += 8, q += 12) {
            const __m256 x = _mm256_loadu_ps(p), y = _mm256_loadu_ps(p + apart);
            HALF(ADD)
        }
        HALF(STORE)
    }
    hri_x86_put(columns, 16, c, ldc, first);
#undef HALF
#undef DECLARE
#undef ADD
#undef STORE
}

/* Depth 0 of two panels that lie `apart` numbers from one another. */
#define HRI_PAIR(A, APART)                                                                         \
    _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(A)), _mm256_loadu_ps((A) + (APART)), \
                       1)

__attribute__((target("avx512f,avx512dq"))) static void
hri_kernel_avx512(int64_t kc, const float *a, int64_t apart, const float *b, float *c, int64_t ldc,
                  int first) {
#define DECLARE(J) __m512 s##J = _mm512_setzero_ps();
#define ADD(J)     s##J = _mm512_fmadd_ps(x, _mm512_set1_ps(b[J]), s##J);
#define STORE(J)   _mm512_storeu_ps(columns + 16 * J, s##J);
    float columns[12 * 16];
    HRI_COLUMNS(DECLARE)
    for (int64_t k = 0; k < kc; k++, a += 8, b += 12) {
        const __m512 x = HRI_PAIR(a, apart);
        HRI_COLUMNS(ADD)
    }
    HRI_COLUMNS(STORE)
    hri_x86_put(columns, 16, c, ldc, first);
#undef DECLARE
#undef ADD
#undef STORE
}

__attribute__((target("avx512f,avx512dq"))) static void
hri_kernel_avx512_four(int64_t kc, const float *a, int64_t apart, const float *b, float *c,
                       int64_t ldc, int first) {
#define DECLARE(J) __m512 s##J = _mm512_setzero_ps(), t##J = _mm512_setzero_ps();
#define ADD(J)                                                                                     \
    {                                                                                              \
        __m512 z = _mm512_set1_ps(b[J]);                                                           \
        __asm__("" : "+v"(z)); /* once to a register, not twice from memory */                     \
        s##J = _mm512_fmadd_ps(x, z, s##J);                                                        \
        t##J = _mm512_fmadd_ps(y, z, t##J);                                                        \
    }
#define STORE(J)      _mm512_storeu_ps(columns + 16 * J, s##J);
#define STORE_MORE(J) _mm512_storeu_ps(columns + 16 * J, t##J);
    float columns[12 * 16];
    const float *more = a + 2 * apart;
    HRI_COLUMNS(DECLARE)
    for (int64_t k = 0; k < kc; k++, a += 8, more += 8, b += 12) {
        const __m512 x = HRI_PAIR(a, apart), y = HRI_PAIR(more, apart);
        HRI_COLUMNS(ADD)
    }
    HRI_COLUMNS(STORE)
    hri_x86_put(columns, 16, c, ldc, first);
    HRI_COLUMNS(STORE_MORE)
    hri_x86_put(columns, 16, c + 16 * ldc, ldc, first);
#undef DECLARE
#undef ADD
#undef STORE
#undef STORE_MORE
}

#endif
