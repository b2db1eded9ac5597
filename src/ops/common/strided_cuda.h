/* Boxes on a GPU: the kernels of ops/cuda/copy.cu. */
#ifndef HRI_OPS_COMMON_STRIDED_CUDA_H
#define HRI_OPS_COMMON_STRIDED_CUDA_H

#include "ops/common/launch.h"
#include "ops/common/strided.h"

/* hri_strided_copy there; `in` and `out` of the box are not read.  A stride of 0 repeats.  A box with a dimension of 0 is
 * nothing. */
HR_MUST_CHECK hr_status hri_strided_launch(hri_gpu *gpu, const hri_strided *box, hr_addr in,
                                           hr_addr out);

/* The box is the result, dense, with `inside[d]` elements of dense `in` from `before[d]` on, `step[d]` apart, and `element`
 * elsewhere. */
typedef struct hri_border {
    int64_t before[HR_RANK_MAX], inside[HR_RANK_MAX], step[HR_RANK_MAX];
    _Alignas(16) unsigned char element[16]; /* the first of them, as many as an element has */
} hri_border;

HR_MUST_CHECK hr_status hri_border_launch(hri_gpu *gpu, const hr_shape *out_shape, size_t bytes,
                                          const hri_border *border, hr_addr in, hr_addr out);

#endif
