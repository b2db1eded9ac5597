/* The parts of a GPU's work that stand on libraries (products, convolutions, attention), and what they share with gpu.c,
 * which owns the hri_gpu.
 *
 * gpu.c keeps one hri_gpu_libs an hri_gpu: it opens it last in hri_gpu_open and closes it first in hri_gpu_close.  Missing
 * libraries are no failure there; the parts fall back on kernels of our own.  The context of the device is current
 * around none of these calls; each part enters it itself (hri_cuda_enter).
 *
 * Only files of this folder include it. */
#ifndef HRI_DEVICE_CUDA_GPU_LIBS_H
#define HRI_DEVICE_CUDA_GPU_LIBS_H

#include "device/cuda/cuda_state.h"
#include "device/gpu.h"

/* The parts; each is made at its first use, which is when work space is asked for, before planning. */
typedef enum hri_gpu_part {
    HRI_GPU_PART_CHOICES, /* gpu_choices.c */
    HRI_GPU_PART_BLAS,    /* gpu_matmul.c */
    HRI_GPU_PART_DNN,     /* gpu_dnn.c */
    HRI_GPU_PARTS
} hri_gpu_part;

typedef struct hri_gpu_libs {
    void *part[HRI_GPU_PARTS];
    void (*close[HRI_GPU_PARTS])(void *part); /* with the context current */
} hri_gpu_libs;

/* ---- gpu_libs.c ---- */

HR_MUST_CHECK hr_status hri_gpu_libs_open(hri_gpu *gpu, hri_gpu_libs **out);
/* Closes all parts.  NULL is allowed. */
void hri_gpu_libs_close(hri_gpu *gpu, hri_gpu_libs *libs);

/* ---- gpu_matmul.c, gpu_dnn.c: the version's number, or "none" where it was not used ---- */
void hri_gpu_blas_version(hri_gpu *gpu, char *buf, size_t size);
void hri_gpu_dnn_version(hri_gpu *gpu, char *buf, size_t size);

/* ---- gpu.c ---- */

hri_gpu_libs *hri_gpu_libs_of(hri_gpu *gpu);
hri_cuda_dev *hri_gpu_dev(hri_gpu *gpu);
/* Of the queue in use. */
CUstream hri_gpu_stream(hri_gpu *gpu);
/* Between capture_begin and capture_end: nothing may be timed or waited for. */
int hri_gpu_capturing(const hri_gpu *gpu);
const hri_gpu_options *hri_gpu_settings(const hri_gpu *gpu);
/* The folder for what is kept between runs; "" when nothing is. */
const char *hri_gpu_cache(const hri_gpu *gpu);
/* Sets the words of hri_gpu_detail and returns `status`. */
hr_status hri_gpu_fail(hri_gpu *gpu, hr_status status, const char *format, ...) HR_PRINTF(3, 4);

#endif
