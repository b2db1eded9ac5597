/* conv2d_f8 and matmul_f8 on the host: codes of 8-bit floats are decoded, products and sums are f32.
 *
 * Weights are decoded once a call into panels of 16 columns, rows of patches four at a time: nothing else is ever f32 but the
 * result.  A sum runs over the depth in order, whatever the number of threads. */
#ifndef HRI_OPS_COMMON_PRODUCT_F8_H
#define HRI_OPS_COMMON_PRODUCT_F8_H

#include "ops/common/conv.h"

/* Inputs x u8, w u8, w_scale, bias, x_scale of a checked signature; the reason goes to c. */
HR_MUST_CHECK hr_status hri_product_f8_infer(hri_infer *c, int64_t columns);
uint64_t hri_product_f8_workspace(const hri_conv *v, uint32_t threads);
/* A linear layer is a convolution of images of one pixel, with `turned` weights (O, C). */
void hri_product_f8_host(const hri_conv *v, int turned, int relu, const hri_call *c);

#endif
