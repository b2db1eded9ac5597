/* One physical device.  It is opened at first use: a program that only lists devices, or uses one of eight, does not
 * pay for the context of the others. */
#include <stdio.h>
#include <string.h>

#include "device/device.h"

#include "base/grow.h"

hr_status hri_device_open(hr_device *device) {
    hr_status status = HR_OK;
    pthread_mutex_lock(&device->mutex);
    if (!device->dev) {
        const hri_backend *backend = device->lib->backend;
        hri_dev *dev;
        status = backend->open(device->lib, device->index, &dev);
        hr_device_info info = {.size = sizeof info};
        memset(&info, 0, sizeof info);
        if (status == HR_OK) {
            status = backend->info(dev, &info);
            if (status != HR_OK) {
                backend->close(dev);
            }
        }
        if (status == HR_OK) {
            device->dev = dev;
            device->total_bytes = info.total_bytes;
            device->runtime_bytes = info.runtime_bytes;
        }
    }
    pthread_mutex_unlock(&device->mutex);
    if (status != HR_OK) {
        return hri_fail(device->ctx, status, "%s cannot be opened: %s", device->name,
                        hr_status_text(status));
    }
    return HR_OK;
}

void hri_device_deinit(hr_device *device) {
    hri_device_drop_logicals(device);
    if (device->dev) {
        device->lib->backend->close(device->dev);
    }
    pthread_mutex_destroy(&device->mutex);
}

hr_status hri_device_expect(hr_device *device, uint64_t bytes, uint64_t *out_left) {
    uint64_t left = UINT64_MAX;
    hr_status status = hri_device_open(device);
    if (status == HR_OK && device->lib->backend->expect) {
        status = device->lib->backend->expect(device->dev, bytes, &left);
    }
    if (out_left) {
        *out_left = left;
    }
    return status;
}

hr_status hri_device_let_read(hr_device *device, hr_device *reader) {
    const hri_backend *backend = device->lib->backend;
    if (device == reader) {
        return HR_OK;
    }
    hr_status status = device->lib == reader->lib && backend->let_read && reader->index < 64
                           ? HR_OK
                           : HR_E_UNSUPPORTED;
    if (status == HR_OK) {
        status = hri_device_open(device);
    }
    if (status == HR_OK) {
        status = hri_device_open(reader);
    }
    if (status == HR_OK) {
        status = backend->let_read(device->dev, reader->dev);
    }
    if (status == HR_OK) {
        device->readers |= UINT64_C(1) << reader->index;
    }
    return status;
}

int hri_device_is_read_by(const hr_device *device, const hr_device *reader) {
    return device == reader || (device->lib == reader->lib && reader->index < 64 &&
                                (device->readers >> reader->index & 1));
}

int hri_device_is_linked(const hr_device *device, const hr_device *peer) {
    const hri_backend *backend = device->lib->backend;
    return device->lib == peer->lib && device->dev && peer->dev && backend->is_linked &&
           backend->is_linked(device->dev, peer->dev);
}

uint32_t hri_device_can(const hr_device *device) {
    return device->lib->backend->can;
}

const hri_kernels *hri_device_kernels(const hr_device *device) {
    return device->lib->backend->kernels;
}

int hri_device_uuid(const hr_device *device, unsigned char out[16]) {
    const hri_backend *backend = device->lib->backend;
    return backend->uuid && backend->uuid(device->lib, device->index, out);
}

int hri_device_name_is_host(const char *name) {
    return !strcmp(name, "host");
}

const char *hri_device_name_null(const char *name) {
    return !strncmp(name, "null:", 5) ? name + 5 : NULL;
}

size_t hr_device_count(hr_ctx *ctx) {
    return ctx->device_count;
}

hr_device *hr_device_at(hr_ctx *ctx, size_t index) {
    return index < ctx->device_count ? ctx->devices[index] : NULL;
}

hr_status hr_device_find(hr_ctx *ctx, const char *name, hr_device **out) {
    char names[512] = "";
    if (!name) {
        return hri_fail(ctx, HR_E_INVALID, "missing device name");
    }
    for (size_t i = 0; i < ctx->device_count; i++) {
        if (!strcmp(ctx->devices[i]->name, name)) {
            *out = ctx->devices[i];
            return HR_OK;
        }
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                 ctx->devices[i]->name);
    }
    return hri_fail(ctx, HR_E_NOT_FOUND, "no device \"%.60s\"; available: %s", name, names);
}

static uint64_t held_by_all(hr_device *device) {
    uint64_t held = 0;
    for (hr_logical *l = device->logicals; l; l = l->next) {
        hr_stats stats;
        hri_heap_stats(&l->heap, &stats);
        held += stats.held_bytes;
    }
    return held;
}

/* The readings are not of one instant, and the host counts shared pages twice: what does not add up is cut, ours first by
 * what is in use, so that no part is ever negative. */
static void share_out(hr_device_info *info) {
    const uint64_t used =
        info->total_bytes > info->free_bytes ? info->total_bytes - info->free_bytes : 0;
    const uint64_t ours =
        info->process_bytes ? info->process_bytes : info->runtime_bytes + info->held_bytes;
    info->ours_bytes = ours < used ? ours : used;
    info->others_bytes = used - info->ours_bytes;
}

const char *hr_device_name(const hr_device *device) {
    return device->name;
}

hr_status hr_device_open(hr_device *device) {
    return hri_device_open(device);
}

hr_status hr_device_get_info(hr_device *device, hr_device_info *out) {
    const hri_backend *backend = device->lib->backend;
    hr_device_info info = {0};
    if (!backend->describe) {
        const hr_status status = hri_device_open(device);
        if (status != HR_OK) {
            return status;
        }
    }
    pthread_mutex_lock(&device->mutex);
    hr_status status = device->dev ? backend->info(device->dev, &info)
                                   : backend->describe(device->lib, device->index, &info);
    if (status == HR_OK) {
        info.limits_bytes = device->limits_bytes;
        info.logical_count = device->logical_count;
        info.held_bytes = held_by_all(device);
        if (device->dev) {
            info.runtime_bytes = device->runtime_bytes;
        }
        info.is_open = device->dev != NULL;
        info.is_gpu = (backend->can & HRI_CAN_QUEUE) != 0;
        share_out(&info);
    }
    pthread_mutex_unlock(&device->mutex);
    if (status != HR_OK) {
        return hri_fail(device->ctx, status, "%s does not respond: %s", device->name,
                        hr_status_text(status));
    }
    status = hri_give(out, &info, sizeof info);
    return status == HR_OK ? HR_OK
                           : hri_fail(device->ctx, status, "hr_device_info: size is not set");
}
