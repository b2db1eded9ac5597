/* The null back end: a device of any size that has addresses but no memory, for planning and dry runs on hardware that
 * is not there.  Pages are counted, copies succeed and move nothing, reading an address is a fault.
 *
 * One device, null:0, of hr_ctx_options.null_bytes bytes; none when that is 0. */
#include <stdatomic.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "device/backend.h"

static const uint64_t page_bytes = UINT64_C(2) << 20;

extern const hri_backend hri_backend_null;

typedef struct null_lib {
    hri_lib lib;
    uint64_t total_bytes;
} null_lib;

typedef struct null_dev {
    hri_dev dev;
    _Atomic uint64_t next_address; /* never given out twice: there are 2^62 of them */
    _Atomic uint64_t next_page;
    _Atomic uint64_t page_count;
} null_dev;

static uint64_t total_of(const hri_lib *lib) {
    return ((const null_lib *)lib)->total_bytes;
}

static hr_status null_reserve(void *self, uint64_t bytes, hr_addr *out) {
    null_dev *dev = self;
    if (HRI_FAULT(RESERVE) || bytes > UINT64_C(1) << 60) {
        return HR_E_NOMEM_DEVICE;
    }
    *out = atomic_fetch_add(&dev->next_address, bytes);
    return HR_OK;
}

static void null_unreserve(void *self, hr_addr at, uint64_t bytes) {
    (void)self;
    (void)at;
    (void)bytes;
}

static hr_status null_create(void *self, uint64_t *out_page) {
    null_dev *dev = self;
    const uint64_t most = total_of(dev->dev.lib) / page_bytes;
    uint64_t count = atomic_load(&dev->page_count);
    if (HRI_FAULT(CREATE)) {
        return HR_E_NOMEM_DEVICE;
    }
    do {
        if (count >= most) {
            return HR_E_NOMEM_DEVICE;
        }
    } while (!atomic_compare_exchange_weak(&dev->page_count, &count, count + 1));
    *out_page = atomic_fetch_add(&dev->next_page, 1) + 1;
    return HR_OK;
}

static void null_destroy(void *self, uint64_t page) {
    (void)page;
    atomic_fetch_sub(&((null_dev *)self)->page_count, 1);
}

static hr_status null_map(void *self, hr_addr at, const uint64_t *pages, size_t count) {
    (void)self;
    (void)at;
    (void)pages;
    (void)count;
    return HRI_FAULT(MAP) ? HR_E_NOMEM_DEVICE : HR_OK;
}

static hr_status null_unmap(void *self, hr_addr at, size_t count) {
    (void)self;
    (void)at;
    (void)count;
    return HR_OK;
}

static const hri_source_ops source_ops = {
    .reserve = null_reserve,
    .unreserve = null_unreserve,
    .create = null_create,
    .destroy = null_destroy,
    .map = null_map,
    .unmap = null_unmap,
};

static hr_status null_probe(const hr_ctx_options *options, hri_log *log, hri_lib **out) {
    null_lib *lib = hri_calloc(1, sizeof *lib);
    if (!lib) {
        return HR_E_NOMEM_HOST;
    }
    lib->lib = (hri_lib){&hri_backend_null, log, options->null_bytes > 0};
    lib->total_bytes = options->null_bytes;
    *out = &lib->lib;
    return HR_OK;
}

static void null_unprobe(hri_lib *lib) {
    hri_free(lib);
}

static hr_status null_describe(hri_lib *lib, int index, hr_device_info *out) {
    snprintf(out->name, sizeof out->name, "null:%d", index);
    snprintf(out->backend, sizeof out->backend, "null");
    snprintf(out->description, sizeof out->description, "addresses only, for planning");
    out->total_bytes = out->free_bytes = total_of(lib);
    out->page_bytes = page_bytes;
    return HR_OK;
}

static hr_status null_open(hri_lib *lib, int index, hri_dev **out) {
    (void)index;
    null_dev *dev = HRI_FAULT(OPEN) ? NULL : hri_calloc(1, sizeof *dev);
    if (!dev) {
        return HR_E_NOMEM_HOST;
    }
    dev->dev.lib = lib;
    dev->dev.source = (hri_page_source){&source_ops, dev, page_bytes};
    atomic_store(&dev->next_address, UINT64_C(1) << 62);
    *out = &dev->dev;
    return HR_OK;
}

static void null_close(hri_dev *dev) {
    hri_free(dev);
}

static hr_status null_info(hri_dev *dev, hr_device_info *out) {
    const hr_status status = null_describe(dev->lib, 0, out);
    out->process_bytes = atomic_load(&((null_dev *)dev)->page_count) * page_bytes;
    out->free_bytes -= out->process_bytes;
    return status;
}

static hr_status null_pinned_create(hri_dev *dev, uint64_t bytes, void **out) {
    (void)dev;
    void *memory = HRI_FAULT(PINNED) ? NULL : hri_malloc(bytes);
    if (!memory) {
        return HR_E_NOMEM_HOST;
    }
    *out = memory;
    return HR_OK;
}

static void null_pinned_destroy(hri_dev *dev, void *memory) {
    (void)dev;
    hri_free(memory);
}

static hr_status null_queue_open(hri_dev *dev, hri_dev_queue **out) {
    hri_dev_queue *queue = HRI_FAULT(QUEUE) ? NULL : hri_calloc(1, sizeof *queue);
    if (!queue) {
        return HR_E_NOMEM_HOST;
    }
    queue->dev = dev;
    *out = queue;
    return HR_OK;
}

static void null_queue_close(hri_dev_queue *queue) {
    hri_free(queue);
}

static hr_status null_queue_sync(hri_dev_queue *queue) {
    (void)queue;
    return HR_OK;
}

static hr_status null_event_open(hri_dev *dev, hri_dev_event **out) {
    hri_dev_event *event = HRI_FAULT(QUEUE) ? NULL : hri_calloc(1, sizeof *event);
    if (!event) {
        return HR_E_NOMEM_HOST;
    }
    event->dev = dev;
    *out = event;
    return HR_OK;
}

static void null_event_close(hri_dev_event *event) {
    hri_free(event);
}

static hr_status null_event_on_queue(hri_dev_event *event, hri_dev_queue *queue) {
    (void)event;
    (void)queue;
    return HRI_FAULT(QUEUE) ? HR_E_DEVICE : HR_OK;
}

static hr_status null_event_elapsed(hri_dev_event *from, hri_dev_event *to, uint64_t *out_ns) {
    (void)from;
    (void)to;
    *out_ns = 0; /* nothing takes time where nothing happens */
    return HR_OK;
}

static hr_status null_copy(hri_dev_queue *queue, hr_addr to, hr_addr from, uint64_t bytes) {
    (void)queue;
    (void)to;
    (void)from;
    (void)bytes;
    return HRI_FAULT(COPY) ? HR_E_DEVICE : HR_OK;
}

static hr_status null_fill(hri_dev_queue *queue, hr_addr to, uint8_t value, uint64_t bytes) {
    (void)queue;
    (void)to;
    (void)value;
    (void)bytes;
    return HRI_FAULT(COPY) ? HR_E_DEVICE : HR_OK;
}

const hri_backend hri_backend_null = {
    .abi = HRI_BACKEND_ABI,
    .name = "null",
    .kernels = &hri_kernels_host,
    .probe = null_probe,
    .unprobe = null_unprobe,
    .describe = null_describe,
    .open = null_open,
    .close = null_close,
    .info = null_info,
    .pinned_create = null_pinned_create,
    .pinned_destroy = null_pinned_destroy,
    .queue_open = null_queue_open,
    .queue_close = null_queue_close,
    .queue_sync = null_queue_sync,
    .event_open = null_event_open,
    .event_close = null_event_close,
    .event_mark = null_event_on_queue,
    .event_wait = null_event_on_queue,
    .event_elapsed = null_event_elapsed,
    .copy = null_copy,
    .fill = null_fill,
};
