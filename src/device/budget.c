/* Budgets of a context: the ledger of memory/budget.h with pools named after devices.  A pool is made when it is first
 * asked for; one that was not mentioned gets what its memory has free at that moment. */
#include <stdio.h>
#include <string.h>
#include <headroom/budget.h>
#include <headroom/bytes.h>

#include "base/alloc.h"
#include "device/device.h"
#include "memory/budget.h"

struct hr_budget {
    hr_ctx *ctx;
    hri_book *book;
    int unbounded; /* the context's own */
};

static const char *const inner[] = {"pinned", "input"};

static int is_inner(const char *name) {
    return !strcmp(name, inner[0]) || !strcmp(name, inner[1]);
}

static hr_status fail(hr_error *why, hr_status status, const char *name, const char *text) {
    if (why) {
        *why = (hr_error){.code = status, .device_free_bytes = HR_UNKNOWN};
        snprintf(why->message, sizeof why->message, "budget: %s: %s", name, text);
    }
    return status;
}

/* What the memory behind a pool has, in all and free. */
static hr_status look(hr_budget *b, const char *name, hr_device_info *out, hr_error *why) {
    hr_device *device;
    hr_status status = hr_device_find(b->ctx, is_inner(name) ? "host" : name, &device);
    if (status != HR_OK) {
        return fail(why, status, name, "no such device");
    }
    status = hri_device_open(device);
    if (status == HR_OK) {
        status = hr_device_get_info(device, out);
    }
    return status == HR_OK ? HR_OK : fail(why, status, name, hr_status_text(status));
}

/* limit 0: what the process has of it and what is free now. */
static hr_status need_pool(hr_budget *b, const char *name, uint64_t limit, hr_error *why) {
    hr_device_info info = {.size = sizeof info};
    if (hri_book_has_pool(b->book, name)) {
        return limit ? hri_book_set_limit(b->book, name, limit) : HR_OK;
    }
    hr_status status = is_inner(name) ? need_pool(b, "host", 0, why) : HR_OK;
    if (status == HR_OK && (is_inner(name) || b->unbounded) && !limit) {
        limit = HR_UNKNOWN; /* the host's limit is the only one */
    } else if (status == HR_OK && !limit) {
        status = look(b, name, &info, why);
        limit = status == HR_OK ? info.free_bytes + info.process_bytes : 0;
    }
    if (status == HR_OK) {
        status = hri_book_add_pool(b->book, name, is_inner(name) ? "host" : NULL, limit);
    }
    return status;
}

/* One "POOL=SIZE" or "SIZE" of `length` bytes. */
static hr_status read_item(hr_budget *b, const char *text, size_t length, hr_error *why) {
    char name[48] = "host", size[64];
    const char *equals = memchr(text, '=', length);
    const size_t before = equals ? (size_t)(equals - text) : 0;
    const size_t begin = equals ? before + 1 : 0;
    uint64_t bytes = 0;
    hr_device_info info = {.size = sizeof info};
    if (before >= sizeof name || length - begin >= sizeof size || (equals && !before)) {
        return fail(why, HR_E_INVALID, "POOL=SIZE", "a name or size is missing or too long");
    }
    if (equals) {
        snprintf(name, sizeof name, "%.*s", (int)before, text);
    }
    snprintf(size, sizeof size, "%.*s", (int)(length - begin), text + begin);
    hr_status status = look(b, name, &info, why);
    if (status != HR_OK) {
        return status;
    }
    status = hr_bytes_parse(size, info.total_bytes, &bytes);
    if (status != HR_OK || !bytes) {
        return fail(why, status != HR_OK ? status : HR_E_INVALID, name, "not an amount of memory");
    }
    if (info.total_bytes && bytes > info.total_bytes) {
        char has[32], text_of[96];
        snprintf(text_of, sizeof text_of, "more than the device has (%s)",
                 hr_bytes_print(info.total_bytes, has, sizeof has));
        return fail(why, HR_E_RANGE, name, text_of);
    }
    if (hri_book_has_pool(b->book, name) && strcmp(name, "host") != 0) {
        return fail(why, HR_E_INVALID, name, "given twice");
    }
    return need_pool(b, name, bytes, why);
}

hr_status hr_budget_create(hr_ctx *ctx, const char *text, hr_budget **out, hr_error *why) {
    hr_budget *b = hri_calloc(1, sizeof *b);
    if (!b) {
        return HR_E_NOMEM_HOST;
    }
    b->ctx = ctx;
    hr_status status = hri_book_create(&b->book);
    const char *at = text ? text : "";
    while (status == HR_OK && *at) {
        const size_t length = strcspn(at, ",");
        status = read_item(b, at, length, why);
        at += length + (at[length] == ',');
    }
    if (status != HR_OK) {
        const hr_status closed = hri_book_destroy(b->book);
        (void)closed; /* it has no leases */
        hri_free(b);
        return status;
    }
    *out = b;
    return HR_OK;
}

hr_status hr_budget_destroy(hr_budget *budget) {
    const hr_status status = budget ? hri_book_destroy(budget->book) : HR_OK;
    if (status == HR_OK) {
        hri_free(budget);
    }
    return status;
}

hr_status hr_budget_set_limit(hr_budget *budget, const char *pool, uint64_t limit_bytes) {
    const hr_status status = need_pool(budget, pool, 0, NULL);
    return status == HR_OK ? hri_book_set_limit(budget->book, pool, limit_bytes) : status;
}

hr_status hr_budget_get_pool(hr_budget *budget, size_t index, hr_pool_info *out) {
    return hri_book_get_pool(budget->book, index, out);
}

hr_status hr_lease_request(hr_budget *budget, const hr_lease_options *options, hr_lease **out,
                           hr_error *why) {
    const char *pool =
        options->size >= sizeof(size_t) + sizeof(char *) && options->pool ? options->pool : "host";
    const hr_status status = need_pool(budget, pool, 0, why);
    return status == HR_OK ? hri_book_request(budget->book, options, out, why) : status;
}

hr_status hr_budget_get_lease(hr_budget *budget, const char *pool, size_t index,
                              hr_lease_info *out) {
    return hri_book_get_lease(budget->book, pool, index, out);
}

hr_status hr_budget_ask(hr_budget *budget, const char *pool, const char *name, uint64_t bytes) {
    return hri_book_ask(budget->book, pool, name, bytes);
}

hr_status hr_budget_check(hr_budget *budget) {
    return hri_book_check(budget->book);
}

/* Of a pool that is there. */
static hr_status find(hr_budget *b, const char *pool, hr_pool_info *out) {
    hr_status status = HR_OK;
    for (size_t i = 0; status == HR_OK; i++) {
        *out = (hr_pool_info){.size = sizeof *out};
        status = hri_book_get_pool(b->book, i, out);
        if (status == HR_OK && !strcmp(out->name, pool)) {
            return HR_OK;
        }
    }
    return status;
}

hr_status hri_budget_free(hr_budget *budget, const char *pool, uint64_t *out) {
    hr_pool_info info;
    hr_status status = need_pool(budget, pool, 0, NULL);
    if (status == HR_OK) {
        status = find(budget, pool, &info);
    }
    if (status == HR_OK) {
        *out = info.free_bytes;
    }
    return status;
}

uint64_t hri_budget_limit(hr_budget *budget, const char *pool) {
    hr_pool_info info;
    return find(budget, pool, &info) == HR_OK ? info.limit_bytes : HR_UNKNOWN;
}

hr_status hri_budget_enter(hr_budget *budget, const char *pool, uint64_t process_bytes,
                           hr_error *why) {
    const hr_status status = need_pool(budget, pool, 0, why);
    return status == HR_OK ? hri_book_enter(budget->book, pool, process_bytes, why) : status;
}

uint64_t hri_budget_runtime(hr_budget *budget, const char *pool) {
    return hri_book_runtime(budget->book, pool);
}

void hri_budget_leave(hr_budget *budget, const char *pool) {
    hri_book_leave(budget->book, pool);
}

hr_status hri_ctx_ledger(hr_ctx *ctx, hr_budget **out) {
    hr_budget *is = __atomic_load_n(&ctx->ledger, __ATOMIC_ACQUIRE), *made = NULL;
    if (!is) {
        const hr_status status = hr_budget_create(ctx, NULL, &made, NULL);
        if (status != HR_OK) {
            return status;
        }
        made->unbounded = 1;
        if (__atomic_compare_exchange_n(&ctx->ledger, &is, made, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            is = made;
        } else { /* somebody was faster */
            (void)!hr_budget_destroy(made);
        }
    }
    *out = is;
    return HR_OK;
}
