/* The front of the fake libcuda.so.1: the exported functions (generated), the failure schedule, initialisation and
 * devices.  As in the real driver, nothing works before cuInit, nor in a child forked after it. */
#include "fake.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_changed = PTHREAD_COND_INITIALIZER;
fake_counts fake_live;

static _Atomic pid_t ready_in; /* the process that has called cuInit; 0: none */
static int visible[FAKE_DEVICES], visible_count;

/* ---- the failure schedule ---- */

enum {
#define HRI_CU_FN(NEED, NAME, FEATURE, PARAMETERS, ARGUMENTS) INDEX_##NAME,
#include "fake_api.def"
#undef HRI_CU_FN
    FUNCTIONS
};

static const char *const names[FUNCTIONS] = {
#define HRI_CU_FN(NEED, NAME, FEATURE, PARAMETERS, ARGUMENTS) #NAME,
#include "fake_api.def"
#undef HRI_CU_FN
};

typedef struct failure {
    uint64_t nth; /* 0: never */
    int for_ever;
    CUresult result;
} failure;

static failure failures[FUNCTIONS];
static _Atomic uint64_t calls[FUNCTIONS];
static pthread_once_t schedule_once = PTHREAD_ONCE_INIT;

/* "cuMemcpyDtoD" finds cuMemcpyDtoD_v2 where there is none of that very name. */
static int index_of(const char *name, size_t length) {
    int second = -1;
    for (int i = 0; i < FUNCTIONS; i++) {
        const char *rest = strncmp(names[i], name, length) == 0 ? names[i] + length : "?";
        if (*rest == '\0') {
            return i;
        }
        second = strcmp(rest, "_v2") == 0 ? i : second;
    }
    return second;
}

static CUresult usual_failure(int index) {
    switch (index) {
    case INDEX_cuDevicePrimaryCtxRetain:
    case INDEX_cuMemAddressReserve:
    case INDEX_cuMemCreate:
    case INDEX_cuMemMap:
    case INDEX_cuMemHostAlloc:
    case INDEX_cuMemAlloc_v2:
    case INDEX_cuMemAllocAsync:
    case INDEX_cuStreamCreate:
    case INDEX_cuEventCreate:
    case INDEX_cuModuleLoadData:
    case INDEX_cuGraphInstantiateWithFlags:
    case INDEX_cuGraphUpload:
        return CUDA_ERROR_OUT_OF_MEMORY;
    default:
        return CUDA_ERROR_UNKNOWN;
    }
}

static void parse_schedule(const char *at) {
    while (at && *at) {
        const size_t length = strcspn(at, ":,");
        const int index = index_of(at, length);
        if (at[length] == ':' && index >= 0) {
            char *end;
            failure *f = &failures[index];
            f->nth = strtoull(at + length + 1, &end, 10);
            f->for_ever = *end == '+';
            end += *end == '+';
            f->result = *end == '=' ? (CUresult)strtol(end + 1, NULL, 10) : usual_failure(index);
        }
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
}

static int kill_index = -1, kill_after;
static uint64_t kill_nth;

static void read_schedule(void) {
    const char *kill_at = getenv("FAKECUDA_KILL");
    parse_schedule(getenv("FAKECUDA_FAIL"));
    if (kill_at && strchr(kill_at, ':')) {
        char *end;
        kill_nth = strtoull(strchr(kill_at, ':') + 1, &end, 10);
        kill_after = strcmp(end, "after") == 0;
        kill_index = index_of(kill_at, strcspn(kill_at, ":"));
    }
}

static void die_here(int index, int after) {
    if (index == kill_index && after == kill_after && atomic_load(&calls[index]) == kill_nth) {
        kill(getpid(), SIGKILL);
    }
}

/* What stands before every call. */
static CUresult before_call(int index) {
    pthread_once(&schedule_once, read_schedule);
    const uint64_t pass = atomic_fetch_add(&calls[index], 1) + 1;
    die_here(index, 0);
    const failure *f = &failures[index];
    if (f->nth && (pass == f->nth || (f->for_ever && pass > f->nth))) {
        return f->result;
    }
    const int any_time = index == INDEX_cuInit || index == INDEX_cuGetErrorName ||
                         index == INDEX_cuGetErrorString || index == INDEX_cuDriverGetVersion ||
                         index == INDEX_cuGetProcAddress || index == INDEX_cuGetProcAddress_v2 ||
                         index == INDEX_cuGetProcAddress_ptsz ||
                         index == INDEX_cuGetProcAddress_v2_ptsz;
    if (!any_time && atomic_load(&ready_in) != getpid()) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    return CUDA_SUCCESS;
}

/* A sync that is told to fail waits all the same: on a real device too, nothing runs on behind a failed one. */
#define HRI_CU_FN(NEED, NAME, FEATURE, PARAMETERS, ARGUMENTS)                                      \
    CUresult NAME PARAMETERS {                                                                     \
        const CUresult refused = before_call(INDEX_##NAME);                                        \
        if (refused == CUDA_SUCCESS || INDEX_##NAME == INDEX_cuStreamSynchronize) {                \
            const CUresult result = fake_##NAME ARGUMENTS;                                         \
            die_here(INDEX_##NAME, 1);                                                             \
            return refused != CUDA_SUCCESS ? refused : result;                                     \
        }                                                                                          \
        return refused;                                                                            \
    }
#include "fake_api.def"
#undef HRI_CU_FN

/* ---- for tests ---- */

uint64_t fakecuda_used_bytes(int device) {
    return fake_state_used(device);
}

uint64_t fakecuda_peak_bytes(int device, int reset) {
    return fake_state_peak(device, reset);
}

uint64_t fakecuda_refused(int device) {
    return fake_state_refused(device);
}

uint64_t fakecuda_process_peak(int device) {
    return fake_state_process_peak(device);
}

uint64_t fakecuda_host_bytes(int unused) {
    (void)unused;
    return fake_state_host_used();
}

uint64_t fakecuda_host_peak(int unused) {
    (void)unused;
    return fake_state_host_peak();
}

int fakecuda_take(int device, uint64_t bytes) {
    return fake_state_take(device, bytes);
}

void fakecuda_schedule(const char *text) {
    pthread_once(&schedule_once, read_schedule);
    for (int i = 0; i < FUNCTIONS; i++) {
        failures[i] = (failure){0};
        atomic_store(&calls[i], 0);
    }
    parse_schedule(text);
}

int64_t fakecuda_calls(const char *name) {
    int64_t all = 0;
    for (int i = 0; i < FUNCTIONS && !*name; i++) {
        all += (int64_t)atomic_load(&calls[i]);
    }
    if (!*name) {
        return all;
    }
    const int index = index_of(name, strlen(name));
    return index < 0 ? -1 : (int64_t)atomic_load(&calls[index]);
}

int64_t fakecuda_report(char *buf, size_t size) {
    pthread_mutex_lock(&fake_lock);
    const fake_counts live = fake_live;
    pthread_mutex_unlock(&fake_lock);
    const int64_t things = live.reservations + live.handles + live.mappings + live.pinned +
                           live.streams + live.events + live.modules + live.graphs;
    if (size) {
        buf[0] = '\0';
    }
    if (things) {
        snprintf(buf, size,
                 "left: %lld reservations, %lld handles, %lld mappings, %lld pinned, %lld streams, "
                 "%lld events, %lld modules, %lld graphs",
                 (long long)live.reservations, (long long)live.handles, (long long)live.mappings,
                 (long long)live.pinned, (long long)live.streams, (long long)live.events,
                 (long long)live.modules, (long long)live.graphs);
    }
    return things;
}

__attribute__((destructor)) static void at_end(void) {
    const char *path = getenv("FAKECUDA_REPORT");
    if (atomic_load(&ready_in) != getpid()) {
        return;
    }
    FILE *file = path && *path ? fopen(path, "w") : NULL;
    if (file) {
        char text[256];
        const int64_t things = fakecuda_report(text, sizeof text);
        fprintf(file, "%s\n", things ? text : "nothing left");
        for (int i = 0; i < (int)fake_state_devices(); i++) {
            fprintf(file, "device %d: peak %llu\n", i, (unsigned long long)fake_state_peak(i, 0));
        }
        for (int i = 0; i < FUNCTIONS; i++) {
            const uint64_t count = atomic_load(&calls[i]);
            if (count) {
                fprintf(file, "%s: %llu\n", names[i], (unsigned long long)count);
            }
        }
        fclose(file);
    }
    fake_state_leave();
}

/* ---- initialisation and devices ---- */

static int device_named(const char *text, size_t length) {
    char *end;
    if (strncmp(text, "GPU-", 4) == 0) {
        for (int i = 0; i < (int)fake_state_devices(); i++) {
            char uuid[64];
            fake_uuid_text(i, uuid, sizeof uuid);
            if (strncmp(uuid, text, length) == 0) {
                return i;
            }
        }
        return -1;
    }
    const long number = strtol(text, &end, 10);
    return end != text && number >= 0 && number < (long)fake_state_devices() ? (int)number : -1;
}

static void find_visible(void) {
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    visible_count = 0;
    if (!list) {
        for (; visible_count < (int)fake_state_devices(); visible_count++) {
            visible[visible_count] = visible_count;
        }
        return;
    }
    while (*list && visible_count < FAKE_DEVICES) {
        const size_t length = strcspn(list, ",");
        const int device = device_named(list, length);
        if (device < 0) {
            return;
        }
        for (int i = 0; i < visible_count; i++) {
            if (visible[i] == device) { /* the real driver then shows none */
                visible_count = 0;
                return;
            }
        }
        visible[visible_count++] = device;
        list += length + (list[length] == ',');
    }
}

CUresult fake_cuInit(unsigned int flags) {
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&fake_lock);
    if (atomic_load(&ready_in) == 0) {
        if (fake_state_open(1) != 0) {
            result = CUDA_ERROR_UNKNOWN;
        } else {
            find_visible();
            if (visible_count == 0) {
                fake_state_leave();
                result = CUDA_ERROR_NO_DEVICE;
            } else {
                atomic_store(&ready_in, getpid());
            }
        }
    } else if (atomic_load(&ready_in) != getpid()) {
        result = CUDA_ERROR_NOT_INITIALIZED; /* a child forked after cuInit cannot use CUDA */
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

int fake_version(void) {
    const char *text = getenv("FAKECUDA_VERSION");
    char *end = NULL;
    const long major = text ? strtol(text, &end, 10) : 13;
    const long minor = end && *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    return (int)(major * 1000 + minor * 10);
}

CUresult fake_cuDriverGetVersion(int *version) {
    if (!version) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *version = fake_version();
    return CUDA_SUCCESS;
}

/* X(NAME, "text") for the errors that the fake driver gives. */
#define ERRORS(X)                                                                                  \
    X(CUDA_SUCCESS, "no error")                                                                    \
    X(CUDA_ERROR_INVALID_VALUE, "invalid argument")                                                \
    X(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                                   \
    X(CUDA_ERROR_NOT_INITIALIZED, "initialization error")                                          \
    X(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")                                  \
    X(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                                         \
    X(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid")                                  \
    X(CUDA_ERROR_NOT_FOUND, "named symbol not found")                                              \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch")               \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address")                                         \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing")   \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,                                                       \
      "operation failed due to a previous error during capture")                                   \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture was not initiated in this stream")         \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work")                    \
    X(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")                                        \
    X(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")                                        \
    X(CUDA_ERROR_NOT_READY, "device not ready")                                                    \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")                      \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")                                     \
    X(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")                                      \
    X(CUDA_ERROR_NOT_SUPPORTED, "operation not supported")                                         \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "system has unsupported display driver / cuda driver")    \
    X(CUDA_ERROR_UNKNOWN, "unknown error")

CUresult fake_cuGetErrorName(CUresult error, const char **text) {
    switch ((int)error) {
#define CASE(NAME, TEXT)                                                                           \
    case NAME:                                                                                     \
        *text = #NAME;                                                                             \
        return CUDA_SUCCESS;
        ERRORS(CASE)
#undef CASE
    default:
        *text = NULL;
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult fake_cuGetErrorString(CUresult error, const char **text) {
    switch ((int)error) {
#define CASE(NAME, TEXT)                                                                           \
    case NAME:                                                                                     \
        *text = TEXT;                                                                              \
        return CUDA_SUCCESS;
        ERRORS(CASE)
#undef CASE
    default:
        *text = NULL;
        return CUDA_ERROR_INVALID_VALUE;
    }
}

int fake_ordinal_of(int device) {
    for (int i = 0; i < visible_count; i++) {
        if (visible[i] == device) {
            return i;
        }
    }
    return -1;
}

int fake_device_of(CUdevice ordinal) {
    return ordinal >= 0 && ordinal < visible_count ? visible[ordinal] : -1;
}

CUresult fake_cuDeviceGetCount(int *count) {
    if (!count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *count = visible_count;
    return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGet(CUdevice *device, int ordinal) {
    if (!device) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (fake_device_of(ordinal) < 0) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGetName(char *name, int size, CUdevice device) {
    if (!name || size <= 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (fake_device_of(device) < 0) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    const char *model = getenv("FAKECUDA_MODEL");
    if (model && *model) {
        snprintf(name, (size_t)size, "%s", model);
    } else {
        snprintf(name, (size_t)size, "Fake GPU %d", fake_device_of(device));
    }
    return CUDA_SUCCESS;
}

CUresult fake_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    if (!bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (fake_device_of(device) < 0) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *bytes = fake_state_capacity(fake_device_of(device));
    return CUDA_SUCCESS;
}

static int capability(void) {
    const char *text = getenv("FAKECUDA_COMPUTE");
    return text && strlen(text) == 3 ? (text[0] - '0') * 10 + text[2] - '0' : 90;
}

CUresult fake_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    if (!value) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (fake_device_of(device) < 0) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = capability() / 10;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = capability() % 10;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = FAKE_PROCESSORS; /* few, so that loops over a grid run more than once */
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = FAKE_SHARED_MAX;
        return CUDA_SUCCESS;
    case FAKE_ATTRIBUTE_THREADS_PER_PROCESSOR:
        *value = FAKE_THREADS;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        *value = 1;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult fake_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    if (!uuid) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (fake_device_of(device) < 0) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    unsigned char bytes[16];
    fake_uuid(fake_device_of(device), bytes);
    memcpy(uuid->bytes, bytes, sizeof bytes);
    return CUDA_SUCCESS;
}

CUresult fake_cuDeviceGetPCIBusId(char *id, int size, CUdevice device) {
    if (!id || size <= 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (fake_device_of(device) < 0) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    fake_bus_id(fake_device_of(device), id, (size_t)size);
    return CUDA_SUCCESS;
}
