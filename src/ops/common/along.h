/* One axis seen from outside: (outer, size, inner) with picks in its place, for take_along and put_along. */
#ifndef HRI_OPS_COMMON_ALONG_H
#define HRI_OPS_COMMON_ALONG_H

#include "graph/op.h"

typedef struct hri_along_attr {
    int64_t axis; /* counted from the end when negative */
    int64_t size; /* put_along: of the result along it */
} hri_along_attr;

typedef struct hri_along {
    int64_t outer, size, picks, inner;
} hri_along;

static inline hri_along hri_along_of(const hri_along_attr *p, const hr_shape *index, int64_t size) {
    const int axis = (int)(p->axis < 0 ? p->axis + index->rank : p->axis);
    hri_along a = {.outer = 1, .size = size, .picks = index->dim[axis], .inner = 1};
    for (int d = 0; d < axis; d++) {
        a.outer *= index->dim[d];
    }
    for (int d = axis + 1; d < index->rank; d++) {
        a.inner *= index->dim[d];
    }
    return a;
}

/* What both refuse: x and index differ outside of the axis (or on it too, when `all`). */
static inline hr_status hri_along_infer(hri_infer *c, int all) {
    const hri_along_attr *p = c->attr;
    const hr_shape *x = &c->in[0].shape, *index = &c->in[1].shape;
    const int64_t axis = p->axis < 0 ? p->axis + x->rank : p->axis;
    if (c->in[1].type != HR_TYPE_I32 && c->in[1].type != HR_TYPE_I64) {
        return hri_infer_fail(c, "the index must be i32 or i64");
    }
    if (axis < 0 || axis >= x->rank) {
        return hri_infer_fail(c, "axis %lld is outside the input's %d dimensions",
                              (long long)p->axis, x->rank);
    }
    int same = x->rank == index->rank;
    for (int d = 0; same && d < x->rank; d++) {
        same = x->dim[d] == index->dim[d] || (d == axis && !all);
    }
    return same  ? HR_OK
           : all ? hri_infer_fail(c, "the index must have the shape of the input")
                 : hri_infer_fail(c, "the index must have the shape of the input but for axis %lld",
                                  (long long)axis);
}

static inline hri_samples hri_along_samples(const hri_sig *s, uint32_t batched) {
    const int64_t axis = ((const hri_along_attr *)s->attr)->axis;
    return batched == 0                                                ? HRI_SAMPLES_APART
           : batched != 3 || axis == 0 || axis == -s->in[0].shape.rank ? HRI_SAMPLES_COUPLED
                                                                       : HRI_SAMPLES_APART;
}

#endif
