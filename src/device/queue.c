/* Queues, events, copies and pinned memory: arguments are checked here, once for all back ends. */
#include "base/alloc.h"
#include "device/device.h"

struct hr_queue {
    hr_device *device;
    hri_dev_queue *queue;
};

struct hr_event {
    hr_device *device;
    hri_dev_event *event;
};

hri_dev_queue *hri_queue_native(const hr_queue *queue) {
    return queue->queue;
}

static const hri_backend *backend_of(const hr_device *device) {
    return device->lib->backend;
}

static hr_status fail(hr_device *device, hr_status status, const char *what) {
    char detail[256] = "";
    if (device->dev && backend_of(device)->detail) {
        backend_of(device)->detail(device->dev, detail, sizeof detail);
    }
    return hri_fail(device->ctx, status, "%s on %s: %s%s%s", what, device->name,
                    hr_status_text(status), detail[0] ? ": " : "", detail);
}

hr_status hr_queue_create(hr_device *device, hr_queue **out) {
    hr_status status = hri_device_open(device);
    if (status != HR_OK) {
        return status;
    }
    hr_queue *queue = hri_calloc(1, sizeof *queue);
    if (!queue) {
        return fail(device, HR_E_NOMEM_HOST, "a queue");
    }
    queue->device = device;
    status = backend_of(device)->queue_open(device->dev, &queue->queue);
    if (status != HR_OK) {
        hri_free(queue);
        return fail(device, status, "a queue");
    }
    *out = queue;
    return HR_OK;
}

void hr_queue_destroy(hr_queue *queue) {
    if (queue) {
        backend_of(queue->device)->queue_close(queue->queue);
        hri_free(queue);
    }
}

hr_status hr_queue_sync(hr_queue *queue) {
    const hr_status status = backend_of(queue->device)->queue_sync(queue->queue);
    return status == HR_OK ? HR_OK : fail(queue->device, status, "waiting for a queue");
}

hr_status hr_event_create(hr_device *device, hr_event **out) {
    hr_status status = hri_device_open(device);
    if (status != HR_OK) {
        return status;
    }
    hr_event *event = hri_calloc(1, sizeof *event);
    if (!event) {
        return fail(device, HR_E_NOMEM_HOST, "an event");
    }
    event->device = device;
    status = backend_of(device)->event_open(device->dev, &event->event);
    if (status != HR_OK) {
        hri_free(event);
        return fail(device, status, "an event");
    }
    *out = event;
    return HR_OK;
}

void hr_event_destroy(hr_event *event) {
    if (event) {
        backend_of(event->device)->event_close(event->event);
        hri_free(event);
    }
}

/* Events and queues of two back ends know nothing of each other. */
static hr_status same_backend(hr_device *a, hr_device *b) {
    return a->lib == b->lib ? HR_OK
                            : hri_fail(a->ctx, HR_E_INVALID,
                                       "events cannot be shared between %s and "
                                       "%s",
                                       a->name, b->name);
}

hr_status hr_event_mark(hr_event *event, hr_queue *queue) {
    hr_status status = same_backend(event->device, queue->device);
    if (status != HR_OK) {
        return status;
    }
    status = backend_of(queue->device)->event_mark(event->event, queue->queue);
    return status == HR_OK ? HR_OK : fail(queue->device, status, "recording an event");
}

hr_status hr_event_wait(hr_event *event, hr_queue *queue) {
    hr_status status = same_backend(event->device, queue->device);
    if (status != HR_OK) {
        return status;
    }
    status = backend_of(queue->device)->event_wait(event->event, queue->queue);
    return status == HR_OK ? HR_OK : fail(queue->device, status, "waiting for an event");
}

hr_status hr_event_elapsed(hr_event *from, hr_event *to, uint64_t *out_ns) {
    hr_status status = same_backend(from->device, to->device);
    if (status != HR_OK) {
        return status;
    }
    status = backend_of(to->device)->event_elapsed(from->event, to->event, out_ns);
    return status == HR_OK ? HR_OK : fail(to->device, status, "the time between two events");
}

hr_status hr_copy(hr_queue *queue, hr_addr to, hr_addr from, uint64_t bytes) {
    if (bytes == 0) {
        return HR_OK;
    }
    if (!to || !from || to + bytes < to || from + bytes < from) {
        return fail(queue->device, HR_E_INVALID, "a copy");
    }
    const hr_status status = backend_of(queue->device)->copy(queue->queue, to, from, bytes);
    return status == HR_OK ? HR_OK : fail(queue->device, status, "a copy");
}

hr_status hr_fill(hr_queue *queue, hr_addr to, uint8_t value, uint64_t bytes) {
    if (bytes == 0) {
        return HR_OK;
    }
    if (!to || to + bytes < to) {
        return fail(queue->device, HR_E_INVALID, "a fill");
    }
    const hr_status status = backend_of(queue->device)->fill(queue->queue, to, value, bytes);
    return status == HR_OK ? HR_OK : fail(queue->device, status, "a fill");
}

hr_status hr_pinned_create(hr_device *device, uint64_t bytes, void **out) {
    hr_status status = hri_device_open(device);
    if (status != HR_OK) {
        return status;
    }
    status = bytes ? backend_of(device)->pinned_create(device->dev, bytes, out) : HR_E_INVALID;
    return status == HR_OK ? HR_OK : fail(device, status, "pinned memory");
}

void hr_pinned_destroy(hr_device *device, void *memory) {
    if (memory) {
        backend_of(device)->pinned_destroy(device->dev, memory);
    }
}
