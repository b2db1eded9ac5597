/* Sums of one row of a panel to their place; for the kernels of gemm_i8.h that keep sums in memory. */
#ifndef HRI_OPS_COMMON_GEMM_I8_FINISH_H
#define HRI_OPS_COMMON_GEMM_I8_FINISH_H

#include "ops/common/gemm_i8.h"
#include "ops/common/requantize.h"

static inline void hri_i8_put(const int32_t *sum, int64_t row, const hri_i8_finish *f) {
    for (int j = 0; j < f->columns; j++) {
        const int32_t whole = sum[j] + f->add[j];
        if (f->c) {
            f->c[row * f->ldc + j] = hri_requantize(whole, f->by[j], f->low, f->zero);
        } else {
            const float product = (float)whole * f->by[j];
            const float y = product + f->bias[j];
            f->real[row * f->ldc + j] = f->relu && !(y > 0.0f) ? 0.0f : y;
        }
    }
}

#endif
