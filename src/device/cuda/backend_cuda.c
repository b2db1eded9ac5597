/* The CUDA back end: NVIDIA devices through the driver library, found at run time.
 *
 * This file looks for the driver (probe), opens devices, tells about them (info, report, detail) and holds the vtable;
 * memory is in cuda_memory.c, queues in cuda_queue.c, what a context costs in cuda_runtime.c.
 *
 * A machine without a driver, or with a broken one, is an ordinary machine without such devices: probe succeeds with
 * none, and report() has the reason.  CUDA_VISIBLE_DEVICES is the driver's own affair.  The primary context of a
 * device is shared with other libraries of the process (cuBLAS, PyTorch), as NVIDIA intends.  Kernels are gpu.c's affair. */
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/prose.h"
#include "device/cuda/cuda_state.h"

/* ---- failures ---- */

void hri_cuda_words(const hri_cuda_driver *cu, const char *call, CUresult result, char *buf,
                    size_t size) {
    const char *name = NULL, *text = NULL;
    if (!cu->cuGetErrorName || cu->cuGetErrorName(result, &name) != CUDA_SUCCESS) {
        name = NULL;
    }
    if (!cu->cuGetErrorString || cu->cuGetErrorString(result, &text) != CUDA_SUCCESS) {
        text = NULL;
    }
    if (name && text) {
        snprintf(buf, size, "%s: %s (%s)", call, name, text);
    } else {
        snprintf(buf, size, "%s: CUDA error %d", call, (int)result);
    }
}

static hr_status status_of(CUresult result) {
    switch ((int)result) {
    case CUDA_SUCCESS:
        return HR_OK;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return HR_E_NOMEM_DEVICE;
    case CUDA_ERROR_NOT_READY:
        return HR_E_AGAIN;
    case CUDA_ERROR_NOT_SUPPORTED:
        return HR_E_UNSUPPORTED;
    /* The context is gone, or every later call in it gives the same answer. */
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
        return HR_E_LOST;
    default:
        return HR_E_DEVICE;
    }
}

hr_status hri_cuda_check(hri_cuda_dev *dev, const char *call, CUresult result) {
    if (result == CUDA_SUCCESS) {
        return HR_OK;
    }
    pthread_mutex_lock(&dev->detail_mutex);
    hri_cuda_words(dev->cu, call, result, dev->detail, sizeof dev->detail);
    pthread_mutex_unlock(&dev->detail_mutex);
    return status_of(result);
}

void hri_cuda_must(hri_cuda_dev *dev, const char *call, CUresult result) {
    if (hri_cuda_check(dev, call, result) != HR_OK) {
        char words[HRI_CUDA_TEXT];
        hri_cuda_words(dev->cu, call, result, words, sizeof words);
        hri_log_write(dev->base.lib->log, HR_LOG_WARN, "cuda:%d: %s", dev->index, words);
    }
}

static void detail(hri_dev *base, char *buf, size_t size) {
    hri_cuda_dev *dev = (hri_cuda_dev *)base;
    pthread_mutex_lock(&dev->detail_mutex);
    snprintf(buf, size, "%s", dev->detail);
    pthread_mutex_unlock(&dev->detail_mutex);
}

/* ---- the current context ---- */

hr_status hri_cuda_enter(hri_cuda_dev *dev, int *pushed) {
    CUcontext current = NULL;
    if (dev->cu->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == dev->context) {
        *pushed = 0;
        return HR_OK;
    }
    const hr_status status =
        hri_cuda_check(dev, "cuCtxPushCurrent", dev->cu->cuCtxPushCurrent_v2(dev->context));
    *pushed = status == HR_OK;
    return status;
}

void hri_cuda_leave(hri_cuda_dev *dev, int pushed) {
    CUcontext popped;
    if (pushed) {
        (void)dev->cu->cuCtxPopCurrent_v2(&popped);
    }
}

/* ---- finding the hardware ---- */

static void unprobe(hri_lib *base) {
    if (!base) {
        return;
    }
    hri_cuda_lib *lib = (hri_cuda_lib *)base;
    hri_cuda_nvrtc_unload(&lib->nvrtc);
    pthread_mutex_destroy(&lib->nvrtc_mutex);
    hri_cuda_nvml_unload(&lib->nvml);
    hri_cuda_driver_unload(&lib->driver);
    hri_free((void *)lib->measures);
    hri_free(lib);
}

/* Counts the devices; says why there are none in driver.why_not. */
static int count_devices(hri_cuda_lib *lib) {
    hri_cuda_driver *cu = &lib->driver;
    int count = 0;
    const char *call = "cuInit";
    CUresult result = cu->cuInit(0);
    if (result == CUDA_SUCCESS) {
        call = "cuDeviceGetCount";
        result = cu->cuDeviceGetCount(&count);
    }
    lib->init_result = (int)result;
    if (result != CUDA_SUCCESS) {
        hri_cuda_words(cu, call, result, cu->why_not, sizeof cu->why_not);
        return 0;
    }
    if (count <= 0) {
        snprintf(cu->why_not, sizeof cu->why_not, "the driver reports no device");
        return 0;
    }
    return count;
}

static hr_status probe(const hr_ctx_options *options, hri_log *log, hri_lib **out) {
    hri_cuda_lib *lib = hri_calloc(1, sizeof *lib);
    if (!lib) {
        return HR_E_NOMEM_HOST;
    }
    lib->base = (hri_lib){.backend = &hri_backend_cuda, .log = log};
    pthread_mutex_init(&lib->nvrtc_mutex, NULL);
    lib->switched_off = options && options->no_cuda;
    lib->init_result = CUDA_ERROR_NOT_INITIALIZED;
    if (!lib->switched_off) {
        hri_cuda_driver_load(&lib->driver);
        const int count = lib->driver.usable ? count_devices(lib) : 0;
        if (count > 0) {
            lib->measures = hri_calloc((size_t)count, sizeof *lib->measures);
            if (!lib->measures) {
                unprobe(&lib->base);
                return HR_E_NOMEM_HOST;
            }
            hri_cuda_nvml_load(&lib->nvml);
            lib->base.device_count = count;
        } else {
            hri_log_write(log, HR_LOG_INFO, "no CUDA device: %s", lib->driver.why_not);
        }
    }
    *out = &lib->base;
    return HR_OK;
}

/* ---- devices ---- */

static void dev_init(hri_cuda_dev *dev, hri_lib *lib, int index) {
    memset(dev, 0, sizeof *dev);
    dev->base.lib = lib;
    dev->lib = (hri_cuda_lib *)lib;
    dev->cu = &dev->lib->driver;
    dev->index = index;
    pthread_mutex_init(&dev->detail_mutex, NULL);
}

static void dev_deinit(hri_cuda_dev *dev) {
    if (dev->context) {
        hri_cuda_must(dev, "cuDevicePrimaryCtxRelease",
                      dev->cu->cuDevicePrimaryCtxRelease_v2(dev->device));
    }
    pthread_mutex_destroy(&dev->detail_mutex);
}

static void close_device(hri_dev *base) {
    if (base) {
        dev_deinit((hri_cuda_dev *)base);
        hri_free(base);
    }
}

/* What can be asked without a context. */
static hr_status identify(hri_cuda_dev *dev) {
    const hri_cuda_driver *cu = dev->cu;
    hr_status status =
        hri_cuda_check(dev, "cuDeviceGet", cu->cuDeviceGet(&dev->device, dev->index));
    if (status == HR_OK) {
        status = hri_cuda_check(
            dev, "cuDeviceGetName",
            cu->cuDeviceGetName(dev->description, sizeof dev->description, dev->device));
    }
    if (status == HR_OK) {
        status = hri_cuda_check(
            dev, "cuDeviceGetAttribute",
            cu->cuDeviceGetAttribute(&dev->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                     dev->device));
    }
    if (status == HR_OK) {
        status = hri_cuda_check(
            dev, "cuDeviceGetAttribute",
            cu->cuDeviceGetAttribute(&dev->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                     dev->device));
    }
    dev->description[sizeof dev->description - 1] = '\0';
    if (status == HR_OK) {
        status = hri_cuda_memory_init(dev);
    }
    hri_cuda_nvml_match(dev);
    return status;
}

/* ---- the stack of kernels ---- */

/* Of each thread that the device can hold: 260 MiB of an H200 lie in the difference to the usual 1,024. */
enum { STACK_BYTES = 16, STACK_STEP = 16 };

/* Is the primary context somebody's already?  Then its limits are not ours to lower. */
static int is_active(const hri_cuda_dev *dev) {
    unsigned flags;
    int active = 1;
    return !dev->cu->cuDevicePrimaryCtxGetState ||
           dev->cu->cuDevicePrimaryCtxGetState(dev->device, &flags, &active) != CUDA_SUCCESS ||
           active;
}

static void set_stack(hri_cuda_dev *dev, int bytes) {
    if (dev->cu->cuCtxSetLimit(CU_LIMIT_STACK_SIZE, (size_t)bytes) == CUDA_SUCCESS) {
        dev->stack_bytes = bytes;
    }
}

/* Kernels of libraries are not asked: the driver gives a launch what it needs, and never takes it back. */
int hri_cuda_stack_for(hri_cuda_dev *dev, CUfunction function, int may_grow) {
    int bytes = 0;
    if (!dev->stack_bytes ||
        dev->cu->cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function) !=
            CUDA_SUCCESS ||
        bytes <= dev->stack_bytes) {
        return 1;
    }
    if (may_grow) {
        set_stack(dev, (bytes + STACK_STEP - 1) / STACK_STEP * STACK_STEP);
    }
    return may_grow;
}

/* Makes the context and finds out what it costs. */
static hr_status open_context(hri_cuda_dev *dev) {
    const int foreign = is_active(dev);
    hri_cuda_before before;
    hri_cuda_look_before(dev, &before);
    CUcontext context = NULL;
    const CUresult result = HRI_FAULT(OPEN)
                                ? CUDA_ERROR_UNKNOWN
                                : dev->cu->cuDevicePrimaryCtxRetain(&context, dev->device);
    hr_status status = hri_cuda_check(dev, "cuDevicePrimaryCtxRetain", result);
    int pushed = 0;
    if (status == HR_OK) {
        dev->context = context;
        status = hri_cuda_enter(dev, &pushed);
    }
    if (status == HR_OK) {
        if (!foreign && dev->cu->cuCtxSetLimit && dev->cu->cuFuncGetAttribute) {
            set_stack(dev, STACK_BYTES);
        }
        status = hri_cuda_warm_up(dev);
        if (status == HR_OK) {
            hri_cuda_measure_runtime(dev, &before);
        }
        hri_cuda_leave(dev, pushed);
    }
    hri_cuda_before_deinit(&before);
    return status;
}

static hr_status open_device(hri_lib *base, int index, hri_dev **out) {
    if (index < 0 || index >= base->device_count) {
        return HR_E_NOT_FOUND;
    }
    hri_cuda_dev *dev = hri_malloc(sizeof *dev);
    if (!dev) {
        return HR_E_NOMEM_HOST;
    }
    dev_init(dev, base, index);
    hr_status status = identify(dev);
    if (status == HR_OK) {
        status = open_context(dev);
    }
    if (status != HR_OK) {
        /* There is no device to ask for detail(), so the log gets the words. */
        hri_log_write(base->log, HR_LOG_ERROR, "cuda:%d cannot be opened: %s", index, dev->detail);
        close_device(&dev->base);
        return status;
    }
    *out = &dev->base;
    return HR_OK;
}

static void fill_identity(const hri_cuda_dev *dev, hr_device_info *out) {
    snprintf(out->name, sizeof out->name, "cuda:%d", dev->index);
    memcpy(out->description, dev->description, sizeof out->description);
    snprintf(out->backend, sizeof out->backend, "cuda");
    out->page_bytes = dev->base.source.page_bytes;
    out->compute_major = (uint32_t)dev->major;
    out->compute_minor = (uint32_t)dev->minor;
}

static int uuid(hri_lib *base, int index, unsigned char out[16]) {
    const hri_cuda_driver *cu = &((hri_cuda_lib *)base)->driver;
    CUdevice device;
    CUuuid id;
    if (!cu->cuDeviceGetUuid_v2 || cu->cuDeviceGet(&device, index) != CUDA_SUCCESS ||
        cu->cuDeviceGetUuid_v2(&id, device) != CUDA_SUCCESS) {
        return 0;
    }
    memcpy(out, id.bytes, 16);
    return 1;
}

static hr_status describe(hri_lib *base, int index, hr_device_info *out) {
    if (index < 0 || index >= base->device_count) {
        return HR_E_NOT_FOUND;
    }
    hri_cuda_dev dev;
    dev_init(&dev, base, index);
    size_t total_bytes = 0;
    hr_status status = identify(&dev);
    if (status == HR_OK) {
        status = hri_cuda_check(&dev, "cuDeviceTotalMem",
                                dev.cu->cuDeviceTotalMem_v2(&total_bytes, dev.device));
    }
    if (status == HR_OK) {
        fill_identity(&dev, out);
        out->total_bytes = total_bytes;
        out->free_bytes = hri_cuda_free_bytes(&dev);
    } else {
        hri_log_write(base->log, HR_LOG_ERROR, "cuda:%d: %s", index, dev.detail);
    }
    dev_deinit(&dev);
    return status;
}

static hr_status info(hri_dev *base, hr_device_info *out) {
    hri_cuda_dev *dev = (hri_cuda_dev *)base;
    size_t free_bytes = 0, total_bytes = 0;
    int pushed;
    hr_status status = hri_cuda_enter(dev, &pushed);
    if (status != HR_OK) {
        return status;
    }
    status =
        hri_cuda_check(dev, "cuMemGetInfo", dev->cu->cuMemGetInfo_v2(&free_bytes, &total_bytes));
    hri_cuda_leave(dev, pushed);
    if (status != HR_OK) {
        return status;
    }
    fill_identity(dev, out);
    out->total_bytes = total_bytes;
    out->free_bytes = free_bytes;
    out->runtime_bytes = dev->runtime_bytes;
    out->process_bytes = hri_cuda_process_bytes(dev);
    return HR_OK;
}

/* ---- what doctor shows ---- */

typedef struct reporter {
    hri_report_fn *fn;
    void *user;
} reporter;

static void report_missing(void *user, const char *name, const char *feature) {
    const reporter *to = user;
    char text[HRI_CUDA_TEXT];
    snprintf(text, sizeof text, "the driver lacks %s; %s disabled", name, feature);
    to->fn(to->user, "cuda driver", HRI_FOUND_MISSING, "", text);
}

static const char *measure_text(int measure) {
    switch ((hri_cuda_measure)measure) {
    case HRI_CUDA_UNMEASURED:
        return "not opened yet";
    case HRI_CUDA_BY_PID:
        return "runtime and process memory as NVML reports them for this process";
    case HRI_CUDA_BY_OTHER_PID:
        return "runtime and process memory as NVML reports them (it lists this process under "
               "another PID)";
    case HRI_CUDA_BY_DIFFERENCE:
        return "NVML does not list this process: runtime is the growth in used memory when the "
               "device was opened; process memory is unknown";
    case HRI_CUDA_BY_DEVICE_IN_USE:
        return "without NVML: runtime is all memory in use when the device was opened, other "
               "processes included; process memory is unknown";
    }
    return "";
}

static void report_nvml(const hri_cuda_lib *lib, const reporter *to) {
    const hri_cuda_nvml *nvml = &lib->nvml;
    char version[80] = "", text[2 * HRI_CUDA_TEXT];
    if (!nvml->usable) {
        snprintf(text, sizeof text, "%s: process memory cannot be measured", nvml->why_not);
        to->fn(to->user, "nvml", nvml->found ? HRI_FOUND_BROKEN : HRI_FOUND_MISSING, "", text);
        return;
    }
    if (nvml->nvmlSystemGetDriverVersion(version, sizeof version) != NVML_SUCCESS) {
        version[0] = '\0';
    }
    to->fn(to->user, "nvml", HRI_FOUND_OK, version, "libnvidia-ml.so.1");
}

/* "peers of cuda:0": which others it exchanges gradients with directly. */
static void report_peers(const hri_cuda_lib *lib, int index, const reporter *to) {
    char name[48], text[2 * HRI_CUDA_TEXT] = "";
    int count = 0;
    snprintf(name, sizeof name, "peers of cuda:%d", index);
    for (int i = 0; i < lib->base.device_count; i++) {
        const size_t used = strlen(text);
        int can = 0;
        CUdevice device, peer;
        if (i != index && lib->driver.cuDeviceCanAccessPeer &&
            lib->driver.cuDeviceGet(&device, index) == CUDA_SUCCESS &&
            lib->driver.cuDeviceGet(&peer, i) == CUDA_SUCCESS &&
            lib->driver.cuDeviceCanAccessPeer(&can, device, peer) == CUDA_SUCCESS && can) {
            snprintf(text + used, sizeof text - used, "%scuda:%d", count++ ? ", " : "", i);
        }
    }
    to->fn(to->user, name, count ? HRI_FOUND_OK : HRI_FOUND_MISSING, "",
           count ? text : "none: gradients go between this GPU and others through host memory");
}

static void report(hri_lib *base, hri_report_fn *fn, void *user) {
    hri_cuda_lib *lib = (hri_cuda_lib *)base;
    reporter to = {fn, user};
    if (lib->switched_off) {
        fn(user, "cuda driver", HRI_FOUND_MISSING, "", "disabled by the caller; no CUDA devices");
        return;
    }
    char version[32] = "", text[2 * HRI_CUDA_TEXT];
    int number = 0;
    if (lib->driver.usable && lib->driver.cuDriverGetVersion(&number) == CUDA_SUCCESS) {
        snprintf(version, sizeof version, "%d.%d", number / 1000, number % 1000 / 10);
    }
    if (base->device_count == 0) {
        /* A driver on a machine where it sees no device is not a broken one. */
        const int broken = lib->driver.library && lib->init_result != CUDA_SUCCESS &&
                           lib->init_result != CUDA_ERROR_NO_DEVICE;
        snprintf(text, sizeof text, "%s: no CUDA devices", lib->driver.why_not);
        fn(user, "cuda driver", broken ? HRI_FOUND_BROKEN : HRI_FOUND_MISSING, version, text);
        return;
    }
    snprintf(text, sizeof text, "libcuda.so.1, %d device%s", base->device_count,
             hri_plural((uint64_t)base->device_count));
    fn(user, "cuda driver", HRI_FOUND_OK, version, text);
    hri_cuda_driver_each_missing(&lib->driver, report_missing, &to);
    report_nvml(lib, &to);
    hri_cuda_report_libraries(lib, fn, user);
    for (int i = 0; i < base->device_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "cuda:%d", i);
        fn(user, name, HRI_FOUND_OK, "", measure_text(atomic_load(&lib->measures[i])));
        if (base->device_count > 1) {
            report_peers(lib, i, &to);
        }
    }
}

const hri_backend hri_backend_cuda = {
    .abi = HRI_BACKEND_ABI,
    .name = "cuda",
    .can = HRI_CAN_COMPUTE | HRI_CAN_QUEUE,
    .kernels = &hri_kernels_cuda,
    .probe = probe,
    .unprobe = unprobe,
    .report = report,
    .describe = describe,
    .uuid = uuid,
    .open = open_device,
    .close = close_device,
    .info = info,
    .detail = detail,
    .let_read = hri_cuda_let_read,
    .is_linked = hri_cuda_is_linked,
    .pinned_create = hri_cuda_pinned_create,
    .pinned_destroy = hri_cuda_pinned_destroy,
    .queue_open = hri_cuda_queue_open,
    .queue_close = hri_cuda_queue_close,
    .queue_sync = hri_cuda_queue_sync,
    .event_open = hri_cuda_event_open,
    .event_close = hri_cuda_event_close,
    .event_mark = hri_cuda_event_mark,
    .event_wait = hri_cuda_event_wait,
    .event_elapsed = hri_cuda_event_elapsed,
    .copy = hri_cuda_copy,
    .fill = hri_cuda_fill,
};
