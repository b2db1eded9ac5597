/* Convolutions of 3 x 3 taps with stride 1 by Winograd's F(2, 3) along the lines: two outputs side by side take four products
 * instead of six.
 *
 *   d (4 pixels)   v = (d0 - d2, d1 + d2, d2 - d1, d1 - d3)
 *   g (3 taps)     u = (g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2)
 *   m = sum over rows of taps and channels of v u, point by point      y = (m0 + m1 + m2, m1 - m2 - m3)
 *
 * Down the image it is an ordinary convolution of three taps, so the products stay three times as deep as a block of channels.
 * A task computes a band of tiles for some outputs, one block of channels after the other; nothing larger than its scratch exists. */
#ifndef HRI_OPS_COMMON_CONV_WINOGRAD_H
#define HRI_OPS_COMMON_CONV_WINOGRAD_H

#include "ops/common/conv.h"

/* Whether it is for an op of this geometry and signature: forward and input, and weights. */
int hri_winograd_takes(const hri_conv *v, const hri_sig *s);
int hri_winograd_takes_weight(const hri_conv *v, const hri_sig *s);
uint64_t hri_winograd_forward_workspace(const hri_conv *v, uint32_t threads);
uint64_t hri_winograd_input_workspace(const hri_conv *v, uint32_t threads);
uint64_t hri_winograd_weight_workspace(const hri_conv *v, uint32_t threads);
void hri_winograd_forward(const hri_conv *v, const hri_call *c);
void hri_winograd_input(const hri_conv *v, const hri_call *c);
void hri_winograd_weight(const hri_conv *v, const hri_call *c);

#endif
