/* Where pages come from: the six calls that the memory core asks of a device, and all it knows of one.
 *
 * A page is `page_bytes` of physical memory with a number of the source's own choosing (never 0).  Addresses are
 * reserved apart from memory; pages are mapped at reserved addresses, and one page may be mapped at several.
 * Fault points sit in the source, right in front of the outside call.
 *
 * Threads: the source must allow any thread for every call; the memory core never works on one address or one page
 * from two threads at once. */
#ifndef HRI_MEMORY_SOURCE_H
#define HRI_MEMORY_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/device.h>

typedef struct hri_source_ops {
    /* bytes is a multiple of the page size; so is the address.  HR_E_NOMEM_DEVICE when there are no addresses. */
    hr_status (*reserve)(void *self, uint64_t bytes, hr_addr *out);
    /* Exactly what reserve gave; nothing is mapped in it any more. */
    void (*unreserve)(void *self, hr_addr at, uint64_t bytes);
    /* Takes one page of physical memory.  HR_E_NOMEM_DEVICE when the device is full. */
    hr_status (*create)(void *self, uint64_t *out_page);
    void (*destroy)(void *self, uint64_t page);
    /* Maps pages[0..count) side by side, readable and writable: all of them or none. */
    hr_status (*map)(void *self, hr_addr at, const uint64_t *pages, size_t count);
    /* Takes the mapping of count pages away.  On failure everything stays mapped. */
    hr_status (*unmap)(void *self, hr_addr at, size_t count);
} hri_source_ops;

typedef struct hri_page_source {
    const hri_source_ops *ops;
    void *self;
    uint64_t page_bytes; /* a power of two, at least 4 KiB */
} hri_page_source;

#endif
