/* The monotonic clock, in nanoseconds.  It never goes back; its zero means nothing.  Any thread. */
#ifndef HRI_BASE_CLOCK_H
#define HRI_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t hri_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
