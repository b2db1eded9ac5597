/* malloc with a fault point and the bounds of the thread in front and, in test builds, a count of what is live. */
#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/fault.h"

#ifdef HEADROOM_FAULTS
#include <stdatomic.h>
static _Atomic int64_t live_allocs;
int64_t hri_fault_live_allocs(void) {
    return atomic_load(&live_allocs);
}
#define COUNT(P, N) ((P) ? (void)atomic_fetch_add(&live_allocs, (N)) : (void)0)
#else
#define COUNT(P, N) ((void)0)
#endif

/* ---- bounds ---- */

/* Not state of the library but a fact about the thread: what it works under. */
static _Thread_local hri_alloc_bound *innermost;

static size_t size_of(void *p) {
#ifdef __GLIBC__
    return p ? malloc_usable_size(p) : 0;
#else
    (void)p;
    return 0;
#endif
}

void hri_alloc_bound_open(hri_alloc_bound *bound, uint64_t most_bytes) {
    *bound = (hri_alloc_bound){.most_bytes = most_bytes, .outer = innermost};
    innermost = bound;
}

void hri_alloc_bound_close(hri_alloc_bound *bound) {
    innermost = bound->outer;
}

bool hri_alloc_bound_hit(void) {
    bool hit = false;
    for (hri_alloc_bound *b = innermost; b; b = b->outer) {
        hit |= b->hit;
        b->hit = false;
    }
    return hit;
}

/* May the thread take so many bytes more? */
static bool may_take(size_t bytes) {
    bool may = true;
    for (hri_alloc_bound *b = innermost; b; b = b->outer) {
        const int64_t left = (int64_t)b->most_bytes - b->held_bytes;
        if (b->most_bytes && (left < 0 || bytes > (uint64_t)left)) {
            b->hit = true;
            may = false;
        }
    }
    return may;
}

static void count_held(int64_t bytes) {
    for (hri_alloc_bound *b = innermost; b; b = b->outer) {
        b->held_bytes += bytes;
        b->peak_bytes = b->held_bytes > b->peak_bytes ? b->held_bytes : b->peak_bytes;
    }
}

/* ---- blocks ---- */

static void *counted(void *p) {
    COUNT(p, 1);
    if (innermost) {
        count_held((int64_t)size_of(p));
    }
    return p;
}

void *hri_malloc(size_t bytes) {
    if (HRI_FAULT(ALLOC) || (innermost && !may_take(bytes))) {
        return NULL;
    }
    return counted(malloc(bytes ? bytes : 1));
}

void *hri_calloc(size_t count, size_t size) {
    size_t bytes;
    if (HRI_FAULT(ALLOC) || __builtin_mul_overflow(count, size, &bytes) ||
        (innermost && !may_take(bytes))) {
        return NULL;
    }
    return counted(calloc(count ? count : 1, size ? size : 1));
}

void *hri_realloc(void *old, size_t bytes) {
    const size_t before = innermost ? size_of(old) : 0;
    if (HRI_FAULT(ALLOC) || (bytes > before && innermost && !may_take(bytes - before))) {
        return NULL;
    }
    void *p = realloc(old, bytes ? bytes : 1);
    if (!old) {
        COUNT(p, 1);
    }
    if (p && innermost) {
        count_held((int64_t)size_of(p) - (int64_t)before);
    }
    return p;
}

char *hri_strdup(const char *text) {
    const size_t bytes = strlen(text) + 1;
    char *copy = hri_malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void hri_free(void *memory) {
    COUNT(memory, -1);
    if (innermost) {
        count_held(-(int64_t)size_of(memory));
    }
    free(memory);
}

void hri_trim(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void hri_alloc_tight(bool on) {
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, on ? 128 << 10 : 1 << 20);
#else
    (void)on;
#endif
}
