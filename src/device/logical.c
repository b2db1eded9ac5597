/* Logical devices: slices of a device with a limit each.  Every rule is checked at the call: the sum of the limits
 * against what the device has, a limit against the page size, a new limit against what is in use. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "device/device.h"

/* What the device can promise to all its slices together. */
static uint64_t capacity(const hr_device *device) {
    return device->total_bytes > device->runtime_bytes ? device->total_bytes - device->runtime_bytes
                                                       : 0;
}

static hr_status check_sum(hr_device *device, uint64_t others, uint64_t limit) {
    if (limit <= capacity(device) && others <= capacity(device) - limit) {
        return HR_OK;
    }
    char want[32], has[32], taken[32], runtime[32];
    return hri_fail(device->ctx, HR_E_LIMIT,
                    "a limit of %s does not fit on %s: it has %s after %s of runtime, and the "
                    "limits of its %u other logical devices add up to %s",
                    hr_bytes_print(limit, want, sizeof want), device->name,
                    hr_bytes_print(capacity(device), has, sizeof has),
                    hr_bytes_print(device->runtime_bytes, runtime, sizeof runtime),
                    device->logical_count, hr_bytes_print(others, taken, sizeof taken));
}

static hr_status check_page(hr_device *device, uint64_t limit) {
    const uint64_t page = device->dev->source.page_bytes;
    if (limit >= page) {
        return HR_OK;
    }
    char want[32], unit[32];
    return hri_fail(device->ctx, HR_E_RANGE, "a limit of %s is less than one page of %s (%s)",
                    hr_bytes_print(limit, want, sizeof want), device->name,
                    hr_bytes_print(page, unit, sizeof unit));
}

static hr_status check_name(hr_device *device, const char *name) {
    if (!*name || strlen(name) >= HR_NAME_SIZE) {
        return hri_fail(device->ctx, HR_E_INVALID, "a name must have 1 to %d bytes",
                        HR_NAME_SIZE - 1);
    }
    for (hr_logical *l = device->logicals; l; l = l->next) {
        if (!strcmp(l->name, name)) {
            return hri_fail(device->ctx, HR_E_EXISTS,
                            "%s already has a logical device named "
                            "\"%s\"",
                            device->name, name);
        }
    }
    return HR_OK;
}

static void link_in(hr_device *device, hr_logical *logical) {
    logical->next = device->logicals;
    if (device->logicals) {
        device->logicals->prev = logical;
    }
    device->logicals = logical;
    device->logical_count++;
    device->limits_bytes += logical->limit_bytes;
}

static void unlink_and_free(hr_logical *logical) {
    hr_device *device = logical->device;
    if (logical->prev) {
        logical->prev->next = logical->next;
    } else {
        device->logicals = logical->next;
    }
    if (logical->next) {
        logical->next->prev = logical->prev;
    }
    device->logical_count--;
    device->limits_bytes -= logical->limit_bytes;
    hri_heap_deinit(&logical->heap);
    hri_free(logical);
}

/* A made slice's own name may be in use by one that the user named. */
static void default_name(hr_device *device, char *name, size_t size) {
    int taken;
    do {
        snprintf(name, size, "%.40s/%u", device->name, device->logicals_made++);
        taken = 0;
        for (hr_logical *l = device->logicals; l && !taken; l = l->next) {
            taken = !strcmp(l->name, name);
        }
    } while (taken);
}

/* Everything that can be said against it; the device's lock is held. */
static hr_status admit(hr_device *device, const hr_logical_options *options, uint64_t *limit) {
    const uint64_t left =
        capacity(device) > device->limits_bytes ? capacity(device) - device->limits_bytes : 0;
    *limit = options->limit_bytes ? options->limit_bytes : left;
    hr_status status = options->name ? check_name(device, options->name) : HR_OK;
    if (status == HR_OK && options->growth != HR_GROWTH_ON && options->growth != HR_GROWTH_OFF) {
        status = hri_fail(device->ctx, HR_E_INVALID, "growth must be on or off, not %d",
                          (int)options->growth);
    }
    if (status == HR_OK && options->limit_bytes == 0 && left == 0) {
        return check_sum(device, device->limits_bytes, device->dev->source.page_bytes);
    }
    if (status == HR_OK) {
        status = check_page(device, *limit);
    }
    return status == HR_OK ? check_sum(device, device->limits_bytes, *limit) : status;
}

static hr_status create_locked(hr_device *device, const hr_logical_options *options,
                               hr_logical **out) {
    uint64_t limit;
    hr_status status = admit(device, options, &limit);
    if (status != HR_OK) {
        return status;
    }
    hr_logical *logical = hri_calloc(1, sizeof *logical);
    if (!logical) {
        return hri_fail(device->ctx, HR_E_NOMEM_HOST, "out of host memory for a logical device");
    }
    status = hri_heap_init(&logical->heap, &device->dev->source, limit, options->growth);
    if (status != HR_OK) {
        char want[32], detail[256] = "";
        if (device->lib->backend->detail) {
            device->lib->backend->detail(device->dev, detail, sizeof detail);
        }
        hri_free(logical);
        return hri_fail(device->ctx, status, "%s cannot provide %s up front: %s%s%s", device->name,
                        hr_bytes_print(limit, want, sizeof want), hr_status_text(status),
                        detail[0] ? ": " : "", detail);
    }
    logical->device = device;
    logical->limit_bytes = limit;
    logical->idle_trim_ms = options->idle_trim_ms;
    if (options->name) {
        strcpy(logical->name, options->name);
    } else {
        default_name(device, logical->name, sizeof logical->name);
    }
    link_in(device, logical);
    *out = logical;
    return HR_OK;
}

hr_status hr_logical_create(hr_device *device, const hr_logical_options *options,
                            hr_logical **out) {
    hr_logical_options own = {.size = sizeof own};
    hr_status status = options ? hri_take(&own, sizeof own, options) : HR_OK;
    if (status != HR_OK) {
        return hri_fail(device->ctx, status, "hr_logical_options: %s",
                        status == HR_E_INVALID ? "size is not set"
                                               : "an option that this version does not know");
    }
    status = hri_device_open(device);
    if (status != HR_OK) {
        return status;
    }
    hr_logical *logical = NULL;
    pthread_mutex_lock(&device->mutex);
    status = create_locked(device, &own, &logical);
    pthread_mutex_unlock(&device->mutex);
    if (status == HR_OK && own.idle_trim_ms > 0) {
        status = hri_janitor_wake(device->ctx);
        if (status != HR_OK) {
            pthread_mutex_lock(&device->mutex);
            unlink_and_free(logical);
            pthread_mutex_unlock(&device->mutex);
        }
    }
    if (status == HR_OK) {
        *out = logical;
    }
    return status;
}

hr_status hr_logical_destroy(hr_logical *logical) {
    if (!logical) {
        return HR_OK;
    }
    hr_device *device = logical->device;
    hr_error why = {.code = HR_OK};
    if (hri_heap_is_busy(&logical->heap, &why)) {
        return hri_fail_memory(logical, HR_E_BUSY, &why, "its removal");
    }
    const hr_status status = hri_heap_empty(&logical->heap);
    if (status != HR_OK) {
        return hri_fail(device->ctx, status, "%s could not release its pages: %s", logical->name,
                        hr_status_text(status));
    }
    pthread_mutex_lock(&device->mutex);
    unlink_and_free(logical);
    pthread_mutex_unlock(&device->mutex);
    return HR_OK;
}

void hri_device_drop_logicals(hr_device *device) {
    pthread_mutex_lock(&device->mutex);
    while (device->logicals) {
        unlink_and_free(device->logicals);
    }
    pthread_mutex_unlock(&device->mutex);
}

hr_status hr_logical_set_limit(hr_logical *logical, uint64_t limit_bytes) {
    hr_device *device = logical->device;
    hr_error why = {.code = HR_OK};
    pthread_mutex_lock(&device->mutex);
    hr_status status = check_page(device, limit_bytes);
    if (status == HR_OK) {
        status = check_sum(device, device->limits_bytes - logical->limit_bytes, limit_bytes);
    }
    int refused = 0;
    if (status == HR_OK) {
        status = hri_heap_set_limit(&logical->heap, limit_bytes, &why);
        refused = status != HR_OK;
    }
    if (status == HR_OK) {
        device->limits_bytes += limit_bytes - logical->limit_bytes;
        logical->limit_bytes = limit_bytes;
    }
    pthread_mutex_unlock(&device->mutex);
    return refused ? hri_fail_memory(logical, status, &why, "a new limit") : status;
}

hr_status hr_logical_set_growth(hr_logical *logical, hr_growth growth) {
    hr_error why = {.code = HR_OK};
    const hr_status status = hri_heap_set_growth(&logical->heap, growth, &why);
    if (status == HR_E_INVALID) {
        return hri_fail(logical->device->ctx, status, "growth must be on or off, not %d",
                        (int)growth);
    }
    return status == HR_OK ? HR_OK : hri_fail_memory(logical, status, &why, "the whole limit");
}

hr_status hr_logical_set_idle_trim(hr_logical *logical, uint32_t idle_trim_ms) {
    hr_device *device = logical->device;
    pthread_mutex_lock(&device->mutex);
    const uint32_t before = logical->idle_trim_ms;
    logical->idle_trim_ms = idle_trim_ms;
    logical->next_tick_ns = 0;
    pthread_mutex_unlock(&device->mutex);
    const hr_status status = idle_trim_ms ? hri_janitor_wake(device->ctx) : HR_OK;
    if (status != HR_OK) {
        pthread_mutex_lock(&device->mutex);
        logical->idle_trim_ms = before;
        pthread_mutex_unlock(&device->mutex);
    }
    return status;
}

hr_device *hr_logical_device(hr_logical *logical) {
    return logical->device;
}

const char *hr_logical_name(hr_logical *logical) {
    return logical->name;
}
