/* The resident set of this process: what the outside sees of it on the host.
 *
 * Two questions.  What is resident now, and has been at most (from the kernel's own counts)?  And how much more may
 * become resident without anybody asking: pages of code and of read-only data that were not touched yet are mapped
 * when they first run.  A budget for the whole process counts both before the arena is planned.
 *
 * Read from /proc; what cannot be read is 0.  Any thread. */
#ifndef HRI_RUN_RESIDENT_H
#define HRI_RUN_RESIDENT_H

#include <stdint.h>

/* Either pointer may be NULL. */
void hri_resident_read(uint64_t *now_bytes, uint64_t *peak_bytes);
/* Bytes of mapped files (the program and its libraries) that are not resident yet. */
uint64_t hri_resident_unmapped(void);
/* What this very process takes before an arena: what is resident, what may still become so (code that has not run yet,
 * stacks of so many threads), rounded up so that two runs agree. */
uint64_t hri_resident_runtime(uint32_t threads);

#endif
