/* The attributes of gather and gather_grad, and what an axis makes of their shapes. */
#ifndef HRI_OPS_COMMON_GATHER_H
#define HRI_OPS_COMMON_GATHER_H

#include "graph/op.h"

typedef struct hri_gather_attr {
    int64_t axis; /* below 0: from the end */
    int64_t rows; /* gather_grad: of the table along it */
} hri_gather_attr;

/* The table is (outer, rows, width), the other side (outer, picks, width). */
typedef struct hri_gather {
    int axis;
    int64_t outer, rows, picks, width;
} hri_gather;

static inline int hri_gather_axis(const hri_gather_attr *p, int rank) {
    return (int)(p->axis < 0 ? p->axis + rank : p->axis);
}

static inline hri_gather hri_gather_table(int axis, const hr_shape *table, const hr_shape *ids) {
    hri_gather s = {.axis = axis,
                    .outer = 1,
                    .rows = table->dim[axis],
                    .picks = hr_shape_count(ids),
                    .width = 1};
    for (int d = 0; d < table->rank; d++) {
        s.outer *= d < axis ? table->dim[d] : 1;
        s.width *= d > axis ? table->dim[d] : 1;
    }
    return s;
}

static inline hri_gather hri_gather_of(const hri_sig *s) {
    const hr_shape *table = &s->in[0].shape;
    return hri_gather_table(hri_gather_axis(s->attr, table->rank), table, &s->in[1].shape);
}

static inline hri_gather hri_gather_grad_of(const hri_sig *s) {
    const hr_shape *table = &s->out[0].shape;
    return hri_gather_table(hri_gather_axis(s->attr, table->rank), table, &s->in[1].shape);
}

#endif
