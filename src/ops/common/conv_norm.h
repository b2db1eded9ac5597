/* The gradient of a 1 x 1 convolution and the batch norm behind it, together: what lies between them is neither kept nor made.
 *
 *   a (M, K)   w (K, N)   x = a w   y = relu((x - mean) inv gamma + beta + z)   dz = mask ? dy : 0   (or no relu, and dz = dy)
 *
 * The gradient for x is a line of dz and x in every channel, and x is a product, so everything is made of sums over rows:
 *
 *   t = sum dz (N)   s = sum a (K)   G = a' dz (K, N)   S = a' a (K, K)   mu = w' s / M
 *   dbeta = t   dgamma = inv (sum_k w G - t mu)   A = gamma inv   B = -A inv dgamma / M   C = -A t / M - B mu   (N)
 *   dw = A G + B (S w) + s C
 *   da = dz P + a Q + r   with P = A w' (N, K), Q = w diag(B) w' (K, K), r = -(t P + s Q) / M (K)
 *
 * In place of four passes over tensors like x there are two products more, with K in place of N.  r is taken from P and Q as they are
 * stored, so that rows of da add up to nothing, as they do by definition, whatever P and Q were rounded to. */
#ifndef HRI_OPS_COMMON_CONV_NORM_H
#define HRI_OPS_COMMON_CONV_NORM_H

#include "graph/op.h"

/* Of a use of conv_norm_grad: dy (..., N), a (..., K), w (1, 1, K, N), gamma, inv [, mask] -> da, dw, dgamma, dbeta, dz. */
typedef struct hri_conv_norm {
    hr_type type;
    int64_t rows, k, n;
    int64_t each; /* elements of dy a sample */
    int masked;   /* 0: dz is dy, and is not written */
} hri_conv_norm;

enum { HRI_CN_DY, HRI_CN_A, HRI_CN_W, HRI_CN_GAMMA, HRI_CN_INV, HRI_CN_MASK };
enum { HRI_CN_DA, HRI_CN_DW, HRI_CN_DGAMMA, HRI_CN_DBETA, HRI_CN_DZ };

hri_conv_norm hri_conv_norm_of(const hri_sig *s);

/* For the gradient rules of batch_norm_apply and batch_norm_apply_mask: makes conv_norm_grad where its x is the output of such a convolution and what is asked for
 * allows it (conv_norm_fold.c); 0: it does not, and nothing was made. */
int hri_conv_norm_fold(hri_grad *c);

uint64_t hri_conv_norm_workspace(const hri_sig *s, uint32_t threads);
hr_status hri_conv_norm_run(const hri_call *c);

/* The same on a GPU (conv_norm_cuda.c); with dy = first + second made on the way (launch_sum of device/kernel.h). */
uint64_t hri_conv_norm_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant);
hr_status hri_conv_norm_cuda(const hri_gpu_call *c);
hr_status hri_conv_norm_sum_cuda(const hri_gpu_call *c, hr_addr first, hr_addr second);

#endif
