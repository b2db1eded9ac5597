/* Convolution of each channel by itself (groups = channels = outputs), and its gradients.
 *
 * There is no product of matrices in it: a tap is one multiply-add a channel.  Channels lie side by side, so each loop
 * runs over a block of them, and the sums of a block stay in registers or in the first cache.  conv.h hands over. */
#ifndef HRI_OPS_COMMON_DEPTHWISE_H
#define HRI_OPS_COMMON_DEPTHWISE_H

#include "ops/common/conv.h"

static inline int hri_depthwise_is(const hri_conv *v) {
    return v->cg == 1 && v->og == 1;
}

/* As the functions of conv.h; forward and input need no workspace. */
uint64_t hri_depthwise_weight_workspace(const hri_conv *v);
void hri_depthwise_forward(const hri_conv *v, const hri_call *c);
void hri_depthwise_input(const hri_conv *v, const hri_call *c);
void hri_depthwise_weight(const hri_conv *v, const hri_call *c);

#endif
