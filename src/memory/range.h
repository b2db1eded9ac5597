/* Ranges seen from inside the memory core, and what heap.c lends to its neighbours. */
#ifndef HRI_MEMORY_RANGE_H
#define HRI_MEMORY_RANGE_H

#include "memory/heap.h"

struct hr_range {
    hri_heap *heap;
    hr_range *prev, *next; /* the heap's list */
    hr_addr base;
    uint64_t reserve_pages;
    uint64_t *pages; /* (reserve_pages): the pages mapped, in order */
    uint64_t page_count;
    uint64_t bytes; /* as asked for */
    hr_range *of;   /* NULL, or the range whose pages these are */
    uint32_t sharers;
    uint32_t owner;
    uint8_t category;
};

/* For deinit: takes every range away with its pages. */
void hri_ranges_close_all(hri_heap *heap);

/* Fills the numbers and holders of `why`; NULL is allowed.  The lock is held. */
void hri_heap_explain(hri_heap *heap, uint64_t wanted_bytes, hr_error *why);
/* The largest single block that would be served.  The lock is held. */
uint64_t hri_heap_largest_free(const hri_heap *heap);

#endif
