/* Moving a box of elements from one stride pattern to another: the one kernel behind transpose, slice and concat.
 *
 * Dimensions of 1 are dropped and neighbours merged where both sides walk them as one.  Then either both sides are
 * dense along the last dimension, and runs are copied; or the source is dense along another one, and square tiles are
 * turned so that each cache line of either side is used whole.  Elements are moved as bytes of their size: 1, 2, 4, 8.
 * The box is cut into tasks by its shape; every element is written once. */
#ifndef HRI_OPS_COMMON_STRIDED_H
#define HRI_OPS_COMMON_STRIDED_H

#include "graph/op.h"

typedef struct hri_strided {
    int rank;
    int64_t dim[HR_RANK_MAX];
    int64_t from[HR_RANK_MAX], to[HR_RANK_MAX]; /* strides in elements */
    const void *in;
    void *out;
    size_t bytes; /* of an element */
} hri_strided;

/* The row-major strides of a shape. */
static inline void hri_strides(const hr_shape *shape, int64_t stride[HR_RANK_MAX]) {
    int64_t step = 1;
    for (int d = shape->rank - 1; d >= 0; d--) {
        stride[d] = step;
        step *= shape->dim[d];
    }
}

/* Drops dimensions of 1 and merges neighbours that both sides walk as one; at least one dimension is left. */
void hri_strided_simplify(hri_strided *box);

void hri_strided_copy(const hri_strided *box, hri_threads *threads);

#endif
