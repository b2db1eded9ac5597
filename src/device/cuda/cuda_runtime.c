/* What the device takes before any tensor (runtime_bytes), and what the outside sees of this process.
 *
 * The truth is NVML's list of processes.  NVML knows nothing of CUDA_VISIBLE_DEVICES, so a device is matched by UUID
 * or bus id, never by number.  In some containers NVML knows this process by another number, or shows none: the one
 * process that was not there before our context was made is then us; where even that fails, a difference of the
 * whole device stands in, and report() says so.
 *
 * The driver loads some things at first use (the fill kernel, staging buffers, channels of a stream), so every kind
 * of call is made once before the measurement: what is measured is what a training run will find. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "device/cuda/cuda_state.h"

void hri_cuda_nvml_match(hri_cuda_dev *dev) {
    const hri_cuda_nvml *nvml = &dev->lib->nvml;
    if (!nvml->usable) {
        return;
    }
    CUuuid uuid;
    if (dev->cu->cuDeviceGetUuid_v2 &&
        dev->cu->cuDeviceGetUuid_v2(&uuid, dev->device) == CUDA_SUCCESS) {
        static const char *const prefixes[] = {"GPU", "MIG"};
        for (int p = 0; p < 2 && !dev->nvml_device; p++) {
            char text[64];
            size_t used = (size_t)snprintf(text, sizeof text, "%s-", prefixes[p]);
            for (int i = 0; i < 16; i++) {
                const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
                used += (size_t)snprintf(text + used, sizeof text - used, "%s%02x", dash,
                                         (unsigned)(unsigned char)uuid.bytes[i]);
            }
            if (nvml->nvmlDeviceGetHandleByUUID(text, &dev->nvml_device) != NVML_SUCCESS) {
                dev->nvml_device = NULL;
            }
        }
    }
    char bus_id[32];
    if (!dev->nvml_device && dev->cu->cuDeviceGetPCIBusId &&
        dev->cu->cuDeviceGetPCIBusId(bus_id, sizeof bus_id, dev->device) == CUDA_SUCCESS &&
        nvml->nvmlDeviceGetHandleByPciBusId_v2(bus_id, &dev->nvml_device) != NVML_SUCCESS) {
        dev->nvml_device = NULL;
    }
}

/* The processes on the device; NULL when NVML does not tell.  To be freed. */
static nvmlProcessInfo_t *list_processes(hri_cuda_dev *dev, unsigned *out_count) {
    if (!dev->nvml_device) {
        return NULL;
    }
    unsigned room = 16;
    for (int attempt = 0; attempt < 8; attempt++) {
        nvmlProcessInfo_t *list = hri_calloc(room, sizeof *list);
        if (!list) {
            return NULL;
        }
        unsigned count = room;
        const nvmlReturn_t result =
            dev->lib->nvml.nvmlDeviceGetComputeRunningProcesses_v3(dev->nvml_device, &count, list);
        if (result == NVML_SUCCESS) {
            *out_count = count;
            return list;
        }
        hri_free(list);
        if (result != NVML_ERROR_INSUFFICIENT_SIZE) {
            return NULL;
        }
        room = count + 16; /* others may come in between */
    }
    return NULL;
}

/* The sum over the entries of one process (a process has one for each slice of a partitioned device). */
static uint64_t bytes_of(const nvmlProcessInfo_t *list, unsigned count, unsigned pid) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; i++) {
        if (list[i].pid == pid && list[i].usedGpuMemory != ~0ull) {
            sum += list[i].usedGpuMemory;
        }
    }
    return sum;
}

void hri_cuda_look_before(hri_cuda_dev *dev, hri_cuda_before *out) {
    memset(out, 0, sizeof *out);
    out->processes = list_processes(dev, &out->count);
    nvmlMemory_t memory;
    if (dev->nvml_device &&
        dev->lib->nvml.nvmlDeviceGetMemoryInfo(dev->nvml_device, &memory) == NVML_SUCCESS) {
        out->used_bytes = memory.used;
        out->known = 1;
    }
}

void hri_cuda_before_deinit(hri_cuda_before *before) {
    hri_free(before->processes);
    memset(before, 0, sizeof *before);
}

/* The only process with bytes that was not there before; 0 when there is none, or more than one. */
static unsigned only_new_pid(const hri_cuda_before *before, const nvmlProcessInfo_t *list,
                             unsigned count) {
    unsigned found = 0;
    for (unsigned i = 0; before->processes && i < count; i++) {
        int old = list[i].pid == found;
        for (unsigned k = 0; k < before->count && !old; k++) {
            old = before->processes[k].pid == list[i].pid;
        }
        if (old) {
            continue;
        }
        if (found) {
            return 0;
        }
        found = list[i].pid;
    }
    return found && bytes_of(list, count, found) ? found : 0;
}

/* Sets nvml_pid; gives the bytes of this process, 0 when NVML does not show it. */
static uint64_t find_self(hri_cuda_dev *dev, const hri_cuda_before *before) {
    unsigned count = 0;
    nvmlProcessInfo_t *list = list_processes(dev, &count);
    if (!list) {
        return 0;
    }
    const unsigned self = (unsigned)getpid();
    uint64_t bytes = bytes_of(list, count, self);
    dev->nvml_pid = bytes ? self : only_new_pid(before, list, count);
    if (!bytes && dev->nvml_pid) {
        bytes = bytes_of(list, count, dev->nvml_pid);
    }
    hri_free(list);
    return bytes;
}

void hri_cuda_measure_runtime(hri_cuda_dev *dev, const hri_cuda_before *before) {
    hri_cuda_measure measure;
    nvmlMemory_t memory;
    size_t free_bytes = 0, total_bytes = 0;
    const uint64_t process_bytes = find_self(dev, before);
    if (process_bytes) {
        dev->runtime_bytes = process_bytes;
        measure = dev->nvml_pid == (unsigned)getpid() ? HRI_CUDA_BY_PID : HRI_CUDA_BY_OTHER_PID;
    } else if (before->known &&
               dev->lib->nvml.nvmlDeviceGetMemoryInfo(dev->nvml_device, &memory) == NVML_SUCCESS) {
        dev->runtime_bytes =
            memory.used > before->used_bytes ? memory.used - before->used_bytes : 0;
        measure = HRI_CUDA_BY_DIFFERENCE;
    } else if (dev->cu->cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS) {
        /* The driver answers only once there is a context, so there is no "before" to subtract.  What others hold
         * is in the sum: too large, never too small. */
        dev->runtime_bytes = total_bytes - free_bytes;
        measure = HRI_CUDA_BY_DEVICE_IN_USE;
    } else {
        measure = HRI_CUDA_UNMEASURED;
    }
    atomic_store(&dev->lib->measures[dev->index], (int)measure);
}

uint64_t hri_cuda_free_bytes(hri_cuda_dev *dev) {
    nvmlMemory_t memory;
    if (!dev->nvml_device ||
        dev->lib->nvml.nvmlDeviceGetMemoryInfo(dev->nvml_device, &memory) != NVML_SUCCESS) {
        return 0;
    }
    return memory.free;
}

uint64_t hri_cuda_process_bytes(hri_cuda_dev *dev) {
    unsigned count = 0;
    nvmlProcessInfo_t *list = dev->nvml_pid ? list_processes(dev, &count) : NULL;
    const uint64_t bytes = list ? bytes_of(list, count, dev->nvml_pid) : 0;
    hri_free(list);
    return bytes;
}

/* Fills and copies in a page mapped at `at`, in every direction. */
static hr_status use_page(hri_cuda_dev *dev, hr_addr at) {
    hri_dev_queue *queue = NULL;
    hri_dev_event *event = NULL;
    unsigned char host[64] = {0};
    const hr_addr host_at = (hr_addr)(uintptr_t)host;
    hr_status status = hri_cuda_queue_open(&dev->base, &queue);
    if (status == HR_OK) {
        status = hri_cuda_event_open(&dev->base, &event);
    }
    if (status == HR_OK) {
        status = hri_cuda_fill(queue, at, 0, dev->base.source.page_bytes);
    }
    if (status == HR_OK) {
        status = hri_cuda_copy(queue, at, host_at, sizeof host);
    }
    if (status == HR_OK) {
        status = hri_cuda_copy(queue, at + sizeof host, at, sizeof host);
    }
    if (status == HR_OK) {
        status = hri_cuda_event_mark(event, queue);
    }
    if (status == HR_OK) {
        status = hri_cuda_copy(queue, host_at, at, sizeof host);
    }
    if (queue) {
        /* Always: `host` must not go while a copy into it runs. */
        const hr_status synced = hri_cuda_queue_sync(queue);
        status = status == HR_OK ? synced : status;
    }
    hri_cuda_event_close(event);
    hri_cuda_queue_close(queue);
    return status;
}

hr_status hri_cuda_warm_up(hri_cuda_dev *dev) {
    const hri_page_source *source = &dev->base.source;
    hr_addr at = 0;
    uint64_t page = 0;
    int mapped = 0;
    hr_status status = source->ops->reserve(source->self, source->page_bytes, &at);
    if (status == HR_OK) {
        status = source->ops->create(source->self, &page);
    }
    if (status == HR_OK) {
        status = source->ops->map(source->self, at, &page, 1);
        mapped = status == HR_OK;
    }
    if (status == HR_OK) {
        status = use_page(dev, at);
    }
    if (mapped) {
        hri_cuda_must(dev, "cuMemUnmap", dev->cu->cuMemUnmap(at, source->page_bytes));
    }
    if (page) {
        source->ops->destroy(source->self, page);
    }
    if (at) {
        source->ops->unreserve(source->self, at, source->page_bytes);
    }
    return status;
}
