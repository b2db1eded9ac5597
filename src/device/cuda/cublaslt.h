/* Matrix products by cuBLASLt: opening the library, one product described, its algorithms, a run.
 *
 * The library thinks in columns; a product of rows is the product of the transposed operands in the other order, so a
 * and b change places and nothing is moved.  Sums are f32, partial sums of a cut inner dimension too, which is also
 * what makes every algorithm that may be chosen give the same bits each time. */
#ifndef HRI_DEVICE_CUDA_CUBLASLT_H
#define HRI_DEVICE_CUDA_CUBLASLT_H

#include "device/cuda/cublaslt_min.h"
#include "device/cuda/cuda_load.h"
#include "device/gpu.h"

typedef struct hri_lt {
#define HRI_LT_FN(RETURNS, NAME, PARAMETERS) RETURNS(*NAME) PARAMETERS;
#include "device/cuda/cublaslt_api.def"
#undef HRI_LT_FN
    void *library;
    int found, usable; /* all functions are there; and a handle */
    size_t version;
    cublasLtHandle_t handle;
    char why_not[HRI_CUDA_TEXT];
} hri_lt;

/* As in cudnn.h. */
void hri_lt_load(hri_lt *out);
void hri_lt_start(hri_lt *lt);
void hri_lt_unload(hri_lt *lt);

typedef struct hri_lt_product {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, y; /* a of the caller's, though the library's second */
    char text[128];                 /* what was refused */
} hri_lt_product;

/* HR_E_UNSUPPORTED with words in out->text; deinit is needed in any case. */
HR_MUST_CHECK hr_status hri_lt_product_init(const hri_lt *lt, const hri_gpu_matmul *x, int exact,
                                            hri_lt_product *out);
void hri_lt_product_deinit(const hri_lt *lt, hri_lt_product *p);

typedef struct hri_lt_algorithm {
    cublasLtMatmulAlgo_t algo;
    uint64_t workspace_bytes;
} hri_lt_algorithm;

/* At most `most`, by the library's guess of speed. */
HR_MUST_CHECK hr_status hri_lt_algorithms(const hri_lt *lt, hri_lt_product *p, uint64_t limit,
                                          hri_lt_algorithm *out, uint32_t most,
                                          uint32_t *out_count);
/* Addresses of the device, aligned to 16 bytes (work space to 256); bias NULL without one. */
HR_MUST_CHECK hr_status hri_lt_run(const hri_lt *lt, hri_lt_product *p,
                                   const hri_lt_algorithm *algorithm, int add, const void *a,
                                   const void *b, const void *bias, void *y, void *workspace,
                                   uint64_t workspace_bytes, cudaStream_t stream);

#endif
