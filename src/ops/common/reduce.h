/* Sums over dimensions, the same for any number of threads.
 *
 * A reduction is seen as (K1, R, K2): sum over the middle.  With few results and a long R, R is cut into parts by the
 * shape alone; the parts' sums lie in the workspace and are added in order.  Rows are first added in blocks of 64, so
 * that the rounding error grows slowly.  Patterns that alternate more (keep the middle, sum both ends) take a slower
 * general way.  Sums are f32, whatever the stored type. */
#ifndef HRI_OPS_COMMON_REDUCE_H
#define HRI_OPS_COMMON_REDUCE_H

#include "graph/op.h"

typedef struct hri_reduction {
    int64_t outer, middle, inner; /* (K1, R, K2); general patterns have outer == 0 */
    int64_t parts, part_rows;     /* of R */
    int rank; /* general patterns: merged dimensions, and whether each is summed */
    int64_t dim[HR_RANK_MAX];
    uint8_t sum[HR_RANK_MAX];
    int64_t results;
} hri_reduction;

/* `axes` is the mask of the dimensions to sum over. */
void hri_reduction_init(hri_reduction *r, const hr_shape *in, uint32_t axes);
uint64_t hri_reduction_workspace(const hri_reduction *r, hr_type type);
/* out[i] = scale * sum; out and in of one real type. */
void hri_reduction_sum(const hri_reduction *r, hri_threads *threads, hr_type type, const void *in,
                       void *out, float scale, void *workspace);

#endif
