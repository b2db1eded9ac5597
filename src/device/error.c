/* Prose for failures: written where the numbers are known, kept on the context.  An out-of-memory text fits on one
 * screen: what was wanted, the limit, what is held and live, the largest piece free, who holds the most, what helps. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/prose.h"
#include "device/device.h"

void hr_ctx_error(hr_ctx *ctx, hr_error *out) {
    pthread_mutex_lock(&ctx->error_mutex);
    *out = ctx->error;
    pthread_mutex_unlock(&ctx->error_mutex);
}

static hr_status keep(hr_ctx *ctx, const hr_error *error) {
    pthread_mutex_lock(&ctx->error_mutex);
    ctx->error = *error;
    pthread_mutex_unlock(&ctx->error_mutex);
    hri_log_write(&ctx->log, HR_LOG_DEBUG, "%s: %.200s", hr_status_name(error->code),
                  error->message);
    return error->code;
}

hr_status hri_fail(hr_ctx *ctx, hr_status status, const char *format, ...) {
    hr_error error = {.code = status, .device_free_bytes = UINT64_MAX};
    va_list args;
    va_start(args, format);
    hri_vsnprintf(error.message, sizeof error.message, format, args);
    va_end(args);
    return keep(ctx, &error);
}

typedef struct text {
    char *at;
    size_t left;
} text;

static void put(text *t, const char *format, ...) HR_PRINTF(2, 3);
static void put(text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int length = hri_vsnprintf(t->at, t->left, format, args);
    va_end(args);
    const size_t used = length < 0 ? 0 : (size_t)length < t->left ? (size_t)length : t->left - 1;
    t->at += used;
    t->left -= used;
}

static void put_row(text *t, const char *label, uint64_t bytes, const char *note) {
    char size[32];
    put(t, "\n  %-13s %11s%s%s", label, hr_bytes_print(bytes, size, sizeof size),
        *note ? "   " : "", note);
}

static void put_help(text *t, const hr_logical *logical, hr_status status, const hr_error *why) {
    char need[32], largest[32];
    const uint64_t page = logical->heap.pool.source.page_bytes;
    const uint64_t wanted = (why->wanted_bytes + page - 1) / page * page;
    const uint64_t limit_need = why->limit_bytes - why->free_bytes + wanted;
    put(t, "\nto fix it: ");
    if (status == HR_E_LIMIT) {
        put(t, "a limit of %s", hr_bytes_print(limit_need, need, sizeof need));
    } else {
        put(t, "freeing memory in another process");
    }
    if (why->largest_free_bytes > 0) {
        put(t, ", requesting at most %s",
            hr_bytes_print(why->largest_free_bytes, largest, sizeof largest));
    }
    if (why->holder_count > 0) {
        put(t, ", or freeing the blocks of \"%s\"", why->holders[0].owner);
    }
}

hr_status hri_fail_memory(hr_logical *logical, hr_status status, hr_error *why, const char *what) {
    hr_device *device = logical->device;
    const hri_backend *backend = device->lib->backend;
    char wanted[32], size[32], detail[256] = "";
    why->code = status;
    why->device_free_bytes = UINT64_MAX;
    hr_device_info info = {.size = sizeof info};
    if (status == HR_E_NOMEM_DEVICE && backend->info(device->dev, &info) == HR_OK) {
        why->device_free_bytes = info.free_bytes;
    }
    if (status != HR_E_LIMIT && status != HR_E_NOMEM_HOST && backend->detail) {
        backend->detail(device->dev, detail, sizeof detail);
    }
    text t = {why->message, sizeof why->message};
    put(&t, "%s: %s for %s on %s", hr_status_text(status),
        hr_bytes_print(why->wanted_bytes, wanted, sizeof wanted), what, logical->name);
    put_row(&t, "limit", why->limit_bytes, "");
    put_row(&t, "held", why->held_bytes, "pages allocated from the device");
    put_row(&t, "live", why->live_bytes, "of which used by blocks and ranges");
    put_row(&t, "largest free", why->largest_free_bytes, "");
    if (why->device_free_bytes != UINT64_MAX) {
        put_row(&t, "device free", why->device_free_bytes, "for all processes");
    }
    for (uint32_t i = 0; i < why->holder_count; i++) {
        const hr_holder *holder = &why->holders[i];
        put(&t, "\n  %-13s %11s   %s, %llu block%s", i == 0 ? "held by" : "",
            hr_bytes_print(holder->bytes, size, sizeof size), holder->owner,
            (unsigned long long)holder->blocks, hri_plural(holder->blocks));
        put(&t, " of %s", holder->category);
    }
    if (detail[0]) {
        put(&t, "\n  the device reports: %s", detail);
    }
    put_help(&t, logical, status, why);
    return keep(device->ctx, why);
}
