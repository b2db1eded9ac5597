/* The resident set of this process: what the outside sees of it on the host.
 *
 * Two questions.  What is resident now, and has been at most (from the kernel's own counts)?  And how much more may
 * become resident without anybody asking: pages of code and of read-only data that were not touched yet are mapped
 * when they first run.  A budget for the whole process counts both before the arena is planned.
 *
 * Read from /proc; what cannot be read is 0.  Any thread. */
#ifndef HRI_MEMORY_RESIDENT_H
#define HRI_MEMORY_RESIDENT_H

#include <stdint.h>

/* Either pointer may be NULL. */
void hri_resident_read(uint64_t *now_bytes, uint64_t *peak_bytes);
/* Bytes of mapped files (the program and its libraries) that are not resident yet. */
uint64_t hri_resident_unmapped(void);
/* What is resident, by what it lies in: these add up to the resident set.  One pass over smaps: milliseconds. */
typedef struct hri_resident_kinds {
    uint64_t
        pages_bytes; /* shared pages without a file's name: arenas and other memories of the host device */
    uint64_t files_bytes;     /* the program, its libraries, files that are mapped */
    uint64_t heap_bytes;      /* malloc's */
    uint64_t stack_bytes;     /* of the first thread */
    uint64_t anonymous_bytes; /* the rest: stacks of threads, data of libraries */
} hri_resident_kinds;
void hri_resident_read_kinds(hri_resident_kinds *out);
/* What this very process takes before an arena: what is resident, what may still become so (code that has not run yet,
 * but for ops compiled for other processors), rounded up so that two runs agree.  Ask before threads are started: they are counted by themselves, below. */
uint64_t hri_resident_runtime(void);
/* What the kernel takes to hold so many bytes of an arena: page tables and the index of the file that the pages lie in.
 * No resident set shows it, but a container is charged for it.  The first MiB is covered by the program's code, which
 * is in the runtime and which a container that has no room may drop. */
uint64_t hri_resident_kernel(uint64_t arena_bytes);
/* What a thread that computes takes at most: its stack, the kernel's, its records. */
enum { HRI_RESIDENT_THREAD = 64 << 10 };

#endif
