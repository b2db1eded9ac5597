/* Start, lookup, and what the program sees: the budget in place of the card.
 *
 * cuMemGetInfo, cuDeviceTotalMem and NVML's memory info speak of the job's budget and of what the job has left of it, so
 * that frameworks which take a share of "the card" take a share of the budget.  Where the card itself has less left than the
 * budget, that is what is shown. */
#include <string.h>

#include "interpose/pools.h"

CUresult cuInit(unsigned int flags) {
    const CUresult result = HRI_CALL(cuInit, flags);
    if (result == CUDA_SUCCESS) {
        hri_start();
    }
    return result;
}

/* ---- cuGetProcAddress ---- */

static CUresult resolved(CUresult result, const char *symbol, void **out) {
    if (result == CUDA_SUCCESS && symbol && out && *out) {
        *out = hri_door_route(symbol, *out);
    }
    return result;
}

CUresult cuGetProcAddress(const char *symbol, void **out, int version, cuuint64_t flags) {
    return resolved(HRI_CALL(cuGetProcAddress, symbol, out, version, flags), symbol, out);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **out, int version, cuuint64_t flags,
                             int *found) {
    return resolved(HRI_CALL(cuGetProcAddress_v2, symbol, out, version, flags, found), symbol, out);
}

CUresult cuGetProcAddress_ptsz(const char *symbol, void **out, int version, cuuint64_t flags) {
    return resolved(HRI_CALL(cuGetProcAddress_ptsz, symbol, out, version, flags), symbol, out);
}

CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **out, int version, cuuint64_t flags,
                                  int *found) {
    return resolved(HRI_CALL(cuGetProcAddress_v2_ptsz, symbol, out, version, flags, found), symbol,
                    out);
}

/* ---- the view ---- */

/* Total and free of the job on this device, never more than the card's own. */
static void narrow(int device, uint64_t *total, uint64_t *left) {
    (void)hri_refresh(device);
    const hri_run_device *d = &hri_self.device[device];
    pthread_mutex_lock(&hri_self.lock);
    const uint64_t lease =
        d->granted_bytes > hri_held_bytes(d) ? d->granted_bytes - hri_held_bytes(d) : 0;
    const uint64_t limit = d->limit_bytes;
    uint64_t mine = lease + d->free_bytes;
    pthread_mutex_unlock(&hri_self.lock);
    *total = limit < *total ? limit : *total;
    mine = mine < *total ? mine : *total;
    *left = mine < *left ? mine : *left;
}

/* With --spill a program that takes a share of the card may use the host's memory too. */
static void add_spill(int device, uint64_t *total, uint64_t *left) {
    const uint64_t all = hri_self.spill_limit_bytes, used = hri_self.device[device].spilled_bytes;
    *total += all;
    *left += all > used ? all - used : 0;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    size_t left = 0, total = 0;
    const int device = hri_enter() ? hri_current_device() : -2;
    if (device < 0) {
        const CUresult result = HRI_CALL(cuMemGetInfo_v2, free_bytes, total_bytes);
        return device == -2 ? result : hri_leave(result);
    }
    const CUresult result = HRI_CALL(cuMemGetInfo_v2, &left, &total);
    if (result == CUDA_SUCCESS) {
        uint64_t budget = total, mine = left;
        hri_pools_settle(device, false, false);
        narrow(device, &budget, &mine);
        add_spill(device, &budget, &mine);
        if (free_bytes) { /* NULL crashed others */
            *free_bytes = mine;
        }
        if (total_bytes) {
            *total_bytes = budget;
        }
    }
    return hri_leave(result);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    const int governed = hri_enter();
    const CUresult result = HRI_CALL(cuDeviceTotalMem_v2, bytes, device);
    if (!governed) {
        return result;
    }
    if (result == CUDA_SUCCESS && hri_device_open(device) == 0) {
        const uint64_t limit = hri_self.device[device].limit_bytes;
        *bytes = (limit < *bytes ? limit : *bytes) + hri_self.spill_limit_bytes;
    }
    return hri_leave(result);
}

/* ---- NVML ---- */

/* The device of ours with this UUID ("GPU-..."), or -1. */
static int device_of(nvmlDevice_t device) {
    typedef nvmlReturn_t uuid_fn(nvmlDevice_t, char *, unsigned int);
    typedef CUresult count_fn(int *);
    static uuid_fn *get;
    char text[96] = "";
    if (!get) {
        get = (uuid_fn *)hri_nvml_function("nvmlDeviceGetUUID");
    }
    if (!get || get(device, text, sizeof text) != 0 || strncmp(text, "GPU-", 4) != 0) {
        return -1;
    }
    unsigned char uuid[16] = {0};
    int digits = 0;
    for (const char *at = text + 4; *at && digits < 32; at++) {
        const int value = *at >= '0' && *at <= '9'   ? *at - '0'
                          : *at >= 'a' && *at <= 'f' ? *at - 'a' + 10
                          : *at >= 'A' && *at <= 'F' ? *at - 'A' + 10
                                                     : -1;
        if (value >= 0) {
            uuid[digits / 2] = (unsigned char)(uuid[digits / 2] << 4 | value);
            digits++;
        }
    }
    count_fn *count_devices = (count_fn *)hri_driver_function("cuDeviceGetCount");
    int count = 0;
    if (!count_devices || count_devices(&count) != CUDA_SUCCESS) {
        return -1;
    }
    for (int i = 0; i < count && i < HRI_RUN_DEVICES; i++) {
        if (hri_device_open(i) == 0 && memcmp(hri_self.device[i].uuid, uuid, 16) == 0) {
            return i;
        }
    }
    return -1;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out) {
    const int governed = hri_enter();
    nvmlReturn_t result = HRI_CALL(nvmlDeviceGetMemoryInfo, device, out);
    if (!governed) {
        return result;
    }
    const int ours = result == 0 ? device_of(device) : -1;
    if (ours >= 0) {
        uint64_t total = out->total, left = out->free;
        narrow(ours, &total, &left);
        *out = (nvmlMemory_t){.total = total, .free = left, .used = total - left};
    }
    return hri_leave(result);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *out) {
    const int governed = hri_enter();
    nvmlReturn_t result = HRI_CALL(nvmlDeviceGetMemoryInfo_v2, device, out);
    if (!governed) {
        return result;
    }
    const int ours = result == 0 ? device_of(device) : -1;
    if (ours >= 0) {
        uint64_t total = out->total, left = out->free;
        narrow(ours, &total, &left);
        out->total = total;
        out->free = left;
        out->reserved = 0;
        out->used = total - left;
    }
    return hri_leave(result);
}
