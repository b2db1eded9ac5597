/* The attributes of mean and max, which reduce some dimensions or all of them, and their shape rule. */
#ifndef HRI_OPS_COMMON_AXES_H
#define HRI_OPS_COMMON_AXES_H

#include "graph/dims.h"

typedef struct hri_attr_axes {
    hri_dims axes;
    bool keep;
} hri_attr_axes;

#define HRI_AXES_FIELDS                                                                            \
    {"axes", "dimensions to reduce; none: all", offsetof(hri_attr_axes, axes), HRI_FIELD_DIMS,     \
     NULL},                                                                                        \
    {                                                                                              \
        "keep", "keep them as dimensions of 1", offsetof(hri_attr_axes, keep), HRI_FIELD_BOOL,     \
            NULL                                                                                   \
    }

/* The mask of the axes of a checked call. */
static inline uint32_t hri_axes_of(const hri_sig *s) {
    uint32_t axes = 0;
    (void)hri_dims_axes(&((const hri_attr_axes *)s->attr)->axes, s->in[0].shape.rank, &axes);
    return axes;
}

/* Output 0 from a real input 0; gives the mask and how many elements make one result. */
static inline hr_status hri_axes_infer(hri_infer *c, uint32_t *axes, int64_t *each) {
    const hri_attr_axes *p = c->attr;
    const hr_shape *in = &c->in[0].shape;
    if (!hr_type_is_real(c->in[0].type)) {
        return hri_infer_fail(c, "the input is %s, not a floating-point type",
                              hr_type_name(c->in[0].type));
    }
    if (hri_dims_axes(&p->axes, in->rank, axes)) {
        return hri_infer_fail(c, "an axis is out of range or given twice");
    }
    c->out[0] = (hr_meta){.type = c->in[0].type};
    *each = 1;
    for (int d = 0; d < in->rank; d++) {
        const int gone = *axes >> d & 1u;
        *each *= gone ? in->dim[d] : 1;
        if (p->keep || !gone) {
            c->out[0].shape.dim[c->out[0].shape.rank++] = gone ? 1 : in->dim[d];
        }
    }
    return HR_OK;
}

/* The shape of the input with 1 where it was reduced: what a gradient is broadcast from. */
static inline hri_attr_dims hri_axes_kept(const hri_sig *s) {
    hri_attr_dims kept = {hri_dims_of(&s->in[0].shape)};
    for (int d = 0; d < kept.to.count; d++) {
        kept.to.at[d] = hri_axes_of(s) >> d & 1u ? 1 : kept.to.at[d];
    }
    return kept;
}

#endif
