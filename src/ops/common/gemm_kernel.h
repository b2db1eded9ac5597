/* The innermost loops of gemm.h: small tiles of C in registers.
 *
 * Each adds up over the depth in order with one rounding rule, so that a machine's kernels for one panel and for two
 * give the same bits.  Which ones there are is found at run time: one binary serves every x86. */
#ifndef HRI_OPS_COMMON_GEMM_KERNEL_H
#define HRI_OPS_COMMON_GEMM_KERNEL_H

#include <stdint.h>

/* c (rows, NR) = or += (by `first`) a panel(s), `apart` numbers from one another, * b panel.  Rows of c are ldc apart. */
typedef void hri_gemm_kernel_fn(int64_t kc, const float *a, int64_t apart, const float *b, float *c,
                                int64_t ldc, int first);

typedef struct hri_gemm_kernels {
    hri_gemm_kernel_fn *one;   /* one panel of A: MR rows */
    hri_gemm_kernel_fn *two;   /* two panels: 2 MR rows; NULL: no gain */
    hri_gemm_kernel_fn *four;  /* four; NULL: no gain */
    hri_gemm_kernel_fn *one_8; /* one panel, the first 8 columns; NULL: no gain */
    hri_gemm_kernel_fn *two_4; /* two panels, the first 4 columns; NULL: no gain */
} hri_gemm_kernels;

hri_gemm_kernels hri_gemm_kernels_pick(void);

#endif
