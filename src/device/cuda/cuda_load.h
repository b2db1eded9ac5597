/* The libraries of NVIDIA's driver as tables of function pointers, found at run time.
 *
 * libcuda.so.1, libnvidia-ml.so.1 and libnvrtc.so are opened by name, never linked, and so are
 * cuBLASLt and cuDNN (cublaslt.c, cudnn.c) by the two functions below.  What is missing is not an error here: the
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

typedef struct hri_cuda_nvrtc {
#define HRI_NVRTC_FN(RETURNS, NAME, PARAMETERS) RETURNS(*NAME) PARAMETERS;
#include "device/cuda/nvrtc_api.def"
#undef HRI_NVRTC_FN
    void *library;
    int usable; /* every function is there, and the version is known */
    int found;  /* the library itself is there */
    int major, minor;
    char why_not[HRI_CUDA_TEXT];
} hri_cuda_nvrtc;

/* A function of any library, for a table of pointers: where the pointer lies in the struct. */
typedef struct hri_cuda_entry {
    const char *name;
    const char *feature; /* what is switched off without it */
    size_t offset;
    int must;
} hri_cuda_entry;

/* Opens the first of `names` (it ends with NULL) that is there; NULL, and the reason of the first one, otherwise.  For
 * libraries that may be missing: a fault point stands before it. */
void *hri_cuda_library_open(const char *const *names, char why_not[HRI_CUDA_TEXT]);
/* Fills the pointers of `table`; 0 when one that must be there is not, and why_not says which. */
int hri_cuda_library_find(void *library, void *table, const hri_cuda_entry *entries, size_t count,
                          char why_not[HRI_CUDA_TEXT]);

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

/* NVRTC is large, so it is opened when the first kernel, or `doctor`, asks for it. */
void hri_cuda_nvrtc_load(hri_cuda_nvrtc *out);
void hri_cuda_nvrtc_unload(hri_cuda_nvrtc *nvrtc);

#endif
