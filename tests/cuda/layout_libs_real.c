/* The same with NVIDIA's headers, where the build has found them, and the signatures of the functions of both tables. */
#include "layout.h"

#ifdef HAVE_CUBLASLT_H
#include <cublasLt.h>
#endif
#ifdef HAVE_CUDNN_GRAPH_H
#include <cudnn_graph.h>
#endif
#include "device/cuda/cublaslt_min.h" /* both step back behind a real header */
#include "device/cuda/cudnn_min.h"

#define SAME(NAME, TYPE)                                                                           \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&NAME), TYPE), "signature of " #NAME)

#ifdef HAVE_CUBLASLT_H
#define HRI_LT_FN(RETURNS, NAME, PARAMETERS) SAME(NAME, RETURNS(*) PARAMETERS);
#include "device/cuda/cublaslt_api.def"
#undef HRI_LT_FN
const layout_entry layout_real_cublaslt[] = {
#include "layout_cublaslt.def"
    {NULL, 0},
};
#else
const layout_entry layout_real_cublaslt[] = {{NULL, 0}};
#endif

#ifdef HAVE_CUDNN_GRAPH_H
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* names that it means to drop one day */
#define HRI_DNN_FN(RETURNS, NAME, PARAMETERS) SAME(NAME, RETURNS(*) PARAMETERS);
#include "device/cuda/cudnn_api.def"
#undef HRI_DNN_FN
const layout_entry layout_real_cudnn[] = {
#include "layout_cudnn.def"
    {NULL, 0},
};
#else
const layout_entry layout_real_cudnn[] = {{NULL, 0}};
#endif
