/* Products of bytes: C (M, N) = A (M, K) u8 * B (K, N) i8, sums in i32, then bytes or f32 (requantize.h).
 *
 * The one idea: rows of A stay rows.  A kernel takes four neighbours of a row and four of each column at a time, which is what
 * VNNI and SDOT multiply, or eight, which is what USMMLA does, so only B is packed, once a call: panels of 32 columns, four or
 * eight deep.  Rows come from the matrix itself or from a function that copies patches of an image.  A sum runs over the whole
 * depth in registers and leaves them as a byte.  Memory and how the work is cut depend on the shape alone, not on the kernel.
 *
 * Sums of whole numbers do not depend on order, so all kernels give the same bits; which there are is found at run time. */
#ifndef HRI_OPS_COMMON_GEMM_I8_H
#define HRI_OPS_COMMON_GEMM_I8_H

#include "graph/op.h"

enum { HRI_I8_COLUMNS = 32, HRI_I8_ROWS = 12 };

typedef struct hri_gemm_i8 hri_gemm_i8;

/* Copies rows first .. first + count of A, ld bytes apart. */
typedef void hri_i8_rows_fn(const hri_gemm_i8 *g, int64_t first, int64_t count, uint8_t *to,
                            int64_t ld);

struct hri_gemm_i8 {
    int64_t m, n, k;
    hri_i8_rows_fn *rows; /* NULL: A is (M, K), dense */
    const void *ctx;
    const uint8_t *a;
    const int8_t *b;
    int b_turned;       /* 1: B is (N, K) */
    const float *scale; /* (N), of B */
    const float *bias;  /* (N) */
    float a_scale;
    int32_t a_zero;
    float c_scale;
    int32_t c_zero;
    int relu;
    uint8_t *c;  /* (M, N); NULL: real is */
    float *real; /* sum * scale + bias in f32 */
    int64_t ldc; /* from row to row of the result; 0: N */
};

uint64_t hri_gemm_i8_workspace(int64_t m, int64_t n, int64_t k, int copies, uint32_t threads);
void hri_gemm_i8_run(const hri_gemm_i8 *g, hri_threads *threads, void *workspace);

/* ---- kernels ---- */

/* What becomes of the sums of one panel of columns; arrays have HRI_I8_COLUMNS each. */
typedef struct hri_i8_finish {
    const int32_t *add; /* to the sum: bias and zero points */
    const float *by;
    const float *bias; /* of real results */
    float low, high;   /* of bytes, around zero */
    int32_t zero;
    int relu;
    int columns; /* that there are */
    uint8_t *c;  /* of the panel's first column; NULL: real is */
    float *real;
    int64_t ldc;
} hri_i8_finish;

/* `rows` rows (1 .. HRI_I8_ROWS) of `groups` groups of `deep` bytes, times one panel. */
typedef void hri_i8_kernel_fn(int64_t groups, const uint8_t *a, int64_t lda, int rows,
                              const int8_t *b, const hri_i8_finish *f);

typedef struct hri_i8_kernel {
    const char *name; /* "avx512_vnni", "plain", ... */
    hri_i8_kernel_fn *run;
    int deep;     /* bytes of a group along the depth: 4 or 8 */
    int32_t bias; /* what it takes off every byte of A: 128 where A is signed */
    int fast;     /* 1: it has instructions for products of bytes */
} hri_i8_kernel;

/* The fastest of this machine; number `i` of those that run on it, the plain one among them; NULL behind the last. */
const hri_i8_kernel *hri_i8_kernel_pick(void);
const hri_i8_kernel *hri_i8_kernel_at(size_t i);
/* As hri_gemm_i8_run, with a kernel of one's choice. */
void hri_gemm_i8_with(const hri_gemm_i8 *g, const hri_i8_kernel *kernel, hri_threads *threads,
                      void *workspace);

#endif
