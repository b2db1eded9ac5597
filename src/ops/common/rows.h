/* Values seen as rows along the last dimension, for ops that work row by row (softmax, losses, norms). */
#ifndef HRI_OPS_COMMON_ROWS_H
#define HRI_OPS_COMMON_ROWS_H

#include "graph/half.h"
#include "graph/op.h"

typedef struct hri_row {
    hr_type type;
    const void *data;
    int64_t first; /* element */
} hri_row;

typedef struct hri_row_out {
    hr_type type;
    void *data;
    int64_t first;
} hri_row_out;

static inline float hri_row_at(const hri_row *r, int64_t k) {
    const int64_t i = r->first + k;
    return r->type == HR_TYPE_F32    ? ((const float *)r->data)[i]
           : r->type == HR_TYPE_BF16 ? hri_from_bf16(((const hri_bf16 *)r->data)[i])
                                     : hri_from_f16(((const hri_f16 *)r->data)[i]);
}

static inline void hri_row_put(const hri_row_out *r, int64_t k, float x) {
    const int64_t i = r->first + k;
    if (r->type == HR_TYPE_F32) {
        ((float *)r->data)[i] = x;
    } else if (r->type == HR_TYPE_BF16) {
        ((hri_bf16 *)r->data)[i] = hri_to_bf16(x);
    } else {
        ((hri_f16 *)r->data)[i] = hri_to_f16(x);
    }
}

/* A whole row to and from f32: for loops that should be fast in every type. */
static inline void hri_row_load(const hri_row *r, int64_t n, float *out) {
    for (int64_t k = 0; k < n; k++) {
        out[k] = hri_row_at(r, k);
    }
}

static inline int64_t hri_row_id(hr_type type, const void *ids, int64_t i) {
    return type == HR_TYPE_I32 ? ((const int32_t *)ids)[i] : ((const int64_t *)ids)[i];
}

static inline int64_t hri_row_width(const hr_shape *s) {
    return s->rank ? s->dim[s->rank - 1] : 1;
}

/* Rows a task. */
static inline uint64_t hri_row_chunk(int64_t width) {
    return width < 8192 ? (uint64_t)(8192 / (width + 1) + 1) : 1;
}

#endif
