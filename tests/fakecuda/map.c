/* Maps of tensors for the copy engine: kept as they are said, for hr_emulated_tile (kernels.h).  What the real driver refuses is
 * refused. */
#include <string.h>

#include "emulator.h"
#include "fake.h"

_Static_assert(sizeof(fake_map) <= sizeof(CUtensorMap), "a map fits where the driver's is");

CUresult fake_cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, uint32_t rank,
                                     void *at, const uint64_t *sizes, const uint64_t *strides,
                                     const uint32_t *box, const uint32_t *steps,
                                     CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                     CUtensorMapL2promotion promotion,
                                     CUtensorMapFloatOOBfill fill) {
    const unsigned bytes = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 ? 4 : 2;
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    const CUresult current = fake_current(&context);
    pthread_mutex_unlock(&fake_lock);
    if (current != CUDA_SUCCESS) {
        return current;
    }
    fake_map m = {.at = (uintptr_t)at, .bytes = bytes, .mark = FAKE_MAP_MARK};
    if (!map || (uintptr_t)map % 64 || rank != 4 || !at || (uintptr_t)at % 16 || interleave != 0 ||
        swizzle != CU_TENSOR_MAP_SWIZZLE_128B || fill != 0 || box[0] * bytes > 128) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void)promotion;
    for (int i = 0; i < 4; i++) {
        if (sizes[i] == 0 || sizes[i] > 1ull << 32 || box[i] == 0 || box[i] > 256 ||
            steps[i] != 1 || (i < 3 && (strides[i] % 16 || strides[i] >= 1ull << 40))) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        m.sizes[i] = sizes[i];
        m.box[i] = box[i];
        if (i < 3) {
            m.strides[i] = strides[i];
        }
    }
    memset(map, 0, sizeof *map);
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}
