/* Cross entropy on a GPU: what the four ops of ops/cuda/cross_entropy.cu share. */
#ifndef HRI_OPS_COMMON_ROW_LOSS_CUDA_H
#define HRI_OPS_COMMON_ROW_LOSS_CUDA_H

#include "ops/common/launch.h"

HRI_CU(cross_entropy);

enum { HRI_ROW_LOSS_THREADS = 256, HRI_ROW_LOSS_FINISH = 1024 };

typedef struct hri_row_loss {
    hri_defines defines;
    hri_gpu_grid grid, one; /* a launch over rows; one block over everything */
} hri_row_loss;

/* `x` are the scores, `all` the addresses of everything like x, or-ed. */
static inline hri_row_loss hri_row_loss_of(const hr_meta *x, hr_addr all) {
    const int64_t width = x->shape.dim[x->shape.rank - 1];
    const int64_t rows = width ? hr_shape_count(&x->shape) / width : 0;
    const int lanes = width > 1024 ? HRI_ROW_LOSS_THREADS : 32;
    hri_row_loss r = {
        .grid = {.x = hri_launch_blocks(rows, HRI_ROW_LOSS_THREADS / lanes),
                 .threads = HRI_ROW_LOSS_THREADS},
        .one = {.x = 1, .threads = HRI_ROW_LOSS_FINISH},
    };
    r.defines =
        hri_launch_defines("-DHR_T=%s -DHR_V=%d -DHR_LANES=%d", hri_launch_type(x->type),
                           hri_launch_wide(all) ? (int)(16 / hr_type_bytes(x->type)) : 1, lanes);
    return r;
}

#endif
