/* conv2d_i8 and matmul_i8 on a GPU: weights are packed by fours along the depth, then a thread makes a result with dp4a. */
#ifndef HRI_OPS_COMMON_PRODUCT_I8_H
#define HRI_OPS_COMMON_PRODUCT_I8_H

#include "ops/common/conv.h"

uint64_t hri_product_i8_workspace(const hri_conv *v);
/* A linear layer is a convolution of images of one pixel, with `turned` weights (O, C). */
HR_MUST_CHECK hr_status hri_product_i8_cuda(const hri_conv *v, int turned, int relu,
                                            const hri_gpu_call *c);

#endif
