/* The table of layout.h with NVIDIA's headers, where the build has found them, and the signatures of every function
 * of our two tables against theirs. */
#include "layout.h"

#ifdef HAVE_CUDA_H
#include <cuda.h>
#endif
#ifdef HAVE_NVML_H
#include <nvml.h>
#endif
#include "device/cuda/cuda_min.h" /* steps back behind a real header */

#define SAME(NAME, TYPE)                                                                           \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&NAME), TYPE), "signature of " #NAME)

#ifdef HAVE_CUDA_H
#define HRI_CU_FN(NEED, NAME, FEATURE, PARAMETERS, ARGUMENTS) SAME(NAME, CUresult(*) PARAMETERS);
#include "device/cuda/cuda_api.def"
#undef HRI_CU_FN
const layout_entry layout_real_cuda[] = {
#include "layout_cuda.def"
    {NULL, 0},
};
#else
const layout_entry layout_real_cuda[] = {{NULL, 0}};
#endif

#ifdef HAVE_NVML_H
#define HRI_NVML_FN(RETURNS, NAME, PARAMETERS) SAME(NAME, RETURNS(*) PARAMETERS);
#include "device/cuda/nvml_api.def"
#undef HRI_NVML_FN
const layout_entry layout_real_nvml[] = {
#include "layout_nvml.def"
    {NULL, 0},
};
#else
const layout_entry layout_real_nvml[] = {{NULL, 0}};
#endif
