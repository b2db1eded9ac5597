/* conv2d_i8, depthwise_i8 and matmul_i8 on a GPU: tensor cores, with weights that are turned first, or a thread a result where
 * groups have few columns. */
#ifndef HRI_OPS_COMMON_PRODUCT_I8_H
#define HRI_OPS_COMMON_PRODUCT_I8_H

#include "ops/common/conv.h"

uint64_t hri_product_i8_workspace(const hri_conv *v);
/* A linear layer is a convolution of images of one pixel, with `turned` weights (O, C).  With five inputs bytes are codes of
 * 8-bit floats: conv2d_f8, matmul_f8. */
HR_MUST_CHECK hr_status hri_product_i8_cuda(const hri_conv *v, int turned, int relu,
                                            const hri_gpu_call *c);

#endif
