/* The libraries of NVIDIA's driver as tables of function pointers, found at run time.
 *
 * libcuda.so.1 and libnvidia-ml.so.1 are opened by name, never linked.  What is missing is not an error here: the
 * loader leaves words about it for report() and the caller looks at `usable`.
 *
 * Threads: load and unload belong to one thread; afterwards the tables are constant. */
#ifndef HRI_DEVICE_CUDA_LOAD_H
#define HRI_DEVICE_CUDA_LOAD_H

#include "device/cuda/cuda_min.h"

enum { HRI_CUDA_TEXT = 256 };

typedef struct hri_cuda_driver {
#define HRI_CU_FN(NEED, NAME, FEATURE, PARAMETERS, ARGUMENTS) CUresult(*NAME) PARAMETERS;
#include "device/cuda/cuda_api.def"
#undef HRI_CU_FN
    void *library;
    int usable; /* every MUST function is there */
    char why_not[HRI_CUDA_TEXT];
} hri_cuda_driver;

typedef struct hri_cuda_nvml {
#define HRI_NVML_FN(RETURNS, NAME, PARAMETERS) RETURNS(*NAME) PARAMETERS;
#include "device/cuda/nvml_api.def"
#undef HRI_NVML_FN
    void *library;
    int usable; /* every function is there, and nvmlInit succeeded */
    int found;  /* the library itself is there */
    char why_not[HRI_CUDA_TEXT];
} hri_cuda_nvml;

/* Always leaves `out` whole; unload is needed in any case. */
void hri_cuda_driver_load(hri_cuda_driver *out);
void hri_cuda_driver_unload(hri_cuda_driver *driver);
/* Calls fn with the name and the feature of each MAY function that is missing. */
void hri_cuda_driver_each_missing(const hri_cuda_driver *driver,
                                  void (*fn)(void *user, const char *name, const char *feature),
                                  void *user);

/* As above; also calls nvmlInit. */
void hri_cuda_nvml_load(hri_cuda_nvml *out);
void hri_cuda_nvml_unload(hri_cuda_nvml *nvml);

#endif
