/* Runs of pages.  A request is met, in this order, by
 *   1. an idle run that is long enough (cut to size; no call to the device),
 *   2. an idle run with a hole above it, lengthened in place,
 *   3. a hole, filled with pages from anywhere.
 * For 2 and 3 the pages come from spare, then from other idle runs, and only then are new ones made: the heap never
 * grows while it holds a page that nobody uses. */
#include "memory/runs.h"

#include "base/alloc.h"

enum {
    WINDOW_PAGES = 16384, /* of addresses at a time; they cost nothing */
    EXTEND_SCAN = 64      /* how many idle runs are looked at for lengthening */
};

static hri_window *window_of(const hri_heap *heap, const hri_cell *run) {
    return heap->windows[run->parent];
}

static uint64_t place_in(const hri_heap *heap, const hri_window *window, const hri_cell *run) {
    return (run->addr - window->base) / heap->pool.source.page_bytes;
}

/* Gives the run its free state and joins it with neighbours of the same state, which leave their bins. */
static uint32_t set_free(hri_heap *heap, uint32_t id, hri_cell_state state, hri_bins *bins) {
    hri_cells *cells = &heap->cells;
    hri_cell *run = hri_cell_at(cells, id);
    run->state = (uint8_t)state;
    run->epoch = heap->epoch;
    if (run->above && hri_cell_at(cells, run->above)->state == state) {
        hri_bins_remove(bins, cells, run->above);
        hri_cell_join(cells, id);
    }
    if (run->below && hri_cell_at(cells, run->below)->state == state) {
        id = run->below;
        hri_bins_remove(bins, cells, id);
        hri_cell_join(cells, id);
        hri_cell_at(cells, id)->epoch = heap->epoch;
    }
    hri_bins_add(bins, cells, id);
    return id;
}

static void set_idle(hri_heap *heap, uint32_t id) {
    heap->idle_pages += hri_cell_at(&heap->cells, id)->units;
    set_free(heap, id, HRI_CELL_IDLE, &heap->idle);
}

static void set_hole(hri_heap *heap, uint32_t id) {
    set_free(heap, id, HRI_CELL_HOLE, &heap->holes);
}

/* ---- windows ---- */

static hr_status window_slot(hri_heap *heap, uint32_t *out) {
    for (uint32_t i = 0; i < heap->window_count; i++) {
        if (!heap->windows[i]) {
            *out = i;
            return HR_OK;
        }
    }
    if (heap->window_count == heap->window_capacity) {
        const uint32_t capacity = heap->window_capacity ? heap->window_capacity * 2 : 4;
        hri_window **windows = hri_realloc(heap->windows, capacity * sizeof *windows);
        if (!windows) {
            return HR_E_NOMEM_HOST;
        }
        heap->windows = windows;
        heap->window_capacity = capacity;
    }
    *out = heap->window_count;
    heap->windows[heap->window_count++] = NULL;
    return HR_OK;
}

/* Reserves addresses for at least `pages` and makes one hole of them.  Needs one cell in reserve. */
static hr_status window_open(hri_heap *heap, uint64_t pages, uint32_t *out_hole) {
    const hri_page_source *source = &heap->pool.source;
    uint64_t size = heap->pool.limit_pages * 2;
    size = size < WINDOW_PAGES ? size : WINDOW_PAGES;
    size = size > pages ? size : pages;
    uint32_t slot;
    hr_status status = window_slot(heap, &slot);
    if (status != HR_OK) {
        return status;
    }
    hri_window *window = hri_calloc(1, sizeof *window);
    uint64_t *page_at = hri_calloc(size, sizeof *page_at);
    if (!window || !page_at) {
        status = HR_E_NOMEM_HOST;
        goto fail;
    }
    status = source->ops->reserve(source->self, size * source->page_bytes, &window->base);
    if (status != HR_OK) {
        goto fail;
    }
    window->pages = size;
    window->page_at = page_at;
    window->first_cell = hri_cell_new(&heap->cells, HRI_CELL_HOLE);
    hri_cell *hole = hri_cell_at(&heap->cells, window->first_cell);
    hole->addr = window->base;
    hole->units = size;
    hole->parent = slot;
    heap->windows[slot] = window;
    hri_bins_add(&heap->holes, &heap->cells, window->first_cell);
    *out_hole = window->first_cell;
    return HR_OK;
fail:
    hri_free(window);
    hri_free(page_at);
    return status;
}

static void window_close(hri_heap *heap, uint32_t slot) {
    hri_window *window = heap->windows[slot];
    const hri_page_source *source = &heap->pool.source;
    source->ops->unreserve(source->self, window->base, window->pages * source->page_bytes);
    hri_free(window->page_at);
    hri_free(window);
    heap->windows[slot] = NULL;
}

void hri_runs_close_empty_windows(hri_heap *heap) {
    for (uint32_t i = 0; i < heap->window_count; i++) {
        hri_window *window = heap->windows[i];
        if (window && hri_cell_at(&heap->cells, window->first_cell)->units == window->pages &&
            hri_cell_at(&heap->cells, window->first_cell)->state == HRI_CELL_HOLE) {
            hri_bins_remove(&heap->holes, &heap->cells, window->first_cell);
            hri_cell_drop(&heap->cells, window->first_cell);
            window_close(heap, i);
        }
    }
}

void hri_runs_close_all(hri_heap *heap) {
    const hri_page_source *source = &heap->pool.source;
    for (uint32_t i = 0; i < heap->window_count; i++) {
        hri_window *window = heap->windows[i];
        if (!window) {
            continue;
        }
        for (uint64_t p = 0; p < window->pages;) {
            uint64_t end = p;
            while (end < window->pages && window->page_at[end]) {
                end++;
            }
            if (end > p) {
                /* Nothing can be done about a failure here, and the pages are destroyed next in any case. */
                const hr_status ignored = source->ops->unmap(
                    source->self, window->base + p * source->page_bytes, (size_t)(end - p));
                (void)ignored;
                hri_pool_put(&heap->pool, window->page_at + p, (size_t)(end - p));
                p = end;
            } else {
                p++;
            }
        }
        window_close(heap, i);
    }
}

/* ---- pages on their way ---- */

static hr_status scratch_room(hri_heap *heap, uint64_t count) {
    if (count <= heap->scratch_capacity) {
        return HR_OK;
    }
    uint64_t *scratch = hri_realloc(heap->scratch, count * sizeof *scratch);
    if (!scratch) {
        return HR_E_NOMEM_HOST;
    }
    heap->scratch = scratch;
    heap->scratch_capacity = count;
    return HR_OK;
}

/* Takes the upper `pages` of an idle run out of their addresses, into spare. */
static hr_status unmap_tail(hri_heap *heap, uint32_t id, uint64_t pages) {
    const hri_page_source *source = &heap->pool.source;
    hr_status status = hri_cells_reserve(&heap->cells, 1);
    if (status != HR_OK) {
        return status;
    }
    hri_cell *run = hri_cell_at(&heap->cells, id);
    hri_window *window = window_of(heap, run);
    const uint64_t keep = run->units - pages;
    const uint64_t place = place_in(heap, window, run) + keep;
    status = source->ops->unmap(source->self, run->addr + keep * source->page_bytes, (size_t)pages);
    if (status != HR_OK) {
        return status;
    }
    hri_pool_put(&heap->pool, window->page_at + place, (size_t)pages);
    for (uint64_t i = 0; i < pages; i++) {
        window->page_at[place + i] = 0;
    }
    hri_bins_remove(&heap->idle, &heap->cells, id);
    heap->idle_pages -= pages;
    uint32_t tail = id;
    if (keep > 0) {
        tail = hri_cell_split(&heap->cells, id, keep, source->page_bytes);
        hri_bins_add(&heap->idle, &heap->cells, id);
    }
    set_hole(heap, tail);
    return HR_OK;
}

hr_status hri_runs_unmap_idle(hri_heap *heap, uint64_t pages, uint32_t min_age) {
    uint64_t done = 0;
    if (min_age == 0) {
        while (done < pages && heap->idle_pages > 0) {
            const uint32_t id = hri_bins_smallest(&heap->idle);
            const uint64_t units = hri_cell_at(&heap->cells, id)->units;
            const uint64_t part = units < pages - done ? units : pages - done;
            const hr_status status = unmap_tail(heap, id, part);
            if (status != HR_OK) {
                return status;
            }
            done += part;
        }
        return HR_OK;
    }
    for (uint32_t w = 0; w < heap->window_count; w++) {
        uint32_t id = heap->windows[w] ? heap->windows[w]->first_cell : 0;
        while (id && done < pages) {
            const hri_cell *run = hri_cell_at(&heap->cells, id);
            if (run->state == HRI_CELL_IDLE && heap->epoch - run->epoch >= min_age) {
                const uint64_t units = run->units;
                const uint32_t below = run->below;
                const hr_status status = unmap_tail(heap, id, units);
                if (status != HR_OK) {
                    return status;
                }
                done += units;
                id = below ? below : heap->windows[w]->first_cell; /* `id` may have been joined */
                run = hri_cell_at(&heap->cells, id);
            }
            id = run->above;
        }
    }
    return HR_OK;
}

void hri_pages_return(hri_heap *heap, uint64_t count, uint64_t made) {
    hri_pool_put(&heap->pool, heap->scratch, (size_t)count);
    hri_pool_destroy_pages(&heap->pool, made);
}

hr_status hri_pages_gather(hri_heap *heap, uint64_t count, uint64_t *made) {
    hri_pool *pool = &heap->pool;
    hr_status status = scratch_room(heap, count);
    if (status != HR_OK) {
        return status;
    }
    /* New pages first: should the device refuse, nothing has been disturbed yet. */
    const uint64_t unused = pool->spare_count + heap->idle_pages;
    const uint64_t fresh = count > unused ? count - unused : 0;
    status = hri_pool_create_pages(pool, fresh);
    if (status != HR_OK) {
        return status;
    }
    if (pool->spare_count < count) {
        status = hri_runs_unmap_idle(heap, count - pool->spare_count, 0);
    }
    if (status != HR_OK) {
        hri_pool_destroy_pages(pool, fresh);
        return status;
    }
    hri_pool_take(pool, heap->scratch, (size_t)count);
    *made = fresh;
    return HR_OK;
}

/* ---- runs ---- */

/* An idle run that a hole right above it could lengthen to `pages`, or 0. */
static uint32_t find_extensible(const hri_heap *heap, uint64_t pages) {
    const hri_cells *cells = &heap->cells;
    uint32_t id = hri_bins_largest(&heap->idle);
    for (int i = 0; id && i < EXTEND_SCAN; i++) {
        const hri_cell *run = hri_cell_at(cells, id);
        if (run->above) {
            const hri_cell *above = hri_cell_at(cells, run->above);
            if (above->state == HRI_CELL_HOLE && above->units >= pages - run->units) {
                return id;
            }
        }
        id = run->bin_next;
    }
    return 0;
}

/* Takes `pages` of a hole out of the bins, so that nothing is joined with it meanwhile. */
static void claim_hole(hri_heap *heap, uint32_t id, uint64_t pages) {
    hri_bins_remove(&heap->holes, &heap->cells, id);
    if (hri_cell_at(&heap->cells, id)->units > pages) {
        const uint32_t rest = hri_cell_split(&heap->cells, id, pages, heap->pool.source.page_bytes);
        hri_bins_add(&heap->holes, &heap->cells, rest);
    }
    hri_cell_at(&heap->cells, id)->state = HRI_CELL_LARGE;
}

static void claim_idle(hri_heap *heap, uint32_t id, uint64_t pages) {
    hri_bins_remove(&heap->idle, &heap->cells, id);
    if (hri_cell_at(&heap->cells, id)->units > pages) {
        const uint32_t rest = hri_cell_split(&heap->cells, id, pages, heap->pool.source.page_bytes);
        hri_bins_add(&heap->idle, &heap->cells, rest);
    }
    heap->idle_pages -= hri_cell_at(&heap->cells, id)->units;
    hri_cell_at(&heap->cells, id)->state = HRI_CELL_LARGE;
}

/* Maps gathered pages at a claimed hole. */
static hr_status fill_hole(hri_heap *heap, uint32_t id) {
    const hri_page_source *source = &heap->pool.source;
    const hri_cell *hole = hri_cell_at(&heap->cells, id);
    const uint64_t pages = hole->units;
    uint64_t made;
    hr_status status = hri_pages_gather(heap, pages, &made);
    if (status != HR_OK) {
        return status;
    }
    status = source->ops->map(source->self, hole->addr, heap->scratch, (size_t)pages);
    if (status != HR_OK) {
        hri_pages_return(heap, pages, made);
        return status;
    }
    hri_window *window = window_of(heap, hole);
    const uint64_t place = place_in(heap, window, hole);
    for (uint64_t i = 0; i < pages; i++) {
        window->page_at[place + i] = heap->scratch[i];
    }
    heap->maps += pages;
    return HR_OK;
}

static hr_status find_hole(hri_heap *heap, uint64_t pages, uint32_t *out) {
    *out = hri_bins_find(&heap->holes, &heap->cells, pages);
    return *out ? HR_OK : window_open(heap, pages, out);
}

hr_status hri_run_alloc(hri_heap *heap, uint64_t pages, uint32_t *out) {
    hr_status status = hri_cells_reserve(&heap->cells, 4);
    if (status != HR_OK) {
        return status;
    }
    const uint32_t ready = hri_bins_find(&heap->idle, &heap->cells, pages);
    if (ready) {
        claim_idle(heap, ready, pages);
        *out = ready;
        return HR_OK;
    }
    if (pages > heap->pool.limit_pages - hri_pages_busy(heap)) {
        return HR_E_LIMIT;
    }
    uint32_t hole;
    const uint32_t start = find_extensible(heap, pages);
    if (start) {
        const uint64_t have = hri_cell_at(&heap->cells, start)->units;
        hole = hri_cell_at(&heap->cells, start)->above;
        claim_idle(heap, start, have);
        claim_hole(heap, hole, pages - have);
    } else {
        status = find_hole(heap, pages, &hole);
        if (status != HR_OK) {
            return status;
        }
        claim_hole(heap, hole, pages);
    }
    status = fill_hole(heap, hole);
    if (status != HR_OK) {
        set_hole(heap, hole);
        if (start) {
            set_idle(heap, start);
        }
        return status;
    }
    if (start) {
        hri_cell_join(&heap->cells, start);
    }
    *out = start ? start : hole;
    return HR_OK;
}

void hri_run_free(hri_heap *heap, uint32_t id) {
    set_idle(heap, id);
}

hr_status hri_runs_preallocate(hri_heap *heap) {
    const uint64_t make = heap->pool.limit_pages - heap->pool.held_pages;
    uint32_t hole;
    hr_status status = hri_pool_create_pages(&heap->pool, make);
    if (status != HR_OK) {
        return status;
    }
    const uint64_t count = heap->pool.spare_count;
    if (count == 0) {
        return HR_OK;
    }
    status = hri_cells_reserve(&heap->cells, 4);
    if (status == HR_OK) {
        status = find_hole(heap, count, &hole);
    }
    if (status == HR_OK) {
        claim_hole(heap, hole, count);
        status = fill_hole(heap, hole); /* from spare alone: there is enough of it */
        if (status == HR_OK) {
            set_idle(heap, hole);
            return HR_OK;
        }
        set_hole(heap, hole);
    }
    hri_pool_destroy_pages(&heap->pool, make);
    return status;
}
