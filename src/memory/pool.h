/* The page pool of a logical device: the physical pages it holds, under its limit.
 *
 * held   pages taken from the source; never above the limit
 * spare  pages held but mapped nowhere, kept for the next use because making a page is the slow part
 * The rest of the held pages are mapped: in windows (runs.h) or in ranges (range.h).
 *
 * There is always room to put every held page into spare, so giving a page back cannot fail.  Callers hold the heap's
 * lock. */
#ifndef HRI_MEMORY_POOL_H
#define HRI_MEMORY_POOL_H

#include "memory/source.h"

typedef struct hri_pool {
    hri_page_source source;
    uint64_t limit_pages;
    uint64_t held_pages, held_peak_pages;
    uint64_t *spare;
    size_t spare_count, spare_capacity;
} hri_pool;

void hri_pool_deinit(hri_pool *pool);

/* Takes `count` pages from the source into spare: all or none.  HR_E_LIMIT, HR_E_NOMEM_HOST, or what the source
 * says. */
HR_MUST_CHECK hr_status hri_pool_create_pages(hri_pool *pool, uint64_t count);
/* Gives `count` spare pages back to the source. */
void hri_pool_destroy_pages(hri_pool *pool, uint64_t count);
/* To and from spare; take needs spare_count >= count. */
void hri_pool_put(hri_pool *pool, const uint64_t *pages, size_t count);
void hri_pool_take(hri_pool *pool, uint64_t *pages, size_t count);

#endif
