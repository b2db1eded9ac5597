/* The gradient of the weights of the first convolution of a picture network, by a kernel of ours (stem.cu).
 *
 * Libraries read three channels one by one: for 256 pictures of 224 x 224 cuDNN 9.14 needs 1,137 us in bf16 on an H200 and 6,300 in
 * f32 (tf32); this needs 879 and 796, and the bytes alone 120 and 240.  Whether it is done depends on the problem alone. */
#ifndef HRI_DEVICE_CUDA_GPU_STEM_H
#define HRI_DEVICE_CUDA_GPU_STEM_H

#include "device/cuda/gpu_state.h"

int hri_gpu_is_stem(const hri_gpu *gpu, const hri_gpu_conv *x);
uint64_t hri_gpu_stem_bytes(const hri_gpu_conv *x);
HR_MUST_CHECK hr_status hri_gpu_stem_weight(hri_gpu *gpu, const hri_gpu_conv *x, hr_addr image,
                                            hr_addr dy, hr_addr dw, hr_addr workspace);

#endif
