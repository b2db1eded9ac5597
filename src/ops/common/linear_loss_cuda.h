/* linear_cross_entropy and its gradient on a GPU: the same cut as on the host (linear_loss.h), with blocks sized for it.
 *
 * Scores of a block are f32, at most 128 MiB of them, so that a block's products fill the device and the sum of dx is
 * read and written few times.  The gradient of the scores is put over them in the small type, which the two products
 * that follow read.  Kept scores lie block after block, each (N, count); the products are the same with and without
 * them, so that keeping changes no bit. */
#ifndef HRI_OPS_COMMON_LINEAR_LOSS_CUDA_H
#define HRI_OPS_COMMON_LINEAR_LOSS_CUDA_H

#include "ops/common/linear_loss.h"

hr_status hri_linear_loss_cuda(const hri_gpu_call *c);
uint64_t hri_linear_loss_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant);
hr_status hri_linear_loss_grad_cuda(const hri_gpu_call *c);
uint64_t hri_linear_loss_grad_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant);

#endif
