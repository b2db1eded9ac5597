/* Sums over dimensions on a GPU: the kernels of ops/cuda/reduce.cu.
 *
 * The cut depends on the shape alone, so a sum has the same bits on every GPU.  It aims at 660 blocks, which fill the
 * largest GPUs of today once (132 multiprocessors, five blocks each), as long as each thread keeps some rows to add. */
#ifndef HRI_OPS_COMMON_REDUCE_CUDA_H
#define HRI_OPS_COMMON_REDUCE_CUDA_H

#include "ops/common/launch.h"
#include "ops/common/reduce.h"

/* As in reduce.cu. */
typedef struct hri_pattern {
    int32_t rank, unused;
    int64_t dim[HR_RANK_MAX];
    int64_t reduced[HR_RANK_MAX];
} hri_pattern;

hri_pattern hri_pattern_of(const hri_reduction *r);

uint64_t hri_reduction_launch_workspace(const hri_reduction *r, hr_type type);
/* out[i] = scale * sum; out and in of one real type. */
HR_MUST_CHECK hr_status hri_reduction_launch(hri_gpu *gpu, const hri_reduction *r, hr_type type,
                                             hr_addr in, hr_addr out, float scale,
                                             hr_addr workspace);
/* The same of what the call of an element-wise op of two operands makes; that is stored, too, as is what `again` (NULL: none) makes
 * of the second of them (hri_beside).  HR_E_UNSUPPORTED: not with these shapes or places. */
HR_MUST_CHECK hr_status hri_reduction_launch_made(const hri_gpu_call *maker,
                                                  const hri_gpu_call *again, const hri_reduction *r,
                                                  hr_addr out, hr_addr workspace);

/* Sums of the columns of (middle, inner) rows that fit into the registers of a warp: 8 threads below one another and `parts` blocks take
 * rows by turns, one by one, so that a kernel that has a row in each of 8 warps may make the same sums while it writes the rows.  The
 * number of parts; 0: rows are cut otherwise. */
int64_t hri_turns(hr_type type, int64_t middle, int64_t inner);
/* Of such parts (parts, inner) in f32, more than one, the sums. */
HR_MUST_CHECK hr_status hri_turns_combine(hri_gpu *gpu, hr_type type, int64_t inner, int64_t parts,
                                          hr_addr partial, hr_addr out);

#endif
