/* The page level of the heap: runs of pages in windows of addresses.  Callers hold the heap's lock. */
#ifndef HRI_MEMORY_RUNS_H
#define HRI_MEMORY_RUNS_H

#include "memory/heap.h"

/* A run of `pages` mapped pages, state HRI_CELL_LARGE.  All or nothing. */
HR_MUST_CHECK hr_status hri_run_alloc(hri_heap *heap, uint64_t pages, uint32_t *out);
/* The run becomes idle and is joined with idle neighbours. */
void hri_run_free(hri_heap *heap, uint32_t id);

/* Puts `count` page numbers, taken from spare, made, or taken away from idle runs, into heap->scratch.  *made says
 * how many are new, for hri_pages_return.  All or nothing. */
HR_MUST_CHECK hr_status hri_pages_gather(hri_heap *heap, uint64_t count, uint64_t *made);
/* Undoes a gather whose pages could not be used. */
void hri_pages_return(hri_heap *heap, uint64_t count, uint64_t made);

/* Takes the pages of idle runs out of their addresses into spare, at least `pages` of them if there are as many and
 * only runs idle for min_age epochs. */
HR_MUST_CHECK hr_status hri_runs_unmap_idle(hri_heap *heap, uint64_t pages, uint32_t min_age);
/* Takes pages up to the limit and maps them, with all spare ones, as an idle run. */
HR_MUST_CHECK hr_status hri_runs_preallocate(hri_heap *heap);
/* Gives up the addresses of windows in which nothing is mapped. */
void hri_runs_close_empty_windows(hri_heap *heap);
/* Takes every window away with whatever is mapped in it; for deinit. */
void hri_runs_close_all(hri_heap *heap);

/* Pages in use by blocks and ranges. */
static inline uint64_t hri_pages_busy(const hri_heap *heap) {
    return heap->pool.held_pages - heap->pool.spare_count - heap->idle_pages;
}

#endif
