/* The heap of a logical device: blocks of any size, from any thread, under an exact limit.
 *
 * The one idea: addresses are plenty, pages are few.  Large blocks are runs of pages in windows of reserved addresses;
 * a freed run stays mapped and is joined with its idle neighbours, so that the next request of a like size costs no
 * call to the device.  When no single idle run is long enough, the pages of several are taken from where they are and
 * mapped side by side in a hole of the window: a request that the free pages can serve is served.  Small blocks share
 * pages, cut in units of 256 bytes.
 *
 * Rules, which hold whenever the lock is free (hri_heap_check walks them):
 *   held <= limit;  held = pages in use + idle + spare;  no page is made while one is idle or spare
 *   a block larger than half a page wastes less than one page
 *   cells cover every window and every cut page without gap or overlap; no two neighbours are both idle or both free
 *
 * One lock a heap makes every call atomic: what a thread sees refused, some serial order refuses.  The lock is held
 * over calls to the device too; that is the price of exactness, paid on the slow path only.
 *
 * Files: cell (records), bins (free cells by size), pool (pages held), runs (page level), small (inside a page),
 * heap (blocks), range (plans' arenas), trim, account, heap_check. */
#ifndef HRI_MEMORY_HEAP_H
#define HRI_MEMORY_HEAP_H

#include <pthread.h>
#include <headroom/memory.h>
#include "memory/account.h"
#include "memory/bins.h"
#include "memory/cell.h"
#include "memory/pool.h"
#include "memory/source.h"

enum { HRI_UNIT_BYTES = 256 };

/* A stretch of reserved addresses. */
typedef struct hri_window {
    hr_addr base;
    uint64_t pages;
    uint64_t *page_at; /* (pages): the page mapped at each place, 0 for none */
    uint32_t first_cell;
} hri_window;

typedef struct hri_heap {
    pthread_mutex_t mutex;
    hri_pool pool;
    hri_cells cells;
    hri_bins idle;  /* runs of mapped pages that nobody uses */
    hri_bins holes; /* runs of addresses without pages */
    hri_bins small; /* free stretches inside cut pages */
    uint64_t idle_pages;
    hri_window **windows; /* a closed window leaves NULL behind */
    uint32_t window_count, window_capacity;
    uint64_t *scratch; /* page numbers on their way from one place to another */
    size_t scratch_capacity;
    hri_accounts account;
    hr_range *ranges; /* list */
    uint64_t range_count;
    uint64_t limit_bytes; /* as the user said it; the pool's limit is in whole pages */
    uint64_t allocs, frees, refusals, maps;
    uint32_t epoch; /* moved by the idle trimmer */
    hr_growth growth;
} hri_heap;

/* Takes no memory yet, except with growth off.  HR_E_RANGE when the limit is under one page.  On failure nothing
 * needs deinit. */
HR_MUST_CHECK hr_status hri_heap_init(hri_heap *heap, const hri_page_source *source,
                                      uint64_t limit_bytes, hr_growth growth);
/* Gives everything back, live blocks and ranges included. */
void hri_heap_deinit(hri_heap *heap);

/* As hr_block_alloc; on HR_E_LIMIT, HR_E_NOMEM_DEVICE and HR_E_NOMEM_HOST the numbers and holders of `why` (may be
 * NULL) are filled, as they were at the moment of the refusal. */
HR_MUST_CHECK hr_status hri_heap_alloc(hri_heap *heap, uint64_t bytes, hr_category category,
                                       hr_owner owner, hr_block *out, hr_error *why);
HR_MUST_CHECK hr_status hri_heap_free(hri_heap *heap, const hr_block *block);

/* Gives idle pages back; with min_age > 0 only runs idle for that many epochs. */
HR_MUST_CHECK hr_status hri_heap_trim(hri_heap *heap, uint32_t min_age, uint64_t *freed_bytes);
/* Gives every page back, whatever the growth, from a heap that is not in use; what follows is hri_heap_deinit. */
HR_MUST_CHECK hr_status hri_heap_empty(hri_heap *heap);
/* One tick of the idle clock. */
void hri_heap_tick(hri_heap *heap);
HR_MUST_CHECK hr_status hri_heap_set_limit(hri_heap *heap, uint64_t limit_bytes, hr_error *why);
HR_MUST_CHECK hr_status hri_heap_set_growth(hri_heap *heap, hr_growth growth, hr_error *why);

HR_MUST_CHECK hr_status hri_heap_owner(hri_heap *heap, const char *name, hr_owner *out);
HR_MUST_CHECK hr_status hri_heap_owner_usage(hri_heap *heap, hr_owner owner, hr_usage *out,
                                             char *name, size_t name_size);
void hri_heap_stats(hri_heap *heap, hr_stats *out);
void hri_heap_reset_peaks(hri_heap *heap);
/* 1 while blocks or ranges live in it; the holders go into `why` when it is not NULL. */
int hri_heap_is_busy(hri_heap *heap, hr_error *why);
/* HR_OK, or HR_E_INTERNAL with the broken rule in `text`. */
HR_MUST_CHECK hr_status hri_heap_check(hri_heap *heap, char *text, size_t size);

/* ---- ranges (range.c) ---- */

/* `why` as in hri_heap_alloc. */
HR_MUST_CHECK hr_status hri_range_create(hri_heap *heap, uint64_t reserve_bytes,
                                         hr_category category, hr_owner owner, hr_range **out);
HR_MUST_CHECK hr_status hri_range_destroy(hr_range *range);
HR_MUST_CHECK hr_status hri_range_resize(hr_range *range, uint64_t bytes, hr_error *why);
HR_MUST_CHECK hr_status hri_range_share(hr_range *of, uint64_t bytes, hr_range **out);
hri_heap *hri_range_heap(const hr_range *range);

#endif
