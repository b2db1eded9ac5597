/* Launches of product.cu and direct_conv.cu: products and convolutions by kernels of our own.  Only files of this folder
 * include it.  Nothing is refused; what a problem asks for in work space it can also do without, more slowly. */
#ifndef HRI_DEVICE_CUDA_GPU_PRODUCT_H
#define HRI_DEVICE_CUDA_GPU_PRODUCT_H

#include "device/gpu.h"

/* Work space starts at 256 bytes everywhere, and so do its parts. */
static inline uint64_t hri_gpu_aligned(uint64_t bytes) {
    return (bytes + 255) & ~(uint64_t)255;
}

uint64_t hri_gpu_own_matmul_workspace(hri_gpu *gpu, const hri_gpu_matmul *x, uint64_t limit);
HR_MUST_CHECK hr_status hri_gpu_own_matmul(hri_gpu *gpu, const hri_gpu_matmul *x, hr_addr a,
                                           hr_addr b, hr_addr bias, hr_addr y, hr_addr workspace,
                                           uint64_t workspace_bytes);
uint64_t hri_gpu_own_conv_workspace(hri_gpu *gpu, const hri_gpu_conv *x, uint64_t limit);
HR_MUST_CHECK hr_status hri_gpu_own_conv(hri_gpu *gpu, const hri_gpu_conv *x, hr_addr first,
                                         hr_addr second, hr_addr result, hr_addr workspace,
                                         uint64_t workspace_bytes);

#endif
