/* Giving memory back: trim, the idle clock, and changes of limit and growth while running. */
#include "memory/heap.h"
#include "memory/range.h"
#include "memory/runs.h"

void hri_heap_tick(hri_heap *heap) {
    pthread_mutex_lock(&heap->mutex);
    heap->epoch++;
    pthread_mutex_unlock(&heap->mutex);
}

/* Our own records go too, once nothing is held: what is left of an unused heap is the struct itself. */
static void drop_records(hri_heap *heap) {
    hri_runs_close_empty_windows(heap);
    hri_cells_shrink(&heap->cells);
}

hr_status hri_heap_trim(hri_heap *heap, uint32_t min_age, uint64_t *freed_bytes) {
    hr_status status = HR_OK;
    uint64_t freed_pages = 0;
    pthread_mutex_lock(&heap->mutex);
    if (heap->growth == HR_GROWTH_ON) {
        status = hri_runs_unmap_idle(heap, UINT64_MAX, min_age);
        freed_pages = heap->pool.spare_count;
        hri_pool_destroy_pages(&heap->pool, freed_pages);
        drop_records(heap);
    }
    pthread_mutex_unlock(&heap->mutex);
    if (freed_bytes) {
        *freed_bytes = freed_pages * heap->pool.source.page_bytes;
    }
    return status;
}

hr_status hri_heap_empty(hri_heap *heap) {
    pthread_mutex_lock(&heap->mutex);
    const hr_status status = hri_runs_unmap_idle(heap, UINT64_MAX, 0);
    if (status == HR_OK) {
        hri_pool_destroy_pages(&heap->pool, heap->pool.spare_count);
        drop_records(heap);
        heap->growth = HR_GROWTH_ON; /* holding less than the limit is no longer a fault */
    }
    pthread_mutex_unlock(&heap->mutex);
    return status;
}

/* Gives back idle pages until no more than `pages` are held.  The caller knows that so many are not in use. */
static hr_status shrink_to(hri_heap *heap, uint64_t pages) {
    hri_pool *pool = &heap->pool;
    if (pool->held_pages <= pages) {
        return HR_OK;
    }
    const uint64_t excess = pool->held_pages - pages;
    if (pool->spare_count < excess) {
        const hr_status status = hri_runs_unmap_idle(heap, excess - pool->spare_count, 0);
        if (status != HR_OK) {
            return status;
        }
    }
    hri_pool_destroy_pages(pool, excess);
    return HR_OK;
}

hr_status hri_heap_set_limit(hri_heap *heap, uint64_t limit_bytes, hr_error *why) {
    const uint64_t page_bytes = heap->pool.source.page_bytes;
    const uint64_t pages = limit_bytes / page_bytes;
    if (pages == 0) {
        return HR_E_RANGE;
    }
    pthread_mutex_lock(&heap->mutex);
    const uint64_t old_pages = heap->pool.limit_pages;
    hr_status status = HR_OK;
    if (hri_pages_busy(heap) > pages) {
        status = HR_E_BUSY;
    } else {
        status = shrink_to(heap, pages);
    }
    if (status == HR_OK) {
        heap->pool.limit_pages = pages;
        if (heap->growth == HR_GROWTH_OFF) {
            status = hri_runs_preallocate(heap);
        }
        if (status == HR_OK) {
            heap->limit_bytes = limit_bytes;
        } else {
            heap->pool.limit_pages = old_pages;
        }
    }
    if (status != HR_OK) {
        hri_heap_explain(heap, limit_bytes, why);
    }
    pthread_mutex_unlock(&heap->mutex);
    return status;
}

hr_status hri_heap_set_growth(hri_heap *heap, hr_growth growth, hr_error *why) {
    if (growth != HR_GROWTH_ON && growth != HR_GROWTH_OFF) {
        return HR_E_INVALID;
    }
    hr_status status = HR_OK;
    pthread_mutex_lock(&heap->mutex);
    if (growth == HR_GROWTH_OFF) {
        status = hri_runs_preallocate(heap);
    }
    if (status == HR_OK) {
        heap->growth = growth;
    } else {
        hri_heap_explain(heap, heap->limit_bytes, why);
    }
    pthread_mutex_unlock(&heap->mutex);
    return status;
}
