/* Updates on a GPU: the table of ops/cuda/update.cu, filled and launched.
 *
 * An op gives its rule's name, how many scalars and states it has, and its constants; common/update.h has what the
 * inputs are.  Tensors whose types, scalars and constants agree go together, 64 to a launch; the decay is each
 * tensor's own, since biases often have none, and so is the stream by which its small states are rounded. */
#ifndef HRI_OPS_COMMON_UPDATE_CUDA_H
#define HRI_OPS_COMMON_UPDATE_CUDA_H

#include "ops/common/launch.h"
#include "ops/common/update.h"

HR_MUST_CHECK hr_status hri_update_launch(const hri_update_rule *rule, const hri_gpu_call *calls,
                                          uint32_t count);

/* NAME_cuda and NAME_cuda_many from NAME_rule. */
#define HRI_UPDATE_CUDA(NAME)                                                                      \
    static hr_status NAME##_cuda(const hri_gpu_call *c) {                                          \
        return hri_update_launch(&NAME##_rule, c, 1);                                              \
    }                                                                                              \
    static hr_status NAME##_cuda_many(const hri_gpu_call *calls, uint32_t count) {                 \
        return hri_update_launch(&NAME##_rule, calls, count);                                      \
    }

#endif
