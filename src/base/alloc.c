/* malloc with a fault point in front and, in test builds, a count of what is live. */
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

void *hri_malloc(size_t bytes) {
    if (HRI_FAULT(ALLOC)) {
        return NULL;
    }
    void *p = malloc(bytes ? bytes : 1);
    COUNT(p, 1);
    return p;
}

void *hri_calloc(size_t count, size_t size) {
    if (HRI_FAULT(ALLOC)) {
        return NULL;
    }
    void *p = calloc(count ? count : 1, size ? size : 1);
    COUNT(p, 1);
    return p;
}

void *hri_realloc(void *old, size_t bytes) {
    if (HRI_FAULT(ALLOC)) {
        return NULL;
    }
    void *p = realloc(old, bytes ? bytes : 1);
    if (!old) {
        COUNT(p, 1);
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
    free(memory);
}

void hri_trim(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
