/* See nvml.h. */
#include "govern/nvml.h"

#include <dlfcn.h>
#include <string.h>

#include "base/alloc.h"
#include "device/cuda/cuda_load.h"

typedef nvmlReturn_t uuid_fn(nvmlDevice_t device, char *out, unsigned int size);

struct hri_nvml_observer {
    hri_cuda_nvml nvml;
    uuid_fn *uuid, *name;                           /* name may be missing */
    nvmlProcessInfo_t list[HRI_OBSERVED_PROCESSES]; /* of the last look */
};

/* "GPU-xxxxxxxx-..." to its 16 bytes. */
static void parse_uuid(const char *text, unsigned char out[16]) {
    int digits = 0;
    memset(out, 0, 16);
    for (const char *at = strncmp(text, "GPU-", 4) ? text : text + 4; *at && digits < 32; at++) {
        const int value = *at >= '0' && *at <= '9'   ? *at - '0'
                          : *at >= 'a' && *at <= 'f' ? *at - 'a' + 10
                          : *at >= 'A' && *at <= 'F' ? *at - 'A' + 10
                                                     : -1;
        if (value >= 0) {
            out[digits / 2] = (unsigned char)(out[digits / 2] << 4 | value);
            digits++;
        }
    }
}

static int look_at_devices(void *user, hri_observed *out) {
    hri_nvml_observer *o = user;
    unsigned int count = 0;
    int found = 0;
    if (o->nvml.nvmlDeviceGetCount_v2(&count) != NVML_SUCCESS) {
        return 0;
    }
    for (unsigned int i = 0; i < count && found < HRI_OBSERVED_DEVICES; i++) {
        nvmlDevice_t device;
        nvmlMemory_t memory;
        char text[96] = "";
        if (o->nvml.nvmlDeviceGetHandleByIndex_v2(i, &device) == NVML_SUCCESS &&
            o->uuid(device, text, sizeof text) == NVML_SUCCESS &&
            o->nvml.nvmlDeviceGetMemoryInfo(device, &memory) == NVML_SUCCESS && memory.total) {
            parse_uuid(text, out[found].uuid);
            out[found].total_bytes = memory.total;
            out[found].used_bytes = memory.used;
            if (!o->name ||
                o->name(device, out[found].name, sizeof out[found].name) != NVML_SUCCESS) {
                out[found].name[0] = '\0';
            }
            found++;
        }
    }
    return found;
}

/* The handle of the device with this UUID. */
static int find_device(const hri_nvml_observer *o, const unsigned char uuid[16],
                       nvmlDevice_t *out) {
    unsigned int count = 0;
    if (o->nvml.nvmlDeviceGetCount_v2(&count) != NVML_SUCCESS) {
        return 0;
    }
    for (unsigned int i = 0; i < count; i++) {
        char text[96] = "";
        unsigned char bytes[16];
        if (o->nvml.nvmlDeviceGetHandleByIndex_v2(i, out) == NVML_SUCCESS &&
            o->uuid(*out, text, sizeof text) == NVML_SUCCESS) {
            parse_uuid(text, bytes);
            if (memcmp(bytes, uuid, 16) == 0) {
                return 1;
            }
        }
    }
    return 0;
}

static int look_at_processes(void *user, const unsigned char uuid[16], hri_observed_process *out) {
    hri_nvml_observer *o = user;
    nvmlProcessInfo_t *list = o->list;
    nvmlDevice_t device;
    unsigned int count = HRI_OBSERVED_PROCESSES;
    if (!find_device(o, uuid, &device) ||
        o->nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, list) != NVML_SUCCESS) {
        return -1;
    }
    for (unsigned int i = 0; i < count; i++) {
        if (list[i].usedGpuMemory == ~0ull) {
            return -1; /* not available: WSL, some containers */
        }
        out[i] = (hri_observed_process){.pid = list[i].pid, .bytes = list[i].usedGpuMemory};
    }
    return (int)count;
}

hr_status hri_nvml_observer_open(hri_nvml_observer **out, hri_prose *why) {
    hri_nvml_observer *o = hri_calloc(1, sizeof *o);
    if (!o) {
        return HR_E_NOMEM_HOST;
    }
    hri_cuda_nvml_load(&o->nvml);
    if (o->nvml.usable) {
        o->uuid = (uuid_fn *)dlsym(o->nvml.library, "nvmlDeviceGetUUID");
        o->name = (uuid_fn *)dlsym(o->nvml.library, "nvmlDeviceGetName");
    }
    if (!o->uuid) {
        const hr_status status =
            hri_prose_set(why, HR_E_UNSUPPORTED, "NVML cannot be used: %s",
                          o->nvml.usable ? "nvmlDeviceGetUUID is missing" : o->nvml.why_not);
        hri_nvml_observer_close(o);
        return status;
    }
    *out = o;
    return HR_OK;
}

void hri_nvml_observer_close(hri_nvml_observer *o) {
    if (o) {
        hri_cuda_nvml_unload(&o->nvml);
        hri_free(o);
    }
}

hri_observer hri_nvml_observer_of(hri_nvml_observer *o) {
    return (hri_observer){.user = o, .devices = look_at_devices, .processes = look_at_processes};
}
