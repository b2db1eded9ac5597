/* The launch of bias_add.cu: y (rows, width) = x + bias, which may be of another type; y may lie over x. */
#ifndef HRI_OPS_COMMON_BIAS_CUDA_H
#define HRI_OPS_COMMON_BIAS_CUDA_H

#include "ops/common/launch.h"

HRI_CU(bias_add);

static inline hr_status hri_bias_launch(hri_gpu *gpu, const hr_meta *y_meta, const hr_meta *of_bias,
                                        hr_addr x, hr_addr bias, hr_addr y) {
    enum { THREADS = 256, EACH = 4 };
    const int64_t count = hr_shape_count(&y_meta->shape);
    if (count == 0) {
        return HR_OK;
    }
    int64_t width = of_bias->shape.dim[0], rows = count / width;
    const int each = hri_launch_wide(x | bias | y) ? hri_launch_width(y_meta->type, width) : 1;
    uint32_t across = hri_launch_across(width / each, 32);
    uint32_t tiles = hri_launch_blocks(width / each, 1 << across);
    return hri_gpu_launch(
        gpu, &hri_cu_bias_add,
        hri_launch_defines("-DHR_T=%s -DHR_B=%s -DHR_V=%d", hri_launch_type(y_meta->type),
                           hri_launch_type(of_bias->type), each)
            .text,
        "bias_add",
        &(hri_gpu_grid){.x = tiles * hri_launch_blocks(rows, (THREADS >> across) * EACH),
                        .threads = THREADS},
        HRI_GPU_ARGS(&x, &bias, &y, &rows, &width, &tiles, &across));
}

#endif
