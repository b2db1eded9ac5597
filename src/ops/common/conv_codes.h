/* What convolutions of codes share (conv2d_i8, depthwise_i8, conv2d_f8): attributes, geometry and the product on a GPU. */
#ifndef HRI_OPS_COMMON_CONV_CODES_H
#define HRI_OPS_COMMON_CONV_CODES_H

#include "ops/common/conv.h"

typedef struct hri_conv_codes_attr {
    hri_conv_attr conv;
    bool relu;
} hri_conv_codes_attr;

extern const hri_field hri_conv_codes_fields[];

/* As hri_conv_make, of inputs 0 and 1. */
HR_MUST_CHECK hr_status hri_conv_codes_make(hri_infer *c, hri_conv *out);
/* The whole of a convolution of bytes: x u8, w i8, w_scale, bias, x_scale, x_zero [, y_scale, y_zero]; the output is set. */
HR_MUST_CHECK hr_status hri_conv_codes_infer_i8(hri_infer *c, hri_conv *out);
/* From a checked signature. */
hri_conv hri_conv_codes_of(const hri_sig *s);
bool hri_conv_codes_relu(const hri_sig *s);

/* common/product_i8.h */
uint64_t hri_conv_codes_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant);
HR_MUST_CHECK hr_status hri_conv_codes_cuda(const hri_gpu_call *c);

#endif
