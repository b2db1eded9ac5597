/* The fake libnvidia-ml.so.1: the shared state seen from outside.  It takes no slot: an observer is no user.  It shows
 * every device, whatever CUDA_VISIBLE_DEVICES says, as the real one does. */
#include "fake.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct nvmlDevice_st {
    int device;
};

static struct nvmlDevice_st devices[FAKE_DEVICES];
static int inits; /* under the lock */
static pthread_mutex_t inits_lock = PTHREAD_MUTEX_INITIALIZER;

static int initialized(void) {
    pthread_mutex_lock(&inits_lock);
    const int yes = inits > 0;
    pthread_mutex_unlock(&inits_lock);
    return yes;
}

nvmlReturn_t nvmlInit_v2(void) {
    const char *fail = getenv("FAKECUDA_FAIL");
    if (fail && strstr(fail, "nvmlInit")) {
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    if (fake_state_open(0) != 0) {
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    pthread_mutex_lock(&inits_lock);
    for (int i = 0; i < FAKE_DEVICES; i++) {
        devices[i].device = i;
    }
    inits++;
    pthread_mutex_unlock(&inits_lock);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown(void) {
    pthread_mutex_lock(&inits_lock);
    const int was = inits;
    inits -= was > 0;
    pthread_mutex_unlock(&inits_lock);
    return was ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

const char *nvmlErrorString(nvmlReturn_t result) {
    switch ((int)result) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    default:
        return "Unknown Error";
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int size) {
    if (!initialized()) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (!version) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    const int length = snprintf(version, size, "580.0-fake");
    return length < (int)size ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    if (!initialized()) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (!count) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *count = (unsigned)fake_state_devices();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    if (!initialized()) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (!device || index >= fake_state_devices()) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *device = &devices[index];
    return NVML_SUCCESS;
}

static nvmlReturn_t find_device(const char *wanted, void (*name)(int, char *, size_t),
                                nvmlDevice_t *device) {
    if (!initialized()) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (!wanted || !device) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (int i = 0; i < (int)fake_state_devices(); i++) {
        char text[64];
        name(i, text, sizeof text);
        if (strcasecmp(text, wanted) == 0) {
            *device = &devices[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device) {
    return find_device(bus_id, fake_bus_id, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    return find_device(uuid, fake_uuid_text, device);
}

/* NVML_SUCCESS when `device` is one of ours. */
static nvmlReturn_t check_device(nvmlDevice_t device) {
    if (!initialized()) {
        return NVML_ERROR_UNINITIALIZED;
    }
    for (int i = 0; i < (int)fake_state_devices(); i++) {
        if (device == &devices[i]) {
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

FAKE_API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned int size);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned int size) {
    const nvmlReturn_t result = check_device(device);
    if (result == NVML_SUCCESS) {
        fake_uuid_text(device->device, out, size);
    }
    return result;
}

FAKE_API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned int size);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned int size) {
    const nvmlReturn_t result = check_device(device);
    if (result == NVML_SUCCESS) {
        snprintf(out, size, "Fake GPU %d", device->device);
    }
    return result;
}

/* FAKECUDA_KILL, as driver.c has it; the two functions that programs ask for memory are counted. */
enum { MEMORY_INFO, MEMORY_INFO_V2, COUNTED };
static const char *const counted_names[COUNTED] = {"nvmlDeviceGetMemoryInfo",
                                                   "nvmlDeviceGetMemoryInfo_v2"};
static _Atomic int64_t calls[COUNTED];

static void count(int which, int after) {
    const char *text = getenv("FAKECUDA_KILL");
    const size_t length = strlen(counted_names[which]);
    const int64_t pass = after ? calls[which] : ++calls[which];
    char *end;
    if (text && !strncmp(text, counted_names[which], length) && text[length] == ':' &&
        strtoll(text + length + 1, &end, 10) == pass && !strcmp(end, after ? "after" : "")) {
        kill(getpid(), SIGKILL);
    }
}

int64_t fakecuda_calls(const char *name) {
    for (int i = 0; i < COUNTED; i++) {
        if (!strcmp(name, counted_names[i])) {
            return calls[i];
        }
    }
    return -1;
}

static nvmlReturn_t memory_info(nvmlDevice_t device, nvmlMemory_t *memory) {
    const nvmlReturn_t result = check_device(device);
    if (result != NVML_SUCCESS || !memory) {
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    }
    memory->total = fake_state_capacity(device->device);
    memory->used = fake_state_used(device->device);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    count(MEMORY_INFO, 0);
    const nvmlReturn_t result = memory_info(device, memory);
    count(MEMORY_INFO, 1);
    return result;
}

FAKE_API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    nvmlMemory_t plain;
    count(MEMORY_INFO_V2, 0);
    const nvmlReturn_t result = !memory || memory->version != (sizeof *memory | 2u << 24)
                                    ? NVML_ERROR_INVALID_ARGUMENT
                                    : memory_info(device, &plain);
    if (result == NVML_SUCCESS) {
        *memory = (nvmlMemory_v2_t){.version = memory->version,
                                    .total = plain.total,
                                    .free = plain.free,
                                    .used = plain.used};
    }
    count(MEMORY_INFO_V2, 1);
    return result;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_t *processes) {
    const nvmlReturn_t result = check_device(device);
    if (result != NVML_SUCCESS || !count || (*count && !processes)) {
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    }
    const char *pids = getenv("FAKECUDA_NVML_PIDS");
    int64_t pid[FAKE_PROCESSES];
    uint64_t bytes[FAKE_PROCESSES];
    unsigned there = fake_state_processes(device->device, pid, bytes, FAKE_PROCESSES);
    if (pids && strcmp(pids, "hide") == 0) {
        there = 0;
    }
    const unsigned room = *count;
    *count = there;
    if (there > room) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    const int64_t shift = pids && strcmp(pids, "translate") == 0 ? 4000000 : 0;
    for (unsigned i = 0; i < there; i++) {
        processes[i] = (nvmlProcessInfo_t){.pid = (unsigned)(pid[i] + shift),
                                           .usedGpuMemory = bytes[i],
                                           .gpuInstanceId = ~0u,
                                           .computeInstanceId = ~0u};
    }
    return NVML_SUCCESS;
}
