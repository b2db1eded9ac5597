/* The host back end's own structs. */
#ifndef HRI_DEVICE_HOST_H
#define HRI_DEVICE_HOST_H

#include <pthread.h>
#include <headroom/bytes.h>
#include "device/backend.h"

typedef struct hri_host_dev {
    hri_dev dev; /* first */
    pthread_mutex_t mutex;
    int fd;              /* the memfd in which page n lies at (n - 1) * page_bytes */
    uint64_t slot_count; /* page numbers ever given out */
    uint64_t slot_capacity;
    uint64_t *free_slots; /* (slot_capacity): page numbers that hold no memory */
    uint64_t free_count;
    uint64_t allowance_bytes; /* what may still be taken before the machine is asked again */
    uint64_t runtime_bytes;
    int last_errno; /* of the last failed call, for detail() */
    const char *last_call;
} hri_host_dev;

extern const hri_backend hri_backend_host;
extern const hri_source_ops hri_host_source_ops;

/* What the machine, or the cgroup this process lives in, has in all and has left. */
void hri_host_memory(uint64_t *total_bytes, uint64_t *free_bytes);
/* What is left for addresses that are reserved already, which a limit on addresses (ulimit -v) has counted. */
uint64_t hri_host_pages_left(void);
/* What may be taken by somebody who has not counted what else will be: some of it stays free. */
uint64_t hri_host_spare(void);
uint64_t hri_host_resident_bytes(void);
/* See hri_backend.expect. */
HR_MUST_CHECK hr_status hri_host_expect(hri_dev *dev, uint64_t bytes, uint64_t *out_left);

HR_MUST_CHECK hr_status hri_host_pages_init(hri_host_dev *dev);
void hri_host_pages_deinit(hri_host_dev *dev);

#endif
