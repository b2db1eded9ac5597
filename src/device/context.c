/* The context: probes every back end, puts the devices in the visible order, owns them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "device/device.h"

static const char blank[] = " \t";

static size_t count_backends(const hri_backend *const *list) {
    size_t count = 0;
    while (list && list[count]) {
        count++;
    }
    return count;
}

static hr_status probe_list(hr_ctx *ctx, const hr_ctx_options *options,
                            const hri_backend *const *list) {
    for (size_t i = 0; list && list[i]; i++) {
        hri_lib *lib;
        const hr_status status = list[i]->abi == HRI_BACKEND_ABI && list[i]->kernels
                                     ? list[i]->probe(options, &ctx->log, &lib)
                                     : HR_E_UNSUPPORTED;
        if (status != HR_OK) {
            return status;
        }
        ctx->libs[ctx->lib_count++] = lib;
    }
    return HR_OK;
}

static hr_status probe_all(hr_ctx *ctx, const hr_ctx_options *options,
                           const hri_backend *const *more) {
    ctx->libs = hri_calloc(count_backends(hri_backends) + count_backends(more), sizeof *ctx->libs);
    if (!ctx->libs) {
        return HR_E_NOMEM_HOST;
    }
    const hr_status status = probe_list(ctx, options, hri_backends);
    return status == HR_OK ? probe_list(ctx, options, more) : status;
}

static void device_name(const hri_lib *lib, int index, char *name, size_t size) {
    if (!strcmp(lib->backend->name, "host")) {
        snprintf(name, size, "host"); /* there is one, and people call it that */
    } else {
        snprintf(name, size, "%s:%d", lib->backend->name, index);
    }
}

static hr_status add_device(hr_ctx *ctx, hri_lib *lib, int index) {
    hr_device *device = hri_calloc(1, sizeof *device);
    if (!device) {
        return HR_E_NOMEM_HOST;
    }
    device->ctx = ctx;
    device->lib = lib;
    device->index = index;
    device_name(lib, index, device->name, sizeof device->name);
    pthread_mutex_init(&device->mutex, NULL);
    ctx->devices[ctx->device_count++] = device;
    return HR_OK;
}

/* Adds the device of that name.  "3" is short for "cuda:3", as CUDA_VISIBLE_DEVICES has it. */
static hr_status add_named(hr_ctx *ctx, const char *name) {
    char full[HR_NAME_SIZE], candidate[HR_NAME_SIZE];
    const int is_number = name[0] && strspn(name, "0123456789") == strlen(name);
    snprintf(full, sizeof full, is_number ? "cuda:%s" : "%s", name);
    for (size_t i = 0; i < ctx->device_count; i++) {
        if (!strcmp(ctx->devices[i]->name, full)) {
            hri_log_write(&ctx->log, HR_LOG_ERROR, "visible devices: %s is listed twice", full);
            return HR_E_INVALID;
        }
    }
    for (size_t l = 0; l < ctx->lib_count; l++) {
        for (int i = 0; i < ctx->libs[l]->device_count; i++) {
            device_name(ctx->libs[l], i, candidate, sizeof candidate);
            if (!strcmp(candidate, full)) {
                return add_device(ctx, ctx->libs[l], i);
            }
        }
    }
    hri_log_write(&ctx->log, HR_LOG_ERROR, "visible devices: no device \"%s\" on this machine",
                  name);
    return HR_E_NOT_FOUND;
}

static int has_device(const hr_ctx *ctx, const char *name) {
    for (size_t i = 0; i < ctx->device_count; i++) {
        if (!strcmp(ctx->devices[i]->name, name)) {
            return 1;
        }
    }
    return 0;
}

/* The host is always there: input and checkpoints need it whatever is visible. */
static hr_status add_listed(hr_ctx *ctx, const char *list) {
    const char *at = list;
    const int none = !strcmp(list, "none") || list[strspn(list, " \t,")] == '\0';
    while (!none && *at) {
        char name[HR_NAME_SIZE];
        const size_t length = strcspn(at, ",");
        size_t first = strspn(at, blank), last = length;
        first = first < length ? first : length;
        while (last > first && strchr(blank, at[last - 1])) {
            last--;
        }
        if (last - first >= sizeof name) {
            hri_log_write(&ctx->log, HR_LOG_ERROR, "visible devices: a name is too long");
            return HR_E_INVALID;
        }
        memcpy(name, at + first, last - first);
        name[last - first] = '\0';
        if (name[0]) {
            const hr_status status = add_named(ctx, name);
            if (status != HR_OK) {
                return status;
            }
        }
        at += length + (at[length] == ',');
    }
    return has_device(ctx, "host") ? HR_OK : add_named(ctx, "host");
}

static hr_status add_everything(hr_ctx *ctx) {
    hr_status status = add_named(ctx, "host");
    for (size_t l = 0; l < ctx->lib_count; l++) {
        for (int i = 0; i < ctx->libs[l]->device_count && status == HR_OK; i++) {
            char name[HR_NAME_SIZE];
            device_name(ctx->libs[l], i, name, sizeof name);
            if (!has_device(ctx, name)) {
                status = add_device(ctx, ctx->libs[l], i);
            }
        }
    }
    return status;
}

static hr_status find_devices(hr_ctx *ctx, const hr_ctx_options *options,
                              const hri_backend *const *more) {
    const hr_status status = probe_all(ctx, options, more);
    if (status != HR_OK) {
        return status;
    }
    size_t most = 0;
    for (size_t l = 0; l < ctx->lib_count; l++) {
        most += (size_t)ctx->libs[l]->device_count;
    }
    ctx->devices = hri_calloc(most, sizeof(hr_device *));
    if (!ctx->devices) {
        return HR_E_NOMEM_HOST;
    }
    const char *list = options->visible_devices;
    if (!list) {
        list = getenv("HEADROOM_VISIBLE_DEVICES");
    }
    return list ? add_listed(ctx, list) : add_everything(ctx);
}

static void ctx_deinit(hr_ctx *ctx) {
    hri_janitor_stop(ctx);
    (void)!hr_budget_destroy(ctx->ledger); /* whoever holds memory has been closed before */
    for (size_t i = 0; i < ctx->device_count; i++) {
        hri_device_deinit(ctx->devices[i]);
        hri_free(ctx->devices[i]);
    }
    for (size_t i = 0; i < ctx->lib_count; i++) {
        ctx->libs[i]->backend->unprobe(ctx->libs[i]);
    }
    hri_free(ctx->devices);
    hri_free(ctx->libs);
    pthread_cond_destroy(&ctx->janitor.cond);
    pthread_mutex_destroy(&ctx->janitor.mutex);
    pthread_mutex_destroy(&ctx->error_mutex);
    hri_log_deinit(&ctx->log);
}

hr_status hr_ctx_create(const hr_ctx_options *options, hr_ctx **out) {
    return hri_ctx_create_with(options, NULL, out);
}

hr_status hri_ctx_create_with(const hr_ctx_options *options, const hri_backend *const *more,
                              hr_ctx **out) {
    hr_ctx_options own = {.size = sizeof own};
    hr_status status = options ? hri_take(&own, sizeof own, options) : HR_OK;
    if (status != HR_OK) {
        return status;
    }
    hr_ctx *ctx = hri_calloc(1, sizeof *ctx);
    if (!ctx) {
        return HR_E_NOMEM_HOST;
    }
    hri_log_init(&ctx->log, own.log, own.log_user, (hr_log_level)own.log_level);
    pthread_mutex_init(&ctx->error_mutex, NULL);
    pthread_mutex_init(&ctx->janitor.mutex, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&ctx->janitor.cond, &clock);
    pthread_condattr_destroy(&clock);
    status = find_devices(ctx, &own, more);
    if (status != HR_OK) {
        ctx_deinit(ctx);
        hri_free(ctx);
        return status;
    }
    *out = ctx;
    return HR_OK;
}

void hr_ctx_destroy(hr_ctx *ctx) {
    if (ctx) {
        ctx_deinit(ctx);
        hri_free(ctx);
    }
}

void hri_ctx_report(hr_ctx *ctx, hri_report_fn *fn, void *user) {
    for (size_t i = 0; i < ctx->lib_count; i++) {
        if (ctx->libs[i]->backend->report) {
            ctx->libs[i]->backend->report(ctx->libs[i], fn, user);
        }
    }
}
