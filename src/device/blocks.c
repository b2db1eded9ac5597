/* Memory calls on a slice: passed on to its heap, with prose made of a refusal.  When the device itself is full, the
 * idle pages of its other slices are given back first, and the request is tried once more. */
#include <stdio.h>

#include "device/device.h"

#include "base/grow.h"

/* 1 when a neighbour gave something back. */
static int reclaim_from_siblings(hr_logical *logical) {
    uint64_t freed_all = 0;
    pthread_mutex_lock(&logical->device->mutex);
    for (hr_logical *l = logical->device->logicals; l; l = l->next) {
        uint64_t freed = 0;
        if (l != logical && hri_heap_trim(&l->heap, 0, &freed) == HR_OK) {
            freed_all += freed;
        }
    }
    pthread_mutex_unlock(&logical->device->mutex);
    return freed_all > 0;
}

hr_status hr_block_alloc(hr_logical *logical, uint64_t bytes, hr_category category, hr_owner owner,
                         hr_block *out) {
    hr_error why;
    hr_status status = hri_heap_alloc(&logical->heap, bytes, category, owner, out, &why);
    if (status == HR_OK) {
        return HR_OK;
    }
    if (status == HR_E_NOMEM_DEVICE && reclaim_from_siblings(logical)) {
        status = hri_heap_alloc(&logical->heap, bytes, category, owner, out, &why);
        if (status == HR_OK) {
            return HR_OK;
        }
    }
    if (status == HR_E_INVALID) {
        return hri_fail(logical->device->ctx, status,
                        "a block needs at least one byte, a valid category and an owner of this "
                        "logical device (%llu bytes, category %d, owner %u)",
                        (unsigned long long)bytes, (int)category, owner);
    }
    char what[96], name[48] = "";
    hr_usage usage;
    if (hri_heap_owner_usage(&logical->heap, owner, &usage, name, sizeof name) != HR_OK) {
        name[0] = '\0';
    }
    snprintf(what, sizeof what, "%s of \"%s\"", hr_category_name(category), name);
    return hri_fail_memory(logical, status, &why, what);
}

hr_status hr_block_free(hr_logical *logical, const hr_block *block) {
    const hr_status status = hri_heap_free(&logical->heap, block);
    if (status != HR_OK) {
        return hri_fail(logical->device->ctx, status,
                        "no live block at address 0x%llx on %s: already freed, or from another "
                        "device",
                        (unsigned long long)block->addr, logical->name);
    }
    return HR_OK;
}

hr_status hr_owner_get(hr_logical *logical, const char *name, hr_owner *out) {
    const hr_status status = hri_heap_owner(&logical->heap, name, out);
    if (status != HR_OK) {
        return hri_fail(logical->device->ctx, status,
                        status == HR_E_INVALID ? "an owner's name must have 1 to 47 bytes"
                                               : "out of memory for an owner record");
    }
    return HR_OK;
}

hr_status hr_owner_get_usage(hr_logical *logical, hr_owner owner, hr_usage *out, char *name,
                             size_t name_size) {
    const hr_status status = hri_heap_owner_usage(&logical->heap, owner, out, name, name_size);
    return status == HR_OK ? HR_OK
                           : hri_fail(logical->device->ctx, status, "unknown owner %u", owner);
}

hr_status hr_logical_trim(hr_logical *logical, uint64_t *freed_bytes) {
    const hr_status status = hri_heap_trim(&logical->heap, 0, freed_bytes);
    return status == HR_OK ? HR_OK
                           : hri_fail(logical->device->ctx, status,
                                      "%s could not release all its idle pages: %s", logical->name,
                                      hr_status_text(status));
}

hr_status hr_logical_get_stats(hr_logical *logical, hr_stats *out) {
    hr_stats stats;
    hri_heap_stats(&logical->heap, &stats);
    pthread_mutex_lock(&logical->device->mutex);
    stats.idle_trim_ms = logical->idle_trim_ms;
    pthread_mutex_unlock(&logical->device->mutex);
    return hri_give(out, &stats, sizeof stats);
}

void hr_logical_reset_peaks(hr_logical *logical) {
    hri_heap_reset_peaks(&logical->heap);
}

hr_status hr_logical_check(hr_logical *logical) {
    char text[256] = "out of memory for the check";
    const hr_status status = hri_heap_check(&logical->heap, text, sizeof text);
    return status == HR_OK ? HR_OK
                           : hri_fail(logical->device->ctx, status, "%s: %s", logical->name, text);
}

/* ---- ranges ---- */

/* Heaps are embedded in slices. */
static hr_logical *logical_of(hri_heap *heap) {
    return (hr_logical *)((char *)heap - offsetof(hr_logical, heap));
}

static hr_status fail_range(hr_logical *logical, hr_status status, const char *what,
                            uint64_t bytes) {
    char size[32];
    return hri_fail(logical->device->ctx, status, "%s of %s on %s: %s", what,
                    hr_bytes_print(bytes, size, sizeof size), logical->name,
                    hr_status_text(status));
}

hr_status hr_range_create(hr_logical *logical, uint64_t reserve_bytes, hr_category category,
                          hr_owner owner, hr_range **out) {
    const hr_status status = hri_range_create(&logical->heap, reserve_bytes, category, owner, out);
    return status == HR_OK ? HR_OK : fail_range(logical, status, "a range", reserve_bytes);
}

hr_status hr_range_destroy(hr_range *range) {
    if (!range) {
        return HR_OK;
    }
    hr_logical *logical = logical_of(hri_range_heap(range));
    const uint64_t bytes = hr_range_bytes(range);
    const hr_status status = hri_range_destroy(range);
    return status == HR_OK ? HR_OK : fail_range(logical, status, "removing a range", bytes);
}

hr_status hr_range_resize(hr_range *range, uint64_t bytes) {
    hr_logical *logical = logical_of(hri_range_heap(range));
    hr_error why = {.code = HR_OK};
    hr_status status = hri_range_resize(range, bytes, &why);
    if (status == HR_E_NOMEM_DEVICE && reclaim_from_siblings(logical)) {
        status = hri_range_resize(range, bytes, &why);
    }
    if (status == HR_E_LIMIT || status == HR_E_NOMEM_DEVICE || status == HR_E_NOMEM_HOST) {
        return hri_fail_memory(logical, status, &why, "a range");
    }
    return status == HR_OK ? HR_OK : fail_range(logical, status, "resizing a range", bytes);
}

hr_status hr_range_share(hr_range *of, uint64_t bytes, hr_range **out) {
    const hr_status status = hri_range_share(of, bytes, out);
    return status == HR_OK ? HR_OK
                           : fail_range(logical_of(hri_range_heap(of)), status, "a share", bytes);
}
