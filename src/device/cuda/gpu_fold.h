/* The first convolution of a picture network: three channels leave most of a tensor core idle.
 *
 * With stride 2, two by two pixels of the padded picture are one pixel of four times the channels, and the window has half
 * the height and width: the same sum with some zeros in it, in another order.  For 256 pictures of 224 x 224 in bf16 cuDNN 9.14
 * needs 650 us for it on an H200 instead of 1,771, in f32 (tf32) 809 instead of 1,551; four or eight channels alone change nothing.
 * Pictures and weights are folded in work space.  Whether it is done depends on the problem alone.
 *
 * A window of 4 x 4 over 16 channels of bf16, which those of 7 x 7 and 8 x 8 are then, is done by a kernel of ours (folded.cu): 402 us with the folding
 * where the library's engine needs 712. */
#ifndef HRI_DEVICE_CUDA_GPU_FOLD_H
#define HRI_DEVICE_CUDA_GPU_FOLD_H

#include "device/cuda/gpu_state.h"

/* Whether it is done; *out is the convolution of what is folded. */
int hri_gpu_folds(const hri_gpu_conv *x, hri_gpu_conv *out);
/* What the folded picture and weights take. */
uint64_t hri_gpu_fold_bytes(const hri_gpu_conv *y);
/* Folds both into the work space; out: where they are then. */
HR_MUST_CHECK hr_status hri_gpu_fold(hri_gpu *gpu, const hri_gpu_conv *x, const hri_gpu_conv *y,
                                     hr_addr image, hr_addr weights, hr_addr workspace,
                                     hr_addr out[2]);
/* Whether what is folded is for our kernel, and that. */
int hri_gpu_folded_is_ours(const hri_gpu *gpu, const hri_gpu_conv *y);
HR_MUST_CHECK hr_status hri_gpu_folded_conv(hri_gpu *gpu, const hri_gpu_conv *y, hr_addr image,
                                            hr_addr weights, hr_addr result);

#endif
