/* Convolution with few channels, straight from the image.
 *
 * Panels of 8 x 12 are mostly padding where there are 6 or 16 outputs, and packing patches costs more than multiplying them.  Here
 * the outputs of a pixel are a few vectors, and those of several pixels of a row stay in registers while all weights pass
 * by; the numbers of the image are read where they lie, a run of KW * C for each row of the window.  Rows that need padding
 * or another type are copied first.  The gradient of the input with stride 1 is the same loop over dy with the weights turned around; the
 * gradient of the weights keeps sums of a run of them while the pixels of a row pass by.
 *
 * Rows are cut into tasks and parts by the shape alone, and parts are added in order.  conv.c hands over. */
#ifndef HRI_OPS_COMMON_CONV_FEW_H
#define HRI_OPS_COMMON_CONV_FEW_H

#include "ops/common/conv.h"

/* Whether the convolution is one for these loops; so the shape alone decides. */
int hri_few_forward_is(const hri_conv *v);
int hri_few_input_is(const hri_conv *v);
int hri_few_weight_is(const hri_conv *v);

/* As the functions of conv.h. */
uint64_t hri_few_forward_workspace(const hri_conv *v, uint32_t threads);
uint64_t hri_few_input_workspace(const hri_conv *v, uint32_t threads);
uint64_t hri_few_weight_workspace(const hri_conv *v, uint32_t threads);
void hri_few_forward(const hri_conv *v, const hri_call *c);
void hri_few_input(const hri_conv *v, const hri_call *c);
void hri_few_weight(const hri_conv *v, const hri_call *c);

#endif
