/* A GPU for launches: opening, the queue in use, fills and copies.  device/gpu.h has the contract.
 *
 * The device is opened as every other (device.c); this adds the compiler, the folder of the cache and what grids are
 * made from.  A device of another back end, or a driver without the calls for kernels, is HR_E_UNSUPPORTED with words.
 * Every call enters the device's context and leaves it, as all files of this folder do. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/number.h"
#include "device/cuda/gpu_tune.h"

const hri_cuda_nvrtc *hri_cuda_nvrtc_of(hri_cuda_lib *lib) {
    pthread_mutex_lock(&lib->nvrtc_mutex);
    if (!lib->nvrtc_tried) {
        hri_cuda_nvrtc_load(&lib->nvrtc);
        lib->nvrtc_tried = 1;
    }
    pthread_mutex_unlock(&lib->nvrtc_mutex);
    return &lib->nvrtc;
}

/* ---- failures ---- */

hr_status hri_gpu_fail(hri_gpu *gpu, hr_status status, const char *format, ...) {
    va_list list;
    va_start(list, format);
    hri_vsnprintf(gpu->detail, sizeof gpu->detail, format, list);
    va_end(list);
    return status;
}

hr_status hri_gpu_check(hri_gpu *gpu, const char *call, CUresult result) {
    if (result == CUDA_SUCCESS) {
        return HR_OK;
    }
    char words[HRI_CUDA_TEXT];
    hri_cuda_words(gpu->cu, call, result, words, sizeof words);
    const hr_status status = hri_cuda_queue_check(hri_queue_native(gpu->queue), call, result);
    return hri_gpu_fail(gpu, status, "%s", words);
}

hr_status hri_gpu_ready(hri_gpu *gpu) {
    if (!gpu->queue) {
        return hri_gpu_fail(gpu, HR_E_INVALID, "no queue is in use");
    }
    const hr_status status = hri_cuda_queue_failed(hri_queue_native(gpu->queue));
    return status == HR_OK ? HR_OK : hri_gpu_fail(gpu, status, "the queue failed earlier");
}

/* ---- opening ---- */

/* What the driver must be able to do; NULL when it can. */
static const char *missing_function(const hri_cuda_driver *cu) {
    return !cu->cuModuleLoadData      ? "cuModuleLoadData"
           : !cu->cuModuleUnload      ? "cuModuleUnload"
           : !cu->cuModuleGetFunction ? "cuModuleGetFunction"
           : !cu->cuFuncSetAttribute  ? "cuFuncSetAttribute"
           : !cu->cuLaunchKernel      ? "cuLaunchKernel"
                                      : NULL;
}

static hr_status ask(hri_gpu *gpu, CUdevice_attribute attribute, int *out) {
    const CUresult result = HRI_FAULT(OPEN)
                                ? CUDA_ERROR_UNKNOWN
                                : gpu->cu->cuDeviceGetAttribute(out, attribute, gpu->dev->device);
    return hri_cuda_check(gpu->dev, "cuDeviceGetAttribute", result);
}

static hr_status find_cache(hri_gpu *gpu, const char *wanted) {
    if (wanted && !*wanted) {
        return HR_OK;
    }
    if (wanted) {
        gpu->cache = hri_strdup(wanted);
        return gpu->cache ? HR_OK : HR_E_NOMEM_HOST;
    }
    const hr_status status = hri_path_cache(&gpu->cache);
    return status == HR_E_NOT_FOUND ? HR_OK : status;
}

static hr_status open_all(hri_gpu *gpu, const hri_gpu_options *options, hri_prose *why) {
    const char *missing = missing_function(gpu->cu);
    if (missing) {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "the driver lacks %s; kernels cannot run",
                             missing);
    }
    gpu->nvrtc = hri_cuda_nvrtc_of(gpu->dev->lib);
    if (!gpu->nvrtc->usable) {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "%s: kernels need NVRTC", gpu->nvrtc->why_not);
    }
    /* 9.0 has instructions that stand behind a name of their own. */
    snprintf(gpu->architecture, sizeof gpu->architecture, "sm_%d%d%s", gpu->dev->major,
             gpu->dev->minor, gpu->dev->major == 9 && gpu->dev->minor == 0 ? "a" : "");
    hr_status status = find_cache(gpu, options ? options->cache : NULL);
    if (status == HR_OK) {
        status = ask(gpu, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &gpu->processors);
    }
    if (status == HR_OK) {
        status = ask(gpu, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &gpu->shared_max);
    }
    if (status == HR_OK) {
        status = hri_gpu_libs_open(gpu, &gpu->libs);
    }
    if (status == HR_OK) {
        status = hri_gpu_choices_open(gpu, options ? options->choices : NULL, why);
        if (status != HR_OK) {
            return status;
        }
    }
    return status == HR_OK
               ? HR_OK
               : hri_prose_set(why, status, "%s: %s", gpu->device->name, gpu->dev->detail);
}

hr_status hri_gpu_open(hr_device *device, const hri_gpu_options *options, hri_gpu **out,
                       hri_prose *why) {
    if (device->lib->backend != &hri_backend_cuda) {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "%s cannot run kernels", device->name);
    }
    hr_status status = hri_device_open(device);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "%s cannot be opened", device->name);
    }
    hri_gpu *gpu = hri_calloc(1, sizeof *gpu);
    if (!gpu) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of host memory for GPU bookkeeping");
    }
    gpu->device = device;
    gpu->dev = (hri_cuda_dev *)device->dev;
    gpu->cu = gpu->dev->cu;
    if (options) {
        gpu->options = *options;
        gpu->options.cache = gpu->options.choices =
            NULL; /* the caller's texts; ours is gpu->cache */
    }
    status = open_all(gpu, options, why);
    if (status != HR_OK) {
        hri_gpu_close(gpu);
        return status;
    }
    *out = gpu;
    return HR_OK;
}

void hri_gpu_close(hri_gpu *gpu) {
    if (!gpu) {
        return;
    }
    int pushed;
    hri_gpu_libs_close(gpu, gpu->libs);
    if (hri_cuda_enter(gpu->dev, &pushed) == HR_OK) {
        hri_gpu_modules_close(gpu);
        hri_cuda_leave(gpu->dev, pushed);
    }
    hri_free(gpu->cache);
    hri_free(gpu);
}

/* ---- for the parts with libraries ---- */

hri_gpu_libs *hri_gpu_libs_of(hri_gpu *gpu) {
    return gpu->libs;
}

hri_cuda_dev *hri_gpu_dev(hri_gpu *gpu) {
    return gpu->dev;
}

CUstream hri_gpu_stream(hri_gpu *gpu) {
    return gpu->stream;
}

int hri_gpu_capturing(const hri_gpu *gpu) {
    return gpu->capturing;
}

const hri_gpu_options *hri_gpu_settings(const hri_gpu *gpu) {
    return &gpu->options;
}

const char *hri_gpu_cache(const hri_gpu *gpu) {
    return gpu->cache ? gpu->cache : "";
}

/* ---- small ones ---- */

void hri_gpu_use(hri_gpu *gpu, hr_queue *queue) {
    gpu->queue = queue;
    gpu->stream = queue ? hri_cuda_stream(hri_queue_native(queue)) : NULL;
}

hr_status hri_gpu_enter(hri_gpu *gpu, int *pushed) {
    return hri_cuda_enter(gpu->dev, pushed);
}

void hri_gpu_leave(hri_gpu *gpu, int pushed) {
    hri_cuda_leave(gpu->dev, pushed);
}

void *hri_gpu_native(hri_gpu *gpu, hr_queue *queue) {
    (void)gpu;
    return hri_cuda_stream(hri_queue_native(queue));
}

const hri_kernels *hri_gpu_kernels(const hri_gpu *gpu) {
    return hri_device_kernels(gpu->device);
}

hr_device *hri_gpu_device(const hri_gpu *gpu) {
    return gpu->device;
}

const char *hri_gpu_detail(const hri_gpu *gpu) {
    return gpu->detail;
}

uint32_t hri_gpu_processors(const hri_gpu *gpu) {
    return (uint32_t)gpu->processors;
}

uint32_t hri_gpu_shared_bytes(const hri_gpu *gpu) {
    return (uint32_t)gpu->shared_max;
}

uint64_t hri_gpu_warpgroup_shared(const hri_gpu *gpu) {
    return gpu->dev->major == 9 && gpu->dev->minor == 0 ? (uint64_t)gpu->shared_max : 0;
}

int hri_gpu_maps(const hri_gpu *gpu) {
    return hri_gpu_warpgroup_shared(gpu) > 0 && gpu->cu->cuTensorMapEncodeTiled;
}

hr_status hri_gpu_map_make(hri_gpu *gpu, hri_gpu_map *out, hr_type type, hr_addr at,
                           const uint64_t sizes[4], const uint64_t strides[3],
                           const uint32_t box[4]) {
    static const uint32_t steps[4] = {1, 1, 1, 1};
    _Static_assert(sizeof *out == sizeof(CUtensorMap), "a map is as large as the driver's");
    CUtensorMap *map = (CUtensorMap *)out;
    const CUtensorMapDataType of = type == HR_TYPE_F32   ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                   : type == HR_TYPE_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                         : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    int pushed;
    hr_status status = hri_cuda_enter(gpu->dev, &pushed);
    if (status != HR_OK) {
        return hri_gpu_fail(gpu, status, "no context for a map of a tensor");
    }
    const CUresult result =
        HRI_FAULT(LAUNCH)
            ? CUDA_ERROR_UNKNOWN
            : gpu->cu->cuTensorMapEncodeTiled(
                  map, of, 4, (void *)(uintptr_t)at, sizes, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    status = hri_gpu_check(gpu, "cuTensorMapEncodeTiled", result);
    hri_cuda_leave(gpu->dev, pushed);
    return status;
}

hr_status hri_gpu_fill(hri_gpu *gpu, hr_addr to, uint8_t value, uint64_t bytes) {
    hr_status status = hri_gpu_ready(gpu);
    if (status == HR_OK) {
        status = hri_cuda_fill(hri_queue_native(gpu->queue), to, value, bytes);
        if (status != HR_OK) {
            hri_gpu_fail(gpu, status, "%s", gpu->dev->detail);
        }
    }
    return status;
}

hr_status hri_gpu_copy(hri_gpu *gpu, hr_addr to, hr_addr from, uint64_t bytes) {
    hr_status status = hri_gpu_ready(gpu);
    if (status == HR_OK) {
        status = hri_cuda_copy(hri_queue_native(gpu->queue), to, from, bytes);
        if (status != HR_OK) {
            hri_gpu_fail(gpu, status, "%s", gpu->dev->detail);
        }
    }
    return status;
}
