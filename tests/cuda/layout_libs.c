/* Our declarations of cuBLASLt and cuDNN as layout.h has them; the other half is layout_libs_real.c. */
#include "layout.h"

#include "device/cuda/cublaslt_min.h"
#include "device/cuda/cudnn_min.h"

const layout_entry layout_ours_cublaslt[] = {
#include "layout_cublaslt.def"
    {NULL, 0},
};
const layout_entry layout_ours_cudnn[] = {
#include "layout_cudnn.def"
    {NULL, 0},
};
