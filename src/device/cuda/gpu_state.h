/* What the files behind device/gpu.h share: the hri_gpu itself.  Only files of this folder include it.
 *
 * gpu.c         opening, closing, the queue in use, fills and copies     gpu_module.c  source text to functions, launches
 * gpu_cache.c   cubins on disk                                           gpu_graph.c   steps captured and replayed
 * What stands on libraries (cuBLASLt, cuDNN) has gpu_libs.h. */
#ifndef HRI_DEVICE_CUDA_GPU_STATE_H
#define HRI_DEVICE_CUDA_GPU_STATE_H

#include "base/sha256.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/vector.h"
#include "device/cuda/cuda_state.h"
#include "device/cuda/gpu_libs.h"
#include "device/device.h"
#include "device/gpu.h"

/* One function of a loaded module. */
typedef struct hri_gpu_function {
    char *name;
    CUfunction function;
    uint32_t fixed_bytes;  /* of shared memory, that its text declares */
    uint32_t shared_bytes; /* the dynamic shared memory it was allowed */
} hri_gpu_function;
HRI_VECTOR(hri_gpu_functions, hri_gpu_function)

/* One compiled text. */
typedef struct hri_gpu_module {
    CUmodule module;
    hri_gpu_functions functions;
} hri_gpu_module;

struct hri_gpu {
    hr_device *device;
    hri_cuda_dev *dev;
    const hri_cuda_driver *cu; /* of dev, at hand */
    const hri_cuda_nvrtc *nvrtc;
    hri_gpu_options options;
    char *cache; /* folder of cubins and choices; NULL: none is kept */
    char architecture[16];
    int processors, shared_max;
    hr_queue *queue; /* in use; NULL: none yet */
    CUstream stream;
    int capturing;
    hr_addr trial_at; /* 0: no trial */
    int noting;
    int together;       /* 1: what is launched could also be launched apart */
    hri_strmap modules; /* "text's address or hash|defines" -> hri_gpu_module * */
    uint64_t compiled;  /* how often NVRTC was really asked */
    char detail[2048];
    hri_gpu_libs *libs;
};

/* Checks the answer of a driver call that puts something into the queue in use; words go to the detail. */
HR_MUST_CHECK hr_status hri_gpu_check(hri_gpu *gpu, const char *call, CUresult result);
/* HR_OK when there is a queue in use that still works. */
HR_MUST_CHECK hr_status hri_gpu_ready(hri_gpu *gpu);

/* ---- gpu_module.c ---- */
void hri_gpu_modules_close(hri_gpu *gpu);

/* ---- gpu_cache.c ---- */
typedef struct hri_gpu_key {
    unsigned char digest[HRI_SHA256_BYTES]; /* of all that a cubin depends on */
} hri_gpu_key;
/* A cubin from the cache; HR_E_NOT_FOUND when it is not there or damaged.  hri_free() it. */
HR_MUST_CHECK hr_status hri_gpu_cache_get(hri_gpu *gpu, const char *name, const hri_gpu_key *key,
                                          char **out, size_t *out_bytes);
/* Keeps it if that is possible. */
void hri_gpu_cache_put(hri_gpu *gpu, const char *name, const hri_gpu_key *key, const char *cubin,
                       size_t bytes);

#endif
