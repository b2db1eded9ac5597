/* A convolution whose windows lie side by side, as in the first layer of a vision transformer, as a product of matrices.
 *
 * With a stride as large as the window and no padding each pixel is in one window, so the pictures are a matrix of patches, one a row, in
 * another order: runs of a window's width stay together, and one copy in work space sorts them.  For 128 pictures of 224 x 224
 * and windows of 16 x 16 with 768 outputs that takes 82 us in bf16 on an H200, with the bias, and 65 for the weights' gradient, where cuDNN
 * needs 817 and 350.  The gradient copies again: patches that are kept, 37 MiB from the first op of a step to its last, cost plans more
 * than that.
 *
 * Rows begin at multiples of 16 bytes, because libraries are slow where they do not (windows of 14 x 14 with 3 channels are rows of
 * 588, which are 592 apart).  Whether it is done depends on the problem alone. */
#ifndef HRI_DEVICE_CUDA_GPU_PATCHES_H
#define HRI_DEVICE_CUDA_GPU_PATCHES_H

#include "device/cuda/gpu_state.h"

int hri_gpu_is_patches(const hri_gpu_conv *x);
uint64_t hri_gpu_patches_bytes(hri_gpu *gpu, const hri_gpu_conv *x, uint64_t limit);
/* Operands and result in the order of the kind.  HR_E_UNSUPPORTED when the work space is too small for the patches. */
HR_MUST_CHECK hr_status hri_gpu_patches_run(hri_gpu *gpu, const hri_gpu_conv *x, hr_addr first,
                                            hr_addr second, hr_addr result, hr_addr workspace,
                                            uint64_t workspace_bytes);

#endif
