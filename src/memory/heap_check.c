/* The walk over every invariant of a heap.  It counts again, from the cells and the pages, everything the heap keeps
 * as a number, and looks at each free cell's bin.  It shares no code with what it checks but the data structures. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "memory/range.h"

typedef struct walk {
    const hri_heap *heap;
    char *text;
    size_t size;
    uint64_t idle_pages, busy_pages, cells;
    uint64_t idle_runs, holes, free_small;
    hr_usage category[HR_CATEGORY_COUNT];
    uint64_t blocks;
} walk;

static int broken(walk *w, const char *format, ...) HR_PRINTF(2, 3);
static int broken(walk *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    hri_vsnprintf(w->text, w->size, format, args);
    va_end(args);
    return 0;
}

static void count_block(walk *w, const hri_cell *cell, uint64_t unit_bytes) {
    hr_usage *usage = &w->category[cell->category];
    usage->live_bytes += cell->asked_bytes;
    usage->held_bytes += cell->units * unit_bytes;
    usage->blocks++;
    w->blocks++;
}

static int walk_page(walk *w, uint32_t page_id, uint32_t first) {
    const hri_heap *heap = w->heap;
    const hri_cell *page = hri_cell_at(&heap->cells, page_id);
    uint64_t at = page->addr, below = 0;
    int before_free = 0;
    for (uint32_t id = first; id; id = hri_cell_at(&heap->cells, id)->above) {
        const hri_cell *cell = hri_cell_at(&heap->cells, id);
        const int is_free = cell->state == HRI_CELL_FREE;
        if (cell->addr != at || cell->below != below || cell->parent != page_id ||
            cell->units == 0) {
            return broken(w, "small cell %u is not where its page has it", id);
        }
        if (!is_free && cell->state != HRI_CELL_SMALL) {
            return broken(w, "small cell %u has state %d", id, cell->state);
        }
        if (is_free && before_free) {
            return broken(w, "two free small cells lie side by side at %u", id);
        }
        if (!is_free &&
            (cell->asked_bytes == 0 || cell->asked_bytes > cell->units * HRI_UNIT_BYTES ||
             cell->asked_bytes + HRI_UNIT_BYTES <= cell->units * HRI_UNIT_BYTES)) {
            return broken(w, "small block %u holds more or less than was asked for", id);
        }
        if (!is_free) {
            count_block(w, cell, HRI_UNIT_BYTES);
        }
        w->free_small += (uint64_t)is_free;
        before_free = is_free;
        w->cells++;
        below = id;
        at += cell->units * HRI_UNIT_BYTES;
    }
    if (at != page->addr + heap->pool.source.page_bytes) {
        return broken(w, "the cells of page %u do not fill it", page_id);
    }
    return 1;
}

/* The lowest small cell of every page, found by walking all records: pages do not point down to their cells. */
static uint32_t *lowest_cells(const hri_heap *heap) {
    const uint32_t count = heap->cells.chunk_count * HRI_CELL_CHUNK;
    uint32_t *lowest = hri_calloc(count ? count : 1, sizeof *lowest);
    for (uint32_t id = 1; lowest && id < count; id++) {
        const hri_cell *cell = hri_cell_at(&heap->cells, id);
        if ((cell->state == HRI_CELL_FREE || cell->state == HRI_CELL_SMALL) && cell->below == 0) {
            lowest[cell->parent] = id;
        }
    }
    return lowest;
}

static int check_run(walk *w, uint32_t id, const hri_cell *run, const hri_window *window) {
    const hri_heap *heap = w->heap;
    const uint64_t page_bytes = heap->pool.source.page_bytes;
    const uint64_t place = (run->addr - window->base) / page_bytes;
    for (uint64_t i = 0; i < run->units; i++) {
        if ((window->page_at[place + i] != 0) != (run->state != HRI_CELL_HOLE)) {
            return broken(w, "run %u and its pages do not agree on being mapped", id);
        }
    }
    switch (run->state) {
    case HRI_CELL_HOLE:
        w->holes++;
        return 1;
    case HRI_CELL_IDLE:
        w->idle_runs++;
        w->idle_pages += run->units;
        return 1;
    case HRI_CELL_LARGE:
        w->busy_pages += run->units;
        if (run->asked_bytes == 0 || run->asked_bytes > run->units * page_bytes ||
            run->asked_bytes + page_bytes <= run->units * page_bytes) {
            return broken(w, "large block %u wastes a page or more", id);
        }
        count_block(w, run, page_bytes);
        return 1;
    case HRI_CELL_PAGE:
        w->busy_pages += run->units;
        return run->units == 1 || broken(w, "cut page %u is not one page", id);
    default:
        return broken(w, "run %u has state %d", id, run->state);
    }
}

static int walk_window(walk *w, uint32_t slot, const uint32_t *lowest) {
    const hri_heap *heap = w->heap;
    const hri_window *window = heap->windows[slot];
    uint64_t at = window->base, below = 0;
    int before = -1;
    for (uint32_t id = window->first_cell; id; id = hri_cell_at(&heap->cells, id)->above) {
        const hri_cell *run = hri_cell_at(&heap->cells, id);
        if (run->addr != at || run->below != below || run->parent != slot || run->units == 0) {
            return broken(w, "run %u is not where its window has it", id);
        }
        if (run->state == before && (run->state == HRI_CELL_HOLE || run->state == HRI_CELL_IDLE)) {
            return broken(w, "two free runs lie side by side at %u", id);
        }
        if (!check_run(w, id, run, window) ||
            (run->state == HRI_CELL_PAGE && !walk_page(w, id, lowest[id]))) {
            return 0;
        }
        w->cells++;
        before = run->state;
        below = id;
        at += run->units * heap->pool.source.page_bytes;
    }
    return at == window->base + window->pages * heap->pool.source.page_bytes ||
           broken(w, "the runs of window %u do not fill it", slot);
}

/* Every cell in a bin is of that bin's kind, and there are as many as the walk has seen. */
static int check_bins(walk *w, const hri_bins *bins, hri_cell_state state, uint64_t expected) {
    uint64_t found = 0;
    for (uint32_t level = 0; level < HRI_BINS_LEVELS; level++) {
        for (uint32_t sub = 0; sub < HRI_BINS_SUB; sub++) {
            uint32_t prev = 0, id = bins->head[level][sub];
            if ((id != 0) != ((bins->subs[level] >> sub & 1) != 0) ||
                ((bins->levels >> level & 1) != 0) != (bins->subs[level] != 0)) {
                return broken(w, "the map of bin %u.%u is wrong", level, sub);
            }
            for (; id; prev = id, id = hri_cell_at(&w->heap->cells, id)->bin_next) {
                const hri_cell *cell = hri_cell_at(&w->heap->cells, id);
                if (cell->state != state || cell->bin_prev != prev || ++found > expected) {
                    return broken(w, "cell %u does not belong in its bin", id);
                }
            }
        }
    }
    return found == expected ||
           broken(w, "%llu cells of state %d are in bins, %llu exist", (unsigned long long)found,
                  (int)state, (unsigned long long)expected);
}

static int walk_ranges(walk *w) {
    const hri_heap *heap = w->heap;
    uint64_t count = 0;
    for (const hr_range *r = heap->ranges; r; r = r->next) {
        count++;
        if (r->page_count > r->reserve_pages || (r->of && r->page_count > r->of->page_count)) {
            return broken(w, "a range has more pages than it may");
        }
        if (r->of) {
            continue;
        }
        w->busy_pages += r->page_count;
        if (r->bytes > 0) {
            hr_usage *usage = &w->category[r->category];
            usage->live_bytes += r->bytes;
            usage->held_bytes += r->page_count * heap->pool.source.page_bytes;
            usage->blocks++;
        }
    }
    return count == heap->range_count || broken(w, "the count of ranges is wrong");
}

static int check_account(walk *w) {
    const hri_accounts *account = &w->heap->account;
    uint64_t live = 0, held = 0, owners_live = 0;
    for (int c = 0; c < HR_CATEGORY_COUNT; c++) {
        const hr_usage *is = &account->category[c], *counted = &w->category[c];
        if (is->live_bytes != counted->live_bytes || is->held_bytes != counted->held_bytes ||
            is->blocks != counted->blocks || is->peak_bytes < is->live_bytes) {
            return broken(w, "the account of category %d is wrong", c);
        }
        live += is->live_bytes;
        held += is->held_bytes;
    }
    for (uint32_t i = 0; i < account->owner_count; i++) {
        owners_live += account->owners[i].usage.live_bytes;
    }
    return (live == account->total.live_bytes && held == account->total.held_bytes &&
            owners_live == live) ||
           broken(w, "the accounts do not add up");
}

static int check_pages(walk *w) {
    const hri_heap *heap = w->heap;
    const hri_pool *pool = &heap->pool;
    if (pool->held_pages > pool->limit_pages || pool->held_pages > pool->held_peak_pages) {
        return broken(w, "held is above the limit or its peak");
    }
    if (w->idle_pages != heap->idle_pages) {
        return broken(w, "idle pages are miscounted");
    }
    if (w->busy_pages + w->idle_pages + pool->spare_count != pool->held_pages) {
        return broken(w, "pages in use, idle and spare do not add up to those held");
    }
    if (heap->growth == HR_GROWTH_OFF && pool->held_pages != pool->limit_pages) {
        return broken(w, "growth is off, but the limit is not held");
    }
    return w->cells == heap->cells.used_count || broken(w, "a cell is lost");
}

static int walk_all(walk *w, const uint32_t *lowest) {
    for (uint32_t i = 0; i < w->heap->window_count; i++) {
        if (w->heap->windows[i] && !walk_window(w, i, lowest)) {
            return 0;
        }
    }
    if (w->blocks != w->heap->allocs - w->heap->frees) {
        return broken(w, "the count of blocks is wrong");
    }
    return walk_ranges(w) && check_pages(w) && check_account(w) &&
           check_bins(w, &w->heap->idle, HRI_CELL_IDLE, w->idle_runs) &&
           check_bins(w, &w->heap->holes, HRI_CELL_HOLE, w->holes) &&
           check_bins(w, &w->heap->small, HRI_CELL_FREE, w->free_small);
}

hr_status hri_heap_check(hri_heap *heap, char *text, size_t size) {
    walk w = {.heap = heap, .text = text, .size = size};
    pthread_mutex_lock(&heap->mutex);
    uint32_t *lowest = lowest_cells(heap);
    hr_status status = HR_E_NOMEM_HOST;
    if (lowest) {
        status = walk_all(&w, lowest) ? HR_OK : HR_E_INTERNAL;
    }
    hri_free(lowest);
    pthread_mutex_unlock(&heap->mutex);
    return status;
}
