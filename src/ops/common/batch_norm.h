/* Batch normalisation over all but the last dimension, shared by the ops of that name.
 *
 *   x (M, C)   mean_c, inv_c = 1 / sqrt(var_c + eps)   y = (x - mean) * inv * gamma + beta [+ z] [relu]
 *
 * Forward reads x twice and writes y once; backward reads x and dy twice and writes dx once.  Statistics: the rows are
 * cut into parts by the shape alone; each part sums x - s and (x - s)^2 in f32 over short blocks, s being the part's
 * first row, and the parts are joined in double by Chan's rule.  So a large mean costs no digits, and the bits do not
 * depend on threads.
 *
 * What stands between sum and relu decides what the gradient keeps: without z the sign of y is found again from x and
 * beta, with the same two operations; with z it is read from y, which the next layer keeps anyway, or from a mask of one bit an element: u8 (N, (M + 7) / 8) for N
 * samples of M elements, bit k % 8 of byte k / 8 being element k (as relu_mask has it). */
#ifndef HRI_OPS_COMMON_BATCH_NORM_H
#define HRI_OPS_COMMON_BATCH_NORM_H

#include "graph/op.h"

typedef struct hri_batch_norm_attr {
    double eps;
} hri_batch_norm_attr;

extern const hri_field hri_batch_norm_fields[];

/* Forward: inputs x, gamma, beta, and z when add; outputs y, mean (C) f32, inv (C) f32. */
HR_MUST_CHECK hr_status hri_batch_norm_infer(hri_infer *c);
uint64_t hri_batch_norm_workspace(const hri_sig *s, uint32_t threads);
hr_status hri_batch_norm_run(const hri_call *c, int relu, int add);
void hri_batch_norm_cost(const hri_sig *s, hri_cost *cost);

/* The first pass, over input 0: its mean and inverse deviation, (C) each. */
void hri_batch_norm_moments(const hri_call *c, double eps, float *mean, float *inv);
/* Scale and shift (2, C) of the second, from gamma (input 1), beta (input 2) and those. */
void hri_batch_norm_lines(const hri_call *c, int64_t channels, const float *mean, const float *inv,
                          float *scale);
/* Whether inputs are those of the second pass: x (..., C), gamma, beta, mean, inv (C), and z with relu. */
HR_MUST_CHECK hr_status hri_batch_norm_apply_infer(hri_infer *c, int relu);
uint64_t hri_batch_norm_apply_workspace(const hri_sig *s, uint32_t threads);
/* y = x * a_c + b_c for channels whose scale and shift lie in `scale` (2, C): the second pass.  A second output of the call is
 * the mask. */
void hri_batch_norm_apply(const hri_call *c, const float *scale, const void *z, int relu);
typedef struct hri_batch_norm_apply_attr {
    bool relu;
} hri_batch_norm_apply_attr;

/* Backward.  Where the sign of y comes from. */
typedef enum hri_batch_norm_sign {
    HRI_BN_PLAIN,
    HRI_BN_FROM_X,
    HRI_BN_FROM_Y,
    HRI_BN_FROM_MASK
} hri_batch_norm_sign;
/* Inputs dy, x, gamma, mean, inv, and then nothing, beta, y, or the mask; outputs dx, dgamma, dbeta, and dz with the last two. */
HR_MUST_CHECK hr_status hri_batch_norm_grad_infer(hri_infer *c);
uint64_t hri_batch_norm_grad_workspace(const hri_sig *s, uint32_t threads);
hr_status hri_batch_norm_grad_run(const hri_call *c, hri_batch_norm_sign sign);
void hri_batch_norm_grad_cost(const hri_sig *s, hri_cost *cost);

/* The same on a GPU. */
uint64_t hri_batch_norm_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant);
hr_status hri_batch_norm_cuda(const hri_gpu_call *c, int relu, int add);
hr_status hri_batch_norm_moments_cuda(const hri_gpu_call *c);
hr_status hri_batch_norm_apply_cuda(const hri_gpu_call *c, int relu);
uint64_t hri_batch_norm_inference_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant);
hr_status hri_batch_norm_inference_cuda(const hri_gpu_call *c);
hr_status hri_batch_norm_stats_cuda(const hri_gpu_call *c, double eps, double momentum,
                                    int64_t rows, int64_t until);
uint64_t hri_batch_norm_grad_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant);
hr_status hri_batch_norm_grad_cuda(const hri_gpu_call *c, hri_batch_norm_sign sign);
/* FROM_Y and FROM_MASK, with dy = a + b made on the way (launch_sum of device/kernel.h). */
hr_status hri_batch_norm_grad_sum_cuda(const hri_gpu_call *c, hri_batch_norm_sign sign, hr_addr a,
                                       hr_addr b);
/* FROM_X, with the y of batch_norm_apply written again (launch_beside of device/kernel.h). */
hr_status hri_batch_norm_relu_grad_beside_cuda(const hri_gpu_call *c, const hri_gpu_call *again);

/* The mask of such an x. */
hr_meta hri_batch_norm_mask(const hr_meta *x);

hri_samples hri_batch_norm_samples(const hri_sig *s, uint32_t batched);

#endif
