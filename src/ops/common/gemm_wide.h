/* The product of panels for vectors of 16, AVX-512: 8 rows by 32 columns in registers.
 *
 * Columns of B lie in two vectors, numbers of A are broadcast, so that the sums are rows of C and go where they belong as
 * they are.  16 sums need two loads of B and eight of A for 16 multiply-adds; a panel of B (32 by KC) stays in the first
 * cache while those of A pass by.  The last panel of B is as wide as it has columns, to the next multiple of four: what is read
 * behind it is some number, and is not stored.  For gemm.c alone, where HRI_GEMM_WIDE is set (cmake/levels.cmake). */
#ifndef HRI_OPS_COMMON_GEMM_WIDE_H
#define HRI_OPS_COMMON_GEMM_WIDE_H

#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "ops/common/gemm.h"

typedef float hri_v16 __attribute__((vector_size(64)));
typedef float hri_v16_any __attribute__((vector_size(64), aligned(4), may_alias));

#ifdef __AVX512F__
#define HRI_WIDE_FMA(A, B, C) ((hri_v16)_mm512_fmadd_ps((__m512)(A), (__m512)(B), (__m512)(C)))
#define HRI_WIDE_ALL(X)       ((hri_v16)_mm512_set1_ps(X))
#define HRI_WIDE_ONCE(X)      __asm__("" : "+v"(X)) /* to a register, not twice from memory */
#define HRI_WIDE_INDEX(K)                                                                          \
    __asm__(                                                                                       \
        ""                                                                                         \
        : "+r"(                                                                                    \
            K)) /* one register for eight rows, not eight that are counted up: adders of those are the products' */
#else
#define HRI_WIDE_FMA(A, B, C) ((A) * (B) + (C))
#define HRI_WIDE_ALL(X)       ((hri_v16){0} + (X))
#define HRI_WIDE_ONCE(X)      (void)(X)
#define HRI_WIDE_INDEX(K)     (void)(K)
#endif
#define HRI_WIDE_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* Vectors go by their address: by value they would be an ABI that not every x86-64 has. */
#define HRI_WIDE_INLINE __attribute__((always_inline)) static inline

HRI_WIDE_INLINE void hri_wide_store(const hri_v16 *s, float *c, int first) {
    hri_v16_any *to = (hri_v16_any *)c;
    if (first) {
        *to = *s;
    } else {
        *to += *s;
    }
}

/* The first `columns` of a vector, which may be none. */
HRI_WIDE_INLINE void hri_wide_store_some(const hri_v16 *s, float *c, int64_t columns, int first) {
#ifdef __AVX512F__
    const __mmask16 some = (__mmask16)((1u << columns) - 1u);
    const __m512 before = first ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(some, c);
    _mm512_mask_storeu_ps(c, some, first ? (__m512)*s : _mm512_add_ps(before, (__m512)*s));
#else
    for (int64_t j = 0; j < columns; j++) {
        c[j] = first ? (*s)[j] : c[j] + (*s)[j];
    }
#endif
}

/* One row of sums to c: all of two vectors, or the first `columns`. */
HRI_WIDE_INLINE void hri_wide_put(const hri_v16 *s, const hri_v16 *t, float *c, int64_t columns,
                                  int first) {
    if (columns == 2 * 16) {
        hri_wide_store(s, c, first);
        hri_wide_store(t, c + 16, first);
        return;
    }
    hri_wide_store_some(s, c, columns < 16 ? columns : 16, first);
    if (columns > 16) {
        hri_wide_store_some(t, c + 16, columns - 16, first);
    }
}

HRI_WIDE_INLINE void hri_wide_put_16(const hri_v16 *s, float *c, int64_t columns, int first) {
    if (columns == 16) {
        hri_wide_store(s, c, first);
    } else {
        hri_wide_put(s, s, c, columns, first);
    }
}

/* ---- what is needed soon ----
 *
 * Lines come from far away, and there is room for few that are on their way: one row of c and two lines of A are asked for at
 * every HRI_WIDE_STEP depths.  All at once they would hold up the reads of this panel. */
enum { HRI_WIDE_STEP = 16 };

HRI_WIDE_INLINE void hri_wide_fetch(const float *c, int64_t columns) {
    __builtin_prefetch(c, 1);
    __builtin_prefetch(c + 16, 1);
    __builtin_prefetch(c + columns - 1, 1);
}

/* What will be read of A next, in lines: number i at `at` + i % 8 * near + i / 8 * far. */
typedef struct hri_wide_soon {
    const float *at;
    int64_t near, far, count;
    int close; /* c is in a cache that is close: all its rows at once */
} hri_wide_soon;

HRI_WIDE_INLINE void hri_wide_soon_fetch(const hri_wide_soon *s, int64_t i) {
    if (i < s->count) {
        __builtin_prefetch(s->at + i % 8 * s->near + i / 8 * s->far, 0, 2);
    }
}

/* At depth K of kc: asks, and says until where to go on. */
#define HRI_WIDE_NEXT(K)                                                                           \
    for (int64_t most = soon.close ? rows : coming + 1; coming < most && coming < rows;) {         \
        hri_wide_fetch(c + coming * ldc, columns);                                                 \
        coming++;                                                                                  \
    }                                                                                              \
    hri_wide_soon_fetch(&soon, due);                                                               \
    hri_wide_soon_fetch(&soon, due + 1);                                                           \
    due += 2;                                                                                      \
    const int64_t until = !soon.close && (K) + HRI_WIDE_STEP < kc ? (K) + HRI_WIDE_STEP : kc;

/* ---- the kernels ---- */

#define HRI_WIDE_SUMS(I) hri_v16 s##I = {0}, t##I = {0};
#define HRI_WIDE_ADD(I, A)                                                                         \
    {                                                                                              \
        hri_v16 z = HRI_WIDE_ALL(A);                                                               \
        HRI_WIDE_ONCE(z);                                                                          \
        s##I = HRI_WIDE_FMA(x, z, s##I);                                                           \
        t##I = HRI_WIDE_FMA(y, z, t##I);                                                           \
    }
#define HRI_WIDE_PUT(I)                                                                            \
    if (I < rows) {                                                                                \
        hri_wide_put(&s##I, &t##I, c + I * ldc, columns, first);                                   \
    }
#define HRI_WIDE_B(B)                                                                              \
    const hri_v16 x = ((const hri_v16_any *)(B))[0], y = ((const hri_v16_any *)(B))[1]

/* One panel of A, `step` from one depth to the next: rows and columns that are stored. */
static void hri_wide_8(int64_t kc, const float *a, int64_t step, const float *b, int64_t width,
                       float *c, int64_t ldc, int64_t rows, int64_t columns, int first) {
    const hri_wide_soon soon = {0};
#define ADD(I) HRI_WIDE_ADD(I, a[I])
    int64_t coming = 0, due = 0;
    HRI_WIDE_ROWS(HRI_WIDE_SUMS)
    for (int64_t k = 0; k < kc;) {
        HRI_WIDE_NEXT(k)
#pragma GCC unroll 2
        for (; k < until; k++, a += step, b += width) {
            HRI_WIDE_B(b);
            HRI_WIDE_ROWS(ADD)
        }
    }
    HRI_WIDE_ROWS(HRI_WIDE_PUT)
#undef ADD
}

/* The same of rows where they lie, piece after piece. */
static void hri_wide_by_rows(const hri_gemm_lines *lines, const float *const *at, const float *b,
                             int64_t width, float *c, int64_t ldc, int64_t rows, int64_t columns,
                             int first, hri_wide_soon soon) {
#define LINE(I) const float *const p##I = at[I];
#define ADD(I)  HRI_WIDE_ADD(I, p##I[k])
#define MORE(I) HRI_WIDE_ADD(I, p##I[k + 1])
    int64_t coming = 0, due = 0;
    HRI_WIDE_ROWS(HRI_WIDE_SUMS)
    for (int64_t i = 0; i < lines->pieces; i++, at += HRI_GEMM_MR) {
        HRI_WIDE_ROWS(LINE)
        const int64_t kc = lines->length[i];
        for (int64_t k = 0; k < kc;) {
            HRI_WIDE_NEXT(k)
            const int64_t pairs = until - (until - k) % 2;
            while (k < pairs) {
                HRI_WIDE_INDEX(k);
                {
                    HRI_WIDE_B(b);
                    HRI_WIDE_ROWS(ADD)
                }
                b += width;
                HRI_WIDE_B(b);
                HRI_WIDE_ROWS(MORE)
                b += width;
                k += 2;
            }
            for (; k < until; k++, b += width) {
                HRI_WIDE_B(b);
                HRI_WIDE_ROWS(ADD)
            }
        }
    }
    HRI_WIDE_ROWS(HRI_WIDE_PUT)
#undef LINE
#undef ADD
#undef MORE
}

/* The same of rows where they lie, 16 columns at most. */
static void hri_wide_by_rows_16(const hri_gemm_lines *lines, const float *const *at, const float *b,
                                int64_t width, float *c, int64_t ldc, int64_t rows, int64_t columns,
                                int first) {
#define DECLARE(I) hri_v16 s##I = {0};
#define LINE(I)    const float *const p##I = at[I];
#define ADD(I)     s##I = HRI_WIDE_FMA(x, HRI_WIDE_ALL(p##I[k]), s##I);
#define PUT(I)                                                                                     \
    if (I < rows) {                                                                                \
        hri_wide_put_16(&s##I, c + I * ldc, columns, first);                                       \
    }
    HRI_WIDE_ROWS(DECLARE)
    for (int64_t i = 0; i < lines->pieces; i++, at += HRI_GEMM_MR) {
        HRI_WIDE_ROWS(LINE)
        const int64_t kc = lines->length[i];
        for (int64_t k = 0; k < kc; k++, b += width) {
            HRI_WIDE_INDEX(k);
            const hri_v16 x = ((const hri_v16_any *)b)[0];
            HRI_WIDE_ROWS(ADD)
        }
    }
    HRI_WIDE_ROWS(PUT)
#undef DECLARE
#undef LINE
#undef ADD
#undef PUT
}

/* Two panels of A, 16 columns at most. */
static void hri_wide_16(int64_t kc, const float *a, int64_t apart, const float *b, int64_t width,
                        float *c, int64_t ldc, int64_t rows, int64_t columns, int first) {
#define DECLARE(I) hri_v16 s##I = {0}, t##I = {0};
#define ADD(I)                                                                                     \
    s##I = HRI_WIDE_FMA(x, HRI_WIDE_ALL(a[I]), s##I);                                              \
    t##I = HRI_WIDE_FMA(x, HRI_WIDE_ALL(more[I]), t##I);
#define PUT(I)                                                                                     \
    if (I < rows) {                                                                                \
        hri_wide_put_16(&s##I, c + I * ldc, columns, first);                                       \
    }                                                                                              \
    if (HRI_GEMM_MR + I < rows) {                                                                  \
        hri_wide_put_16(&t##I, c + (HRI_GEMM_MR + I) * ldc, columns, first);                       \
    }
    const float *more = a + apart;
    HRI_WIDE_ROWS(DECLARE)
    for (int64_t k = 0; k < kc; k++, a += HRI_GEMM_MR, more += HRI_GEMM_MR, b += width) {
        const hri_v16 x = ((const hri_v16_any *)b)[0];
        HRI_WIDE_ROWS(ADD)
    }
    HRI_WIDE_ROWS(PUT)
#undef DECLARE
#undef ADD
#undef PUT
}

/* c (mc, nc), no more and no less, = or += panels of A, `apart` from one another, times panels of B. */
static inline void hri_wide_multiply(int64_t mc, int64_t nc, int64_t kc, const float *a,
                                     int64_t apart, const float *b, float *c, int64_t ldc,
                                     int first) {
    for (int64_t j = 0; j < nc; j += HRI_GEMM_NR) {
        const int64_t left = nc - j, columns = left < HRI_GEMM_NR ? left : HRI_GEMM_NR;
        const int64_t width = hri_gemm_width(left);
        for (int64_t i = 0; i < mc;) {
            const int two = columns <= 16 && mc - i > HRI_GEMM_MR;
            const int64_t most = two ? 2 * HRI_GEMM_MR : HRI_GEMM_MR;
            const int64_t rows = mc - i < most ? mc - i : most;
            const float *panel = a + i / HRI_GEMM_MR * apart;
            if (two) {
                hri_wide_16(kc, panel, apart, b + j * kc, width, c + i * ldc + j, ldc, rows,
                            columns, first);
            } else {
                hri_wide_8(kc, panel, HRI_GEMM_MR, b + j * kc, width, c + i * ldc + j, ldc, rows,
                           columns, first);
            }
            i += rows;
        }
    }
}

/* Part `j` of `parts` of what panel i of the next block has, which lies `ahead` from where this one does. */
HRI_WIDE_INLINE hri_wide_soon hri_wide_soon_of(const hri_gemm_lines *lines, int64_t kc, int64_t i,
                                               int64_t j, int64_t parts, int64_t ahead, int close) {
    const float *const *at = lines->panel[i].at;
    if (!ahead || kc < 16) {
        return (hri_wide_soon){.close = close};
    }
    const int64_t each = (kc / 16 + parts - 1) / parts;
    return (hri_wide_soon){at[0] + ahead + j * each * 16, at[1] - at[0], 16, 8 * each, close};
}

/* The same of a block of A where it lies; `ahead`: how far from it the next one does, 0 if that is not known;
 * `close`: c is scratch. */
static inline void hri_wide_multiply_lines(int64_t mc, int64_t nc, int64_t kc,
                                           const hri_gemm_lines *lines, const float *b, float *c,
                                           int64_t ldc, int first, int64_t ahead, int close) {
    const int64_t parts = (nc + HRI_GEMM_NR - 1) / HRI_GEMM_NR;
    for (int64_t j = 0; j < nc; j += HRI_GEMM_NR) {
        const int64_t left = nc - j, columns = left < HRI_GEMM_NR ? left : HRI_GEMM_NR;
        const int64_t width = hri_gemm_width(left);
        for (int64_t i = 0; i < mc; i += HRI_GEMM_MR) {
            const int64_t rows = mc - i < HRI_GEMM_MR ? mc - i : HRI_GEMM_MR;
            const float *const *at = lines->panel[i / HRI_GEMM_MR].at;
            float *to = c + i * ldc + j;
            const hri_wide_soon soon =
                hri_wide_soon_of(lines, kc, i / HRI_GEMM_MR, j / HRI_GEMM_NR, parts, ahead, close);
            if (columns <= 16) {
                hri_wide_by_rows_16(lines, at, b + j * kc, width, to, ldc, rows, columns, first);
            } else {
                hri_wide_by_rows(lines, at, b + j * kc, width, to, ldc, rows, columns, first, soon);
            }
        }
    }
}

/* The same of A turned: lines of whole panels. */
static inline void hri_wide_multiply_turned(int64_t mc, int64_t nc, int64_t kc, const float *a,
                                            int64_t lda, const float *b, float *c, int64_t ldc,
                                            int first) {
    for (int64_t j = 0; j < nc; j += HRI_GEMM_NR) {
        const int64_t left = nc - j, columns = left < HRI_GEMM_NR ? left : HRI_GEMM_NR;
        for (int64_t i = 0; i < mc; i += HRI_GEMM_MR) {
            const int64_t rows = mc - i < HRI_GEMM_MR ? mc - i : HRI_GEMM_MR;
            hri_wide_8(kc, a + i, lda, b + j * kc, hri_gemm_width(left), c + i * ldc + j, ldc, rows,
                       columns, first);
        }
    }
}

#endif
