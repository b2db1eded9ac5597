/* Blocks: the lock, the choice between the two levels, the accounts, and the numbers of a refusal. */
#include "memory/heap.h"

#include <string.h>

#include "base/alloc.h"
#include "memory/range.h"
#include "memory/runs.h"
#include "memory/small.h"

hr_status hri_heap_init(hri_heap *heap, const hri_page_source *source, uint64_t limit_bytes,
                        hr_growth growth) {
    if (limit_bytes < source->page_bytes) {
        return HR_E_RANGE;
    }
    memset(heap, 0, sizeof *heap);
    heap->pool.source = *source;
    heap->pool.limit_pages = limit_bytes / source->page_bytes;
    heap->limit_bytes = limit_bytes;
    heap->growth = growth;
    pthread_mutex_init(&heap->mutex, NULL);
    hr_status status = hri_account_init(&heap->account);
    if (status == HR_OK && growth == HR_GROWTH_OFF) {
        status = hri_runs_preallocate(heap);
    }
    if (status != HR_OK) {
        hri_heap_deinit(heap);
    }
    return status;
}

void hri_heap_deinit(hri_heap *heap) {
    hri_ranges_close_all(heap);
    hri_runs_close_all(heap);
    hri_free(heap->windows);
    hri_free(heap->scratch);
    hri_cells_deinit(&heap->cells);
    hri_pool_deinit(&heap->pool);
    hri_account_deinit(&heap->account);
    pthread_mutex_destroy(&heap->mutex);
}

static int is_small(const hri_heap *heap, uint64_t bytes) {
    return bytes <= heap->pool.source.page_bytes / 2;
}

uint64_t hri_heap_largest_free(const hri_heap *heap) {
    const uint64_t pages = heap->pool.limit_pages - hri_pages_busy(heap);
    return pages ? pages * heap->pool.source.page_bytes
                 : hri_bins_largest_units(&heap->small, &heap->cells) * HRI_UNIT_BYTES;
}

void hri_heap_explain(hri_heap *heap, uint64_t wanted_bytes, hr_error *why) {
    if (!why) {
        return;
    }
    const uint64_t page_bytes = heap->pool.source.page_bytes;
    why->wanted_bytes = wanted_bytes;
    why->limit_bytes = heap->limit_bytes;
    why->held_bytes = heap->pool.held_pages * page_bytes;
    why->live_bytes = heap->account.total.live_bytes;
    why->free_bytes = (heap->pool.limit_pages - hri_pages_busy(heap)) * page_bytes;
    why->largest_free_bytes = hri_heap_largest_free(heap);
    hri_account_top(&heap->account, why);
}

hr_status hri_heap_alloc(hri_heap *heap, uint64_t bytes, hr_category category, hr_owner owner,
                         hr_block *out, hr_error *why) {
    if (bytes == 0 || (unsigned)category >= HR_CATEGORY_COUNT) {
        return HR_E_INVALID;
    }
    const uint64_t page_bytes = heap->pool.source.page_bytes;
    uint32_t id;
    hr_status status;
    pthread_mutex_lock(&heap->mutex);
    if (owner >= heap->account.owner_count) {
        pthread_mutex_unlock(&heap->mutex);
        return HR_E_INVALID;
    }
    uint64_t held;
    if (is_small(heap, bytes)) {
        const uint64_t units = (bytes + HRI_UNIT_BYTES - 1) / HRI_UNIT_BYTES;
        held = units * HRI_UNIT_BYTES;
        status = hri_small_alloc(heap, units, &id);
    } else {
        const uint64_t pages = bytes / page_bytes + (bytes % page_bytes != 0);
        held = pages * page_bytes;
        status = pages > heap->pool.limit_pages ? HR_E_LIMIT : hri_run_alloc(heap, pages, &id);
    }
    if (status == HR_OK) {
        hri_cell *cell = hri_cell_at(&heap->cells, id);
        cell->asked_bytes = bytes;
        cell->owner = owner;
        cell->category = (uint8_t)category;
        /* A cell may serve many blocks one after another: each gets a number of its own. */
        cell->generation = ++heap->cells.last_generation;
        hri_account_add(&heap->account, owner, (uint32_t)category, bytes, held);
        heap->allocs++;
        out->addr = cell->addr;
        out->bytes = bytes;
        out->handle = hri_cell_handle(&heap->cells, id);
    } else {
        heap->refusals++;
        hri_heap_explain(heap, bytes, why);
    }
    pthread_mutex_unlock(&heap->mutex);
    return status;
}

hr_status hri_heap_free(hri_heap *heap, const hr_block *block) {
    pthread_mutex_lock(&heap->mutex);
    const uint32_t id = hri_cell_of_handle(&heap->cells, block->handle);
    const hri_cell *cell = id ? hri_cell_at(&heap->cells, id) : NULL;
    if (!cell || cell->addr != block->addr) {
        pthread_mutex_unlock(&heap->mutex);
        return HR_E_INVALID;
    }
    const int small = cell->state == HRI_CELL_SMALL;
    const uint64_t unit_bytes = small ? HRI_UNIT_BYTES : heap->pool.source.page_bytes;
    hri_account_remove(&heap->account, cell->owner, cell->category, cell->asked_bytes,
                       cell->units * unit_bytes);
    heap->frees++;
    if (small) {
        hri_small_free(heap, id);
    } else {
        hri_run_free(heap, id);
    }
    pthread_mutex_unlock(&heap->mutex);
    return HR_OK;
}

hr_status hri_heap_owner(hri_heap *heap, const char *name, hr_owner *out) {
    pthread_mutex_lock(&heap->mutex);
    const hr_status status = hri_account_owner_get(&heap->account, name, out);
    pthread_mutex_unlock(&heap->mutex);
    return status;
}

hr_status hri_heap_owner_usage(hri_heap *heap, hr_owner owner, hr_usage *out, char *name,
                               size_t name_size) {
    hr_status status = HR_E_NOT_FOUND;
    pthread_mutex_lock(&heap->mutex);
    if (owner < heap->account.owner_count) {
        const hri_account_owner *record = &heap->account.owners[owner];
        *out = record->usage;
        if (name && name_size > 0) {
            strncpy(name, record->name, name_size - 1);
            name[name_size - 1] = '\0';
        }
        status = HR_OK;
    }
    pthread_mutex_unlock(&heap->mutex);
    return status;
}

void hri_heap_stats(hri_heap *heap, hr_stats *out) {
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&heap->mutex);
    const uint64_t page_bytes = heap->pool.source.page_bytes;
    out->limit_bytes = heap->limit_bytes;
    out->held_bytes = heap->pool.held_pages * page_bytes;
    out->held_peak_bytes = heap->pool.held_peak_pages * page_bytes;
    out->live_bytes = heap->account.total.live_bytes;
    out->live_peak_bytes = heap->account.total.peak_bytes;
    out->idle_bytes = (heap->idle_pages + heap->pool.spare_count) * page_bytes;
    out->free_bytes = (heap->pool.limit_pages - hri_pages_busy(heap)) * page_bytes;
    out->largest_free_bytes = hri_heap_largest_free(heap);
    out->ranges = heap->range_count;
    out->blocks = heap->allocs - heap->frees;
    out->allocs = heap->allocs;
    out->frees = heap->frees;
    out->refusals = heap->refusals;
    out->maps = heap->maps;
    out->growth = heap->growth;
    out->owner_count = heap->account.owner_count;
    _Static_assert(sizeof heap->account.category <= sizeof out->category, "places for categories");
    memcpy(out->category, heap->account.category, sizeof heap->account.category);
    pthread_mutex_unlock(&heap->mutex);
}

void hri_heap_reset_peaks(hri_heap *heap) {
    pthread_mutex_lock(&heap->mutex);
    heap->pool.held_peak_pages = heap->pool.held_pages;
    hri_account_reset_peaks(&heap->account);
    pthread_mutex_unlock(&heap->mutex);
}

int hri_heap_is_busy(hri_heap *heap, hr_error *why) {
    pthread_mutex_lock(&heap->mutex);
    const int busy = heap->allocs != heap->frees || heap->range_count > 0;
    if (busy) {
        hri_heap_explain(heap, 0, why);
    }
    pthread_mutex_unlock(&heap->mutex);
    return busy;
}
