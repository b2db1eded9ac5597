/* rows16.h with AVX-512, for files that are compiled once and whose kernels are chosen by the processor. */
#ifndef HRI_OPS_COMMON_ROWS16_X86_H
#define HRI_OPS_COMMON_ROWS16_X86_H

#include <immintrin.h>

#define HRI_ROWS_TARGET     __attribute__((target("avx512f,avx512dq,fma")))
#define HRI_ROWS_MAX(A, B)  ((hri_r16)_mm512_max_ps((__m512)(A), (__m512)(B)))
#define HRI_ROWS_INVERSE(A) ((hri_r16)hri_rows_inverse_x86((__m512)(A)))
#define HRI_ROWS_CPU()                                                                             \
    (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&                    \
     __builtin_cpu_supports("fma"))

/* 14 bits, then twice as many: a division takes longer than all that is left. */
HRI_ROWS_TARGET __attribute__((always_inline)) static inline __m512 hri_rows_inverse_x86(__m512 a) {
    const __m512 t = _mm512_rcp14_ps(a);
    return _mm512_fmadd_ps(t, _mm512_fnmadd_ps(a, t, _mm512_set1_ps(1.0f)), t);
}

#include "ops/common/rows16.h"

#endif
