/* The host memory of our own records: malloc with a fault point in front.  Every allocation of the library goes
 * through here (libraries we link have their own), so that a test can make each one fail and count what is left. */
#ifndef HRI_BASE_ALLOC_H
#define HRI_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL when there is none.  count * size is checked for overflow.  hri_calloc zeroes. */
void *hri_malloc(size_t bytes);
void *hri_calloc(size_t count, size_t size);
void *hri_realloc(void *old, size_t bytes);
/* A copy of `text`, or NULL. */
char *hri_strdup(const char *text);
/* NULL is allowed. */
void hri_free(void *memory);
/* Gives pages in which nothing lives back to the system, as far as the C library can: what planning took must not stay
 * resident beside what runs.  Changes no setting of the process. */
void hri_trim(void);

/* For programs, which may change a setting of their process as a library may not: while it is on, a freed block of
 * 128 KiB or more is given back at once and leaves no hole in the heap.  Off: of 1 MiB or more; smaller ones, which a
 * pipeline takes and frees with every sample, are kept. */
void hri_alloc_tight(bool on);

/* A bound on what one thread may hold: while it is open, an allocation of this thread that would bring what it took since
 * over most_bytes fails as it would if there were no memory left.  So whoever has a budget for its own work gives that up
 * the way it gives up everything, and not after the budget is broken.
 *
 *   hri_alloc_bound bound;
 *   hri_alloc_bound_open(&bound, room);
 *   status = work();                                      // HR_E_NOMEM_HOST
 *   too_large = status == HR_E_NOMEM_HOST && hri_alloc_bound_hit();
 *   hri_alloc_bound_close(&bound);
 *
 * Bounds nest, and close in reverse order on the thread that opened them; what an inner one counts the outer ones count
 * too.  Blocks count as large as the C library made them.  What other threads take is not counted, and a C library that
 * does not tell the size of a block has no bounds. */
typedef struct hri_alloc_bound {
    uint64_t most_bytes;
    int64_t held_bytes, peak_bytes; /* since it was opened; held: below 0 when older blocks went */
    bool hit;
    struct hri_alloc_bound *outer;
} hri_alloc_bound;

/* most_bytes 0: nothing is refused, but all is counted. */
void hri_alloc_bound_open(hri_alloc_bound *bound, uint64_t most_bytes);
void hri_alloc_bound_close(hri_alloc_bound *bound);
/* Did an open bound of this thread refuse an allocation since this was last asked? */
bool hri_alloc_bound_hit(void);

#endif
