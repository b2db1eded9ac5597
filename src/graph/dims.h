/* Lists of whole numbers as attributes (axes, shapes, orders), and what ops do with them. */
#ifndef HRI_GRAPH_DIMS_H
#define HRI_GRAPH_DIMS_H

#include "graph/op.h"

/* The attributes of an op that has one list and nothing else. */
typedef struct hri_attr_dims {
    hri_dims to;
} hri_attr_dims;

static inline hri_dims hri_dims_of(const hr_shape *shape) {
    hri_dims d = {.count = shape->rank};
    for (int i = 0; i < shape->rank; i++) {
        d.at[i] = shape->dim[i];
    }
    return d;
}

static inline hr_shape hri_dims_shape(const hri_dims *dims) {
    return hr_shape_from((int)dims->count, dims->at);
}

/* Axes, counted from the end when negative, as a bit mask; no axes at all means every one.  0 on success. */
static inline int hri_dims_axes(const hri_dims *axes, int rank, uint32_t *out) {
    uint32_t mask = 0;
    for (int i = 0; i < axes->count; i++) {
        const int64_t axis = axes->at[i] < 0 ? axes->at[i] + rank : axes->at[i];
        if (axis < 0 || axis >= rank || (mask >> axis & 1u)) {
            return -1;
        }
        mask |= 1u << axis;
    }
    *out = axes->count ? mask : (1u << rank) - 1u;
    return 0;
}

#endif
