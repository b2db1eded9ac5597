/* What ops over quantized values share: a value of bytes comes with its scale, an f32 scalar, and its zero point, a u8
 * scalar.  They are values of the graph like any other, so a graph does not depend on how it was calibrated. */
#ifndef HRI_OPS_COMMON_QUANTIZED_H
#define HRI_OPS_COMMON_QUANTIZED_H

#include "graph/op.h"

/* Whether inputs i and i + 1 are a scale and a zero point. */
static inline int hri_is_range(const hri_infer *c, uint32_t i) {
    return c->in[i].type == HR_TYPE_F32 && c->in[i].shape.rank == 0 &&
           c->in[i + 1].type == HR_TYPE_U8 && c->in[i + 1].shape.rank == 0;
}

/* Inputs 2 and 3 are a scale and a bias for each column of a product; the reason goes to c. */
HR_MUST_CHECK hr_status hri_quantized_columns(hri_infer *c, int64_t columns);
/* So they are, inputs 4 and 5, and 6 and 7 where there are any, are ranges, and a sum of `depth` products of bytes is exact. */
HR_MUST_CHECK hr_status hri_quantized_infer(hri_infer *c, int64_t columns, int64_t depth);

static inline float hri_scale_at(const hri_call *c, uint32_t i) {
    return *(const float *)c->in[i];
}

static inline int32_t hri_zero_at(const hri_call *c, uint32_t i) {
    return *(const uint8_t *)c->in[i];
}

#endif
