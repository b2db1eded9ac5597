/* What the machine has left for this process: the one place that asks.
 *
 * Three bounds.  The machine's own is MemAvailable.  Another is the memory control group of this process and every one
 * above it, versions 1 and 2: its limit less what is used there and cannot be reclaimed.  A container's limit is what
 * the kernel kills for, so it counts even when the machine has more.  File pages and reclaimable kernel memory of a
 * group go when somebody needs the room, so they count as free, as they do in MemAvailable.
 *
 * A group's use is charged in batches for each processor, so what is said here may be too little by some hundred KiB,
 * never too much.  The last is the limit on the addresses of this process (ulimit -v, as batch systems set it): what
 * is mapped counts there, touched or not, so the stacks of threads that are still to come are named apart.
 *
 * Read from /proc and /sys without allocating.  What cannot be read puts no bound.  Any thread. */
#ifndef HRI_MEMORY_LEFT_H
#define HRI_MEMORY_LEFT_H

#include <stdint.h>

typedef struct hri_memory_left {
    uint64_t total_bytes;   /* of the machine, or the smallest limit; 0: unknown */
    uint64_t free_bytes;    /* that this process could still take; 0: nothing, or unknown */
    uint64_t machine_bytes; /* MemTotal; 0: unknown */
    uint64_t machine_free;  /* MemAvailable; UINT64_MAX: unknown */
    uint64_t group_limit;   /* the smallest one on the way up; UINT64_MAX: none */
    uint64_t group_free;    /* the least that one of them leaves; UINT64_MAX: no bound */
    uint64_t space_limit;   /* on the addresses of this process; UINT64_MAX: none */
    uint64_t space_free;    /* what it leaves; UINT64_MAX: no bound */
    uint64_t
        stack_bytes; /* of free_bytes: what threads may map under that limit, and not touch; 0 without one */
    char group_path[256]; /* the file that says group_limit; "" */
} hri_memory_left;

/* `root` is put in front of every path: "" on a real machine, a folder in tests. */
void hri_memory_left_read(const char *root, hri_memory_left *out);
/* Its free_bytes alone. */
uint64_t hri_memory_left_free(const char *root);

#endif
