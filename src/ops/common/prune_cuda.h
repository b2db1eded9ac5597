/* What prune and prune_state share on a GPU: zeros where a mask has them. */
#ifndef HRI_OPS_COMMON_PRUNE_CUDA_H
#define HRI_OPS_COMMON_PRUNE_CUDA_H

#include "ops/common/launch.h"
#include "ops/common/sparsity.h"

static inline hri_defines hri_prune_defines(hr_type type) {
    return hri_launch_defines("-DHR_T=%s -DHR_CODES=%d",
                              hri_launch_type(type == HR_TYPE_U8 ? HR_TYPE_F32 : type),
                              type == HR_TYPE_U8);
}

/* Output k, weights or state, is 0 where the mask of `all` weights is; whole or this rank's slice. */
HR_MUST_CHECK hr_status hri_prune_clear(const hri_gpu_call *c, uint32_t k, hr_addr mask,
                                        int64_t all, const hri_sparsity *schedule);

#endif
