/* The reference back end: the machine itself.  Queues are ordered by doing each thing at once; that is the plainest
 * meaning of the contract, and what the other back ends are compared with.  Pinned memory is ordinary memory. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/processor.h"
#include "device/host/host.h"

static const uint64_t page_bytes = UINT64_C(2) << 20;

typedef struct host_event {
    hri_dev_event event;
    uint64_t marked_ns; /* 0: never */
} host_event;

static hr_status host_probe(const hr_ctx_options *options, hri_log *log, hri_lib **out) {
    (void)options;
    hri_lib *lib = hri_calloc(1, sizeof *lib);
    if (!lib) {
        return HR_E_NOMEM_HOST;
    }
    lib->backend = &hri_backend_host;
    lib->log = log;
    lib->device_count = 1;
    *out = lib;
    return HR_OK;
}

static void host_unprobe(hri_lib *lib) {
    hri_free(lib);
}

/* "8 x Arm Neoverse-V1": the model where the kernel tells it, else the architecture. */
static void describe_cpu(char *out, size_t size) {
    char model[49];
    hri_processor_name("", model, sizeof model);
#if defined(__aarch64__)
    const char *arch = "arm64 processor";
#elif defined(__x86_64__)
    const char *arch = "x86-64 processor";
#else
    const char *arch = "processor";
#endif
    snprintf(out, size, "%ld x %s", sysconf(_SC_NPROCESSORS_ONLN), model[0] ? model : arch);
}

static hr_status host_describe(hri_lib *lib, int index, hr_device_info *out) {
    (void)lib;
    (void)index;
    snprintf(out->name, sizeof out->name, "host");
    snprintf(out->backend, sizeof out->backend, "host");
    describe_cpu(out->description, sizeof out->description);
    hri_host_memory(&out->total_bytes, &out->free_bytes);
    out->page_bytes = page_bytes;
    out->process_bytes = hri_host_resident_bytes();
    return HR_OK;
}

static void host_report(hri_lib *lib, hri_report_fn *fn, void *user) {
    uint64_t total, left;
    char text[128], a[32], b[32];
    (void)lib;
    hri_host_memory(&total, &left);
    snprintf(text, sizeof text,
             "%s in total, %s available (limits of cgroups and ulimit -v included)",
             hr_bytes_print(total, a, sizeof a), hr_bytes_print(left, b, sizeof b));
    fn(user, "host memory", HRI_FOUND_OK, "", text);
}

static hr_status host_open(hri_lib *lib, int index, hri_dev **out) {
    (void)index;
    hri_host_dev *dev = hri_calloc(1, sizeof *dev);
    if (!dev) {
        return HR_E_NOMEM_HOST;
    }
    dev->dev.lib = lib;
    dev->dev.source = (hri_page_source){&hri_host_source_ops, dev, page_bytes};
    dev->runtime_bytes = hri_host_resident_bytes();
    const hr_status status = hri_host_pages_init(dev);
    if (status != HR_OK) {
        hri_free(dev);
        return status;
    }
    pthread_mutex_init(&dev->mutex, NULL);
    *out = &dev->dev;
    return HR_OK;
}

static void host_close(hri_dev *base) {
    hri_host_dev *dev = (hri_host_dev *)base;
    hri_host_pages_deinit(dev);
    pthread_mutex_destroy(&dev->mutex);
    hri_free(dev);
}

static hr_status host_info(hri_dev *base, hr_device_info *out) {
    const hr_status status = host_describe(base->lib, 0, out);
    out->runtime_bytes = ((hri_host_dev *)base)->runtime_bytes;
    return status;
}

static void host_detail(hri_dev *base, char *buf, size_t size) {
    hri_host_dev *dev = (hri_host_dev *)base;
    pthread_mutex_lock(&dev->mutex);
    if (dev->last_call) {
        snprintf(buf, size, "%s: %s", dev->last_call, strerror(dev->last_errno));
    } else if (size > 0) {
        buf[0] = '\0';
    }
    pthread_mutex_unlock(&dev->mutex);
}

static hr_status host_pinned_create(hri_dev *dev, uint64_t bytes, void **out) {
    (void)dev;
    void *memory = HRI_FAULT(PINNED) ? NULL : hri_malloc(bytes);
    if (!memory) {
        return HR_E_NOMEM_HOST;
    }
    *out = memory;
    return HR_OK;
}

static void host_pinned_destroy(hri_dev *dev, void *memory) {
    (void)dev;
    hri_free(memory);
}

static hr_status host_queue_open(hri_dev *dev, hri_dev_queue **out) {
    hri_dev_queue *queue = HRI_FAULT(QUEUE) ? NULL : hri_calloc(1, sizeof *queue);
    if (!queue) {
        return HR_E_NOMEM_HOST;
    }
    queue->dev = dev;
    *out = queue;
    return HR_OK;
}

static void host_queue_close(hri_dev_queue *queue) {
    hri_free(queue);
}

static hr_status host_queue_sync(hri_dev_queue *queue) {
    (void)queue;
    return HR_OK;
}

static hr_status host_event_open(hri_dev *dev, hri_dev_event **out) {
    host_event *event = HRI_FAULT(QUEUE) ? NULL : hri_calloc(1, sizeof *event);
    if (!event) {
        return HR_E_NOMEM_HOST;
    }
    event->event.dev = dev;
    *out = &event->event;
    return HR_OK;
}

static void host_event_close(hri_dev_event *event) {
    hri_free(event);
}

static hr_status host_event_mark(hri_dev_event *event, hri_dev_queue *queue) {
    (void)queue;
    if (HRI_FAULT(QUEUE)) {
        return HR_E_DEVICE;
    }
    ((host_event *)event)->marked_ns = hri_clock_ns();
    return HR_OK;
}

static hr_status host_event_wait(hri_dev_event *event, hri_dev_queue *queue) {
    (void)event; /* whatever was marked has been done already */
    (void)queue;
    return HRI_FAULT(QUEUE) ? HR_E_DEVICE : HR_OK;
}

static hr_status host_event_elapsed(hri_dev_event *from, hri_dev_event *to, uint64_t *out_ns) {
    const uint64_t a = ((host_event *)from)->marked_ns, b = ((host_event *)to)->marked_ns;
    if (a == 0 || b == 0) {
        return HR_E_AGAIN;
    }
    *out_ns = b > a ? b - a : 0;
    return HR_OK;
}

static hr_status host_copy(hri_dev_queue *queue, hr_addr to, hr_addr from, uint64_t bytes) {
    (void)queue;
    if (HRI_FAULT(COPY)) {
        return HR_E_DEVICE;
    }
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return HR_OK;
}

static hr_status host_fill(hri_dev_queue *queue, hr_addr to, uint8_t value, uint64_t bytes) {
    (void)queue;
    if (HRI_FAULT(COPY)) {
        return HR_E_DEVICE;
    }
    memset((void *)(uintptr_t)to, value, bytes);
    return HR_OK;
}

const hri_backend hri_backend_host = {
    .abi = HRI_BACKEND_ABI,
    .name = "host",
    .can = HRI_CAN_COMPUTE | HRI_CAN_POINT,
    .kernels = &hri_kernels_host,
    .probe = host_probe,
    .unprobe = host_unprobe,
    .report = host_report,
    .describe = host_describe,
    .open = host_open,
    .close = host_close,
    .info = host_info,
    .detail = host_detail,
    .expect = hri_host_expect,
    .pinned_create = host_pinned_create,
    .pinned_destroy = host_pinned_destroy,
    .queue_open = host_queue_open,
    .queue_close = host_queue_close,
    .queue_sync = host_queue_sync,
    .event_open = host_event_open,
    .event_close = host_event_close,
    .event_mark = host_event_mark,
    .event_wait = host_event_wait,
    .event_elapsed = host_event_elapsed,
    .copy = host_copy,
    .fill = host_fill,
};
