/* The small level of the heap: blocks of at most half a page, cut from shared pages.  Callers hold the heap's lock. */
#ifndef HRI_MEMORY_SMALL_H
#define HRI_MEMORY_SMALL_H

#include "memory/heap.h"

/* A cell of `units` * 256 bytes, state HRI_CELL_SMALL. */
HR_MUST_CHECK hr_status hri_small_alloc(hri_heap *heap, uint64_t units, uint32_t *out);
/* Joined with free neighbours; a page that is wholly free becomes an idle run. */
void hri_small_free(hri_heap *heap, uint32_t id);

#endif
