/* Physical memory of the fake driver: one memfd, cut into pages of 2 MiB; a handle owns pages.
 *
 * Pages go back to the system by a hole in the memfd, so a test may take and give terabytes over its life.  All of it is
 * under fake_lock. */
#ifndef FAKECUDA_HANDLES_H
#define FAKECUDA_HANDLES_H

#include "fake.h"

/* A handle is (generation << 32 | number + 1), so that one given back is recognised. */
typedef struct fake_handle_entry {
    uint32_t generation;
    int live, references, device; /* device -1: memory of the host */
    int imported;                 /* another process's memory: it is counted there */
    CUmemAllocationProp prop;
    uint64_t multicast_bytes; /* no memory at all, but what others' memory is bound to */
    uint64_t mappings, count;
    uint64_t *units;
    uint32_t next_free;
} fake_handle_entry;

extern int fake_memory_fd; /* -1 until a page was taken */

/* NULL: it is none, or was given back. */
fake_handle_entry *fake_handle_of(uint64_t handle);
/* Nobody refers to it and nothing maps it. */
void fake_handle_free(fake_handle_entry *h);

/* Makes room for one more; 0 when there is no memory. */
int fake_grow(void **array, size_t count, size_t *room, size_t size);

static inline int fake_unaligned(uint64_t number) {
    return number % FAKE_PAGE != 0;
}

#endif
