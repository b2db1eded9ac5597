/* Memory of a CUDA device: pages (the hri_page_source of the device) and pinned host memory.
 *
 * A page is one cuMemCreate of the recommended granularity (2 MiB on every device so far); its number is the
 * driver's handle.  Pages are mapped one by one but made accessible by one cuMemSetAccess a run, which is the slowest
 * of these calls and costs about the same for a run as for a page.
 *
 * Unmapping: cuMemUnmap takes whole mappings only, one or several side by side, so a run of our pages goes in one
 * call, all or nothing.  It neither waits for queues nor keeps the memory alive for them: work that still uses the
 * addresses faults and the context is lost.  The caller has synchronised.  cuMemRelease gives the bytes back when the
 * last mapping is gone too; a page may be mapped at several addresses.
 *
 * Other devices that may read (hri_cuda_let_read) are named in the same cuMemSetAccess, so a page has them from its first
 * mapping on.
 *
 * Calls that give something back have no fault points: they fail on a lost device only, and then nothing is left to
 * save.  Left out on purpose: cuMemAlloc and the driver's own pools, which take memory that no account of ours
 * shows. */
#include <stdint.h>
#include "device/cuda/cuda_state.h"

static CUmemAllocationProp page_prop(const hri_cuda_dev *dev) {
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev->device},
    };
}

static hr_status source_reserve(void *self, uint64_t bytes, hr_addr *out) {
    hri_cuda_dev *dev = self;
    CUdeviceptr at = 0;
    int pushed;
    hr_status status = hri_cuda_enter(dev, &pushed);
    if (status != HR_OK) {
        return status;
    }
    const CUresult result =
        HRI_FAULT(RESERVE)
            ? CUDA_ERROR_OUT_OF_MEMORY
            : dev->cu->cuMemAddressReserve(&at, bytes, dev->base.source.page_bytes, 0, 0);
    status = hri_cuda_check(dev, "cuMemAddressReserve", result);
    hri_cuda_leave(dev, pushed);
    if (status == HR_OK) {
        *out = at;
    }
    return status;
}

static void source_unreserve(void *self, hr_addr at, uint64_t bytes) {
    hri_cuda_dev *dev = self;
    int pushed;
    if (hri_cuda_enter(dev, &pushed) != HR_OK) {
        return;
    }
    hri_cuda_must(dev, "cuMemAddressFree", dev->cu->cuMemAddressFree(at, bytes));
    hri_cuda_leave(dev, pushed);
}

static hr_status source_create(void *self, uint64_t *out_page) {
    hri_cuda_dev *dev = self;
    const CUmemAllocationProp prop = page_prop(dev);
    CUmemGenericAllocationHandle handle = 0;
    int pushed;
    hr_status status = hri_cuda_enter(dev, &pushed);
    if (status != HR_OK) {
        return status;
    }
    const CUresult result =
        HRI_FAULT(CREATE) ? CUDA_ERROR_OUT_OF_MEMORY
                          : dev->cu->cuMemCreate(&handle, dev->base.source.page_bytes, &prop, 0);
    status = hri_cuda_check(dev, "cuMemCreate", result);
    hri_cuda_leave(dev, pushed);
    if (status == HR_OK) {
        *out_page = handle;
    }
    return status;
}

static void source_destroy(void *self, uint64_t page) {
    hri_cuda_dev *dev = self;
    int pushed;
    if (hri_cuda_enter(dev, &pushed) != HR_OK) {
        return;
    }
    hri_cuda_must(dev, "cuMemRelease", dev->cu->cuMemRelease(page));
    hri_cuda_leave(dev, pushed);
}

static hr_status map_entered(hri_cuda_dev *dev, hr_addr at, const uint64_t *pages, size_t count) {
    const uint64_t page_bytes = dev->base.source.page_bytes;
    size_t mapped = 0;
    hr_status status = HR_OK;
    for (; mapped < count && status == HR_OK; mapped++) {
        const CUresult result = HRI_FAULT(MAP) ? CUDA_ERROR_OUT_OF_MEMORY
                                               : dev->cu->cuMemMap(at + mapped * page_bytes,
                                                                   page_bytes, 0, pages[mapped], 0);
        status = hri_cuda_check(dev, "cuMemMap", result);
        if (status != HR_OK) {
            break;
        }
    }
    if (status == HR_OK) {
        CUmemAccessDesc access[1 + HRI_CUDA_READERS];
        for (int i = 0; i <= dev->reader_count; i++) {
            access[i] = (CUmemAccessDesc){
                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                             .id = i ? dev->readers[i - 1] : dev->device},
                .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            };
        }
        const CUresult result = HRI_FAULT(MAP)
                                    ? CUDA_ERROR_OUT_OF_MEMORY
                                    : dev->cu->cuMemSetAccess(at, count * page_bytes, access,
                                                              (size_t)dev->reader_count + 1);
        status = hri_cuda_check(dev, "cuMemSetAccess", result);
    }
    if (status != HR_OK && mapped > 0) {
        /* The words of the first failure stay; a second one here means a lost device anyway. */
        (void)dev->cu->cuMemUnmap(at, mapped * page_bytes);
    }
    return status;
}

static hr_status source_map(void *self, hr_addr at, const uint64_t *pages, size_t count) {
    hri_cuda_dev *dev = self;
    if (count == 0) {
        return HR_OK;
    }
    int pushed;
    hr_status status = hri_cuda_enter(dev, &pushed);
    if (status == HR_OK) {
        status = map_entered(dev, at, pages, count);
        hri_cuda_leave(dev, pushed);
    }
    return status;
}

static hr_status source_unmap(void *self, hr_addr at, size_t count) {
    hri_cuda_dev *dev = self;
    if (count == 0) {
        return HR_OK;
    }
    int pushed;
    hr_status status = hri_cuda_enter(dev, &pushed);
    if (status != HR_OK) {
        return status;
    }
    status = hri_cuda_check(dev, "cuMemUnmap",
                            dev->cu->cuMemUnmap(at, count * dev->base.source.page_bytes));
    hri_cuda_leave(dev, pushed);
    return status;
}

static const hri_source_ops source_ops = {
    .reserve = source_reserve,
    .unreserve = source_unreserve,
    .create = source_create,
    .destroy = source_destroy,
    .map = source_map,
    .unmap = source_unmap,
};

hr_status hri_cuda_memory_init(hri_cuda_dev *dev) {
    const CUmemAllocationProp prop = page_prop(dev);
    int supported = 0;
    size_t page_bytes = 0;
    hr_status status = hri_cuda_check(
        dev, "cuDeviceGetAttribute",
        dev->cu->cuDeviceGetAttribute(
            &supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, dev->device));
    if (status == HR_OK && !supported) {
        status = hri_cuda_check(dev, "virtual memory management", CUDA_ERROR_NOT_SUPPORTED);
    }
    if (status == HR_OK) {
        status = hri_cuda_check(dev, "cuMemGetAllocationGranularity",
                                dev->cu->cuMemGetAllocationGranularity(
                                    &page_bytes, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    }
    if (status == HR_OK && (page_bytes < 4096 || (page_bytes & (page_bytes - 1)) != 0)) {
        status = hri_cuda_check(dev, "memory granularity", CUDA_ERROR_NOT_SUPPORTED);
    }
    if (status == HR_OK) {
        dev->base.source =
            (hri_page_source){.ops = &source_ops, .self = dev, .page_bytes = page_bytes};
    }
    return status;
}

/* Pages of cuMemCreate are opened to other devices by cuMemSetAccess; cuCtxEnablePeerAccess is for other memory. */
hr_status hri_cuda_let_read(hri_dev *base, hri_dev *reader_base) {
    hri_cuda_dev *dev = (hri_cuda_dev *)base;
    const CUdevice reader = ((hri_cuda_dev *)reader_base)->device;
    int can = 0;
    for (int i = 0; i < dev->reader_count; i++) {
        if (dev->readers[i] == reader) {
            return HR_OK;
        }
    }
    if (!dev->cu->cuDeviceCanAccessPeer || dev->reader_count == HRI_CUDA_READERS) {
        return HR_E_UNSUPPORTED;
    }
    const hr_status status = hri_cuda_check(
        dev, "cuDeviceCanAccessPeer", dev->cu->cuDeviceCanAccessPeer(&can, reader, dev->device));
    if (status != HR_OK || !can) {
        return status != HR_OK ? status : HR_E_UNSUPPORTED;
    }
    dev->readers[dev->reader_count++] = reader;
    return HR_OK;
}

/* Atomics reach another device over NVLink, not over PCIe. */
int hri_cuda_is_linked(hri_dev *base, hri_dev *peer) {
    const hri_cuda_dev *dev = (hri_cuda_dev *)base;
    int value = 0;
    return dev->cu->cuDeviceGetP2PAttribute &&
           dev->cu->cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                                            dev->device,
                                            ((hri_cuda_dev *)peer)->device) == CUDA_SUCCESS &&
           value;
}

hr_status hri_cuda_pinned_create(hri_dev *base, uint64_t bytes, void **out) {
    hri_cuda_dev *dev = (hri_cuda_dev *)base;
    if (!dev->cu->cuMemHostAlloc || !dev->cu->cuMemFreeHost) {
        return hri_cuda_check(dev, "cuMemHostAlloc", CUDA_ERROR_NOT_SUPPORTED);
    }
    void *memory = NULL;
    int pushed;
    hr_status status = hri_cuda_enter(dev, &pushed);
    if (status != HR_OK) {
        return status;
    }
    const CUresult result = HRI_FAULT(PINNED)
                                ? CUDA_ERROR_OUT_OF_MEMORY
                                : dev->cu->cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
    status = hri_cuda_check(dev, "cuMemHostAlloc", result);
    hri_cuda_leave(dev, pushed);
    if (status == HR_E_NOMEM_DEVICE) {
        return HR_E_NOMEM_HOST; /* it is the host's memory that has run out */
    }
    if (status == HR_OK) {
        *out = memory;
    }
    return status;
}

void hri_cuda_pinned_destroy(hri_dev *base, void *memory) {
    hri_cuda_dev *dev = (hri_cuda_dev *)base;
    int pushed;
    if (!memory || hri_cuda_enter(dev, &pushed) != HR_OK) {
        return;
    }
    hri_cuda_must(dev, "cuMemFreeHost", dev->cu->cuMemFreeHost(memory));
    hri_cuda_leave(dev, pushed);
}
