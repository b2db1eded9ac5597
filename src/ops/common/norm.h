/* Normalisation inside a sample: layer norm, RMS norm and group norm are one computation.
 *
 *   x (N, S, G, K)   mean_ng, inv_ng over S and K   y = (x - mean) * inv * gamma_gk + beta_gk
 *
 * Layer norm has S = G = 1, RMS norm also mean 0, group norm S pixels and K channels a group.  The mean is taken first
 * and the variance around it, so a large mean costs no digits.  Backward reads each (n, g) twice and writes dx; sums
 * for gamma and beta go into partial vectors, one a part of N, which the shape alone decides, added in order. */
#ifndef HRI_OPS_COMMON_NORM_H
#define HRI_OPS_COMMON_NORM_H

#include "graph/op.h"

typedef struct hri_norm_attr {
    double eps;
    int64_t groups;
} hri_norm_attr;

#define HRI_NORM_EPS                                                                               \
    {                                                                                              \
        "eps", "added to the variance", offsetof(hri_norm_attr, eps), HRI_FIELD_DOUBLE, "1e-5",    \
            .min = 0, .max = 1                                                                     \
    }

typedef struct hri_norm {
    int64_t n, s, g, k;
    int rms; /* 1: the mean is taken as 0; there are no mean and no beta */
} hri_norm;

/* Rows along the last dimension. */
hri_norm hri_norm_rows(const hr_shape *x, int rms);
/* (N, ..., C) in `groups` groups. */
hri_norm hri_norm_groups(const hr_shape *x, int64_t groups);

/* Inputs x, gamma[, beta]; outputs y[, mean], inv, of f32. */
void hri_norm_run(const hri_norm *v, const hri_call *c, double eps);
void hri_norm_cost(const hri_sig *s, hri_cost *cost);

/* Inputs dy, x, gamma[, mean], inv; outputs dx, dgamma[, dbeta]. */
uint64_t hri_norm_grad_workspace(const hri_norm *v);
void hri_norm_grad_run(const hri_norm *v, const hri_call *c);
void hri_norm_grad_cost(const hri_sig *s, hri_cost *cost);

/* The same on a GPU. */
hr_status hri_norm_cuda(const hri_norm *v, const hri_gpu_call *c, double eps);
uint64_t hri_norm_grad_cuda_workspace(const hri_norm *v, hr_type type);
hr_status hri_norm_grad_cuda(const hri_norm *v, const hri_gpu_call *c);
/* With x = a + b made on the way, with dx added to another at the end, and with y made again (launch_sum, launch_added and
 * launch_beside of device/kernel.h). */
hr_status hri_norm_sum_cuda(const hri_norm *v, const hri_gpu_call *c, double eps, hr_addr a,
                            hr_addr b);
hr_status hri_norm_grad_added_cuda(const hri_norm *v, const hri_gpu_call *c, hr_addr other,
                                   hr_addr to, const hri_gpu_call *again);
hr_status hri_norm_grad_summed_cuda(const hri_norm *v, const hri_gpu_call *c, hr_addr other,
                                    hr_addr to, const hri_gpu_call *again,
                                    const hri_gpu_call *total);
hr_status hri_norm_grad_beside_cuda(const hri_norm *v, const hri_gpu_call *c,
                                    const hri_gpu_call *again);

/* The shape rules: vectors of x's last dimension, statistics of shape `stats`. */
HR_MUST_CHECK hr_status hri_norm_infer(hri_infer *c, const hr_shape *stats, int rms);
HR_MUST_CHECK hr_status hri_norm_grad_infer(hri_infer *c, int64_t stats, int rms);
/* For an op whose gradient op gives a gradient for each input in order. */
void hri_norm_set_grads(hri_grad *c, hr_value dx);

/* Gradients for gamma and beta are sums over samples, dx is not. */
hri_samples hri_norm_grad_samples(const hri_sig *s, uint32_t batched);

#endif
