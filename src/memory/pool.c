/* See pool.h. */
#include "memory/pool.h"

#include <string.h>

#include "base/alloc.h"

void hri_pool_deinit(hri_pool *pool) {
    hri_pool_destroy_pages(pool, pool->spare_count);
    hri_free(pool->spare);
    pool->spare = NULL;
    pool->spare_capacity = 0;
}

/* Keeps the rule that spare can hold every held page. */
static hr_status make_room(hri_pool *pool, uint64_t held) {
    if (held <= pool->spare_capacity) {
        return HR_OK;
    }
    size_t capacity = pool->spare_capacity ? pool->spare_capacity : 64;
    while (capacity < held) {
        capacity *= 2;
    }
    uint64_t *spare = hri_realloc(pool->spare, capacity * sizeof *spare);
    if (!spare) {
        return HR_E_NOMEM_HOST;
    }
    pool->spare = spare;
    pool->spare_capacity = capacity;
    return HR_OK;
}

hr_status hri_pool_create_pages(hri_pool *pool, uint64_t count) {
    if (count > pool->limit_pages - pool->held_pages) {
        return HR_E_LIMIT;
    }
    hr_status status = make_room(pool, pool->held_pages + count);
    if (status != HR_OK) {
        return status;
    }
    for (uint64_t made = 0; made < count; made++) {
        uint64_t page;
        status = pool->source.ops->create(pool->source.self, &page);
        if (status != HR_OK) {
            hri_pool_destroy_pages(pool, made);
            return status;
        }
        pool->spare[pool->spare_count++] = page;
        pool->held_pages++;
    }
    if (pool->held_pages > pool->held_peak_pages) {
        pool->held_peak_pages = pool->held_pages;
    }
    return HR_OK;
}

void hri_pool_destroy_pages(hri_pool *pool, uint64_t count) {
    for (; count > 0; count--) {
        pool->source.ops->destroy(pool->source.self, pool->spare[--pool->spare_count]);
        pool->held_pages--;
    }
}

void hri_pool_put(hri_pool *pool, const uint64_t *pages, size_t count) {
    if (count > 0) {
        memcpy(pool->spare + pool->spare_count, pages, count * sizeof *pages);
    }
    pool->spare_count += count;
}

void hri_pool_take(hri_pool *pool, uint64_t *pages, size_t count) {
    pool->spare_count -= count;
    if (count == 0) {
        return;
    }
    memcpy(pages, pool->spare + pool->spare_count, count * sizeof *pages);
}
