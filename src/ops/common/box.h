/* The attributes of slice and pad, each the gradient of the other. */
#ifndef HRI_OPS_COMMON_BOX_H
#define HRI_OPS_COMMON_BOX_H

#include "graph/op.h"

typedef struct hri_attr_slice {
    hri_dims begin, size;
} hri_attr_slice;

typedef struct hri_attr_pad {
    hri_dims before, after;
    double value;
} hri_attr_pad;

#endif
