/* The attributes of slice and pad, each the gradient of the other. */
#ifndef HRI_OPS_COMMON_BOX_H
#define HRI_OPS_COMMON_BOX_H

#include "graph/op.h"

typedef struct hri_attr_slice {
    hri_dims begin, size, step;
} hri_attr_slice;

typedef struct hri_attr_pad {
    hri_dims before, after, step; /* step: from one element of x to the next */
    double value;
} hri_attr_pad;

/* Between neighbours along dimension d: 1 unless given. */
static inline int64_t hri_box_step(const hri_dims *step, int d) {
    return d < step->count ? step->at[d] : 1;
}

/* How far `count` elements reach. */
static inline int64_t hri_box_reach(int64_t count, int64_t step) {
    return count ? (count - 1) * step + 1 : 0;
}

#endif
