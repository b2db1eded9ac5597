/* Ranges: reserved addresses whose pages come and go at the upper end, for arenas of plans.
 *
 * A range takes its pages from the same pool as the blocks, so one limit bounds both.  A sharing range maps pages of
 * another and holds none itself; the other cannot be destroyed or shrink below it meanwhile. */
#include "memory/range.h"

#include "base/alloc.h"
#include "memory/runs.h"

static uint64_t pages_of(const hri_heap *heap, uint64_t bytes) {
    const uint64_t page_bytes = heap->pool.source.page_bytes;
    return bytes / page_bytes + (bytes % page_bytes != 0);
}

static void list_add(hri_heap *heap, hr_range *range) {
    range->next = heap->ranges;
    if (heap->ranges) {
        heap->ranges->prev = range;
    }
    heap->ranges = range;
    heap->range_count++;
}

static void list_remove(hri_heap *heap, hr_range *range) {
    if (range->prev) {
        range->prev->next = range->next;
    } else {
        heap->ranges = range->next;
    }
    if (range->next) {
        range->next->prev = range->prev;
    }
    heap->range_count--;
}

/* Books the change from `range->bytes` to `bytes`.  A sharing range holds nothing and is not booked. */
static void book(hr_range *range, uint64_t bytes, uint64_t pages) {
    hri_accounts *account = &range->heap->account;
    const uint64_t page_bytes = range->heap->pool.source.page_bytes;
    if (range->bytes > 0) {
        hri_account_remove(account, range->owner, range->category, range->bytes,
                           range->page_count * page_bytes);
    }
    if (bytes > 0) {
        hri_account_add(account, range->owner, range->category, bytes, pages * page_bytes);
    }
}

/* A range without pages, not yet in the list. */
static hr_status range_new(hri_heap *heap, uint64_t pages, hr_range **out) {
    const hri_page_source *source = &heap->pool.source;
    hr_range *range = hri_calloc(1, sizeof *range);
    uint64_t *numbers = hri_calloc(pages, sizeof *numbers);
    hr_status status = range && numbers ? HR_OK : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        status = source->ops->reserve(source->self, pages * source->page_bytes, &range->base);
    }
    if (status != HR_OK) {
        hri_free(range);
        hri_free(numbers);
        return status;
    }
    range->heap = heap;
    range->pages = numbers;
    range->reserve_pages = pages;
    *out = range;
    return HR_OK;
}

static void range_drop(hr_range *range) {
    const hri_page_source *source = &range->heap->pool.source;
    source->ops->unreserve(source->self, range->base, range->reserve_pages * source->page_bytes);
    hri_free(range->pages);
    hri_free(range);
}

hr_status hri_range_create(hri_heap *heap, uint64_t reserve_bytes, hr_category category,
                           hr_owner owner, hr_range **out) {
    if (reserve_bytes == 0 || (unsigned)category >= HR_CATEGORY_COUNT) {
        return HR_E_INVALID;
    }
    if (reserve_bytes > UINT64_C(1) << 56) {
        return HR_E_RANGE;
    }
    hr_range *range;
    pthread_mutex_lock(&heap->mutex);
    hr_status status = owner < heap->account.owner_count ? HR_OK : HR_E_INVALID;
    if (status == HR_OK) {
        status = range_new(heap, pages_of(heap, reserve_bytes), &range);
    }
    if (status == HR_OK) {
        range->owner = owner;
        range->category = (uint8_t)category;
        list_add(heap, range);
        *out = range;
    }
    pthread_mutex_unlock(&heap->mutex);
    return status;
}

static hr_status grow(hr_range *range, uint64_t pages) {
    hri_heap *heap = range->heap;
    const hri_page_source *source = &heap->pool.source;
    const uint64_t more = pages - range->page_count;
    uint64_t made;
    if (more > heap->pool.limit_pages - hri_pages_busy(heap)) {
        return HR_E_LIMIT;
    }
    hr_status status = hri_pages_gather(heap, more, &made);
    if (status != HR_OK) {
        return status;
    }
    status = source->ops->map(source->self, range->base + range->page_count * source->page_bytes,
                              heap->scratch, (size_t)more);
    if (status != HR_OK) {
        hri_pages_return(heap, more, made);
        return status;
    }
    for (uint64_t i = 0; i < more; i++) {
        range->pages[range->page_count + i] = heap->scratch[i];
    }
    heap->maps += more;
    return HR_OK;
}

/* The most pages that a sharing range sees of `range`. */
static uint64_t shared_pages(const hr_range *range) {
    uint64_t most = 0;
    for (const hr_range *r = range->heap->ranges; r && range->sharers > 0; r = r->next) {
        if (r->of == range && r->page_count > most) {
            most = r->page_count;
        }
    }
    return most;
}

static hr_status unmap_from(hr_range *range, uint64_t pages) {
    const hri_page_source *source = &range->heap->pool.source;
    const uint64_t less = range->page_count - pages;
    if (less == 0) {
        return HR_OK;
    }
    const hr_status status =
        source->ops->unmap(source->self, range->base + pages * source->page_bytes, (size_t)less);
    if (status == HR_OK && !range->of) {
        hri_pool_put(&range->heap->pool, range->pages + pages, (size_t)less);
    }
    return status;
}

hr_status hri_range_resize(hr_range *range, uint64_t bytes, hr_error *why) {
    hri_heap *heap = range->heap;
    const uint64_t pages = pages_of(heap, bytes);
    hr_status status = HR_OK;
    pthread_mutex_lock(&heap->mutex);
    if (range->of) {
        status = HR_E_INVALID; /* its pages are another's */
    } else if (pages > range->reserve_pages) {
        status = HR_E_RANGE;
    } else if (pages < shared_pages(range)) {
        status = HR_E_BUSY;
    } else if (pages > range->page_count) {
        status = grow(range, pages);
    } else {
        status = unmap_from(range, pages);
    }
    if (status == HR_OK) {
        book(range, bytes, pages);
        range->page_count = pages;
        range->bytes = bytes;
    } else if (status != HR_E_INVALID) {
        heap->refusals += status == HR_E_LIMIT || status == HR_E_NOMEM_DEVICE;
        hri_heap_explain(heap, bytes, why);
    }
    pthread_mutex_unlock(&heap->mutex);
    return status;
}

hr_status hri_range_share(hr_range *of, uint64_t bytes, hr_range **out) {
    hri_heap *heap = of->heap;
    const hri_page_source *source = &heap->pool.source;
    const uint64_t pages = pages_of(heap, bytes);
    hr_range *range = NULL;
    hr_status status = HR_OK;
    if (bytes == 0) {
        return HR_E_INVALID;
    }
    pthread_mutex_lock(&heap->mutex);
    if (of->of) {
        status = HR_E_INVALID; /* share the first, not a share of it */
    } else if (pages > of->page_count) {
        status = HR_E_RANGE;
    } else {
        status = range_new(heap, pages, &range);
    }
    if (status == HR_OK) {
        status = source->ops->map(source->self, range->base, of->pages, (size_t)pages);
        if (status != HR_OK) {
            range_drop(range);
        }
    }
    if (status == HR_OK) {
        range->of = of;
        range->page_count = pages;
        range->bytes = bytes;
        range->owner = of->owner;
        range->category = of->category;
        of->sharers++;
        heap->maps += pages;
        list_add(heap, range);
        *out = range;
    }
    pthread_mutex_unlock(&heap->mutex);
    return status;
}

hr_status hri_range_destroy(hr_range *range) {
    hri_heap *heap = range->heap;
    pthread_mutex_lock(&heap->mutex);
    hr_status status = range->sharers > 0 ? HR_E_BUSY : unmap_from(range, 0);
    if (status == HR_OK) {
        if (range->of) {
            range->of->sharers--;
        } else {
            book(range, 0, 0);
        }
        list_remove(heap, range);
        range_drop(range);
    }
    pthread_mutex_unlock(&heap->mutex);
    return status;
}

void hri_ranges_close_all(hri_heap *heap) {
    while (heap->ranges) {
        hr_range *range = heap->ranges;
        /* Nothing can be done about a failure here; the pages are destroyed with the pool. */
        const hr_status ignored = unmap_from(range, 0);
        if (ignored != HR_OK && !range->of) {
            hri_pool_put(&heap->pool, range->pages, (size_t)range->page_count);
        }
        list_remove(heap, range);
        range_drop(range);
    }
}

hri_heap *hri_range_heap(const hr_range *range) {
    return range->heap;
}

hr_addr hr_range_addr(const hr_range *range) {
    return range->base;
}

uint64_t hr_range_bytes(const hr_range *range) {
    return range->bytes;
}
