/* Devices: where memory is allocated and work runs.
 *
 * A device is physical: "host", "cuda:0", "null:0".  A logical device is a slice of one with its own limit; all
 * memory is allocated from logical devices (memory.h).  Limits and growth combine, differ between logical devices, may
 * change while running, and every rule is checked when you call, with the numbers in the error.
 *
 * Queues are ordered: work in one queue runs in the order in which it was added; events order queues among one another.
 * Copies and fills are asynchronous; their memory must stay valid until the queue has completed them.
 *
 * Threads: any thread, except that one queue is used by one thread at a time. */
#ifndef HEADROOM_DEVICE_H
#define HEADROOM_DEVICE_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/context.h>
#include <headroom/status.h>

HR_BEGIN_DECLS

typedef struct hr_device hr_device;
typedef struct hr_logical hr_logical;
typedef struct hr_queue hr_queue;
typedef struct hr_event hr_event;

/* An address on a device.  On the host it is a pointer; 0 is no address. */
typedef uint64_t hr_addr;

enum { HR_NAME_SIZE = 64 };

typedef struct hr_device_info {
    size_t size;                    /* set by the caller to sizeof(hr_device_info) */
    char name[HR_NAME_SIZE];        /* "cuda:0" */
    char description[HR_NAME_SIZE]; /* "NVIDIA H200", "16 x Neoverse-V1" */
    char backend[16];               /* "host", "cuda", "null" */
    uint64_t total_bytes;   /* physical memory (on the host: of the machine or its cgroup) */
    uint64_t free_bytes;    /* free right now, for any process */
    uint64_t page_bytes;    /* unit of allocation */
    uint64_t runtime_bytes; /* measured: memory used before any tensor exists */
    uint64_t limits_bytes;  /* sum of the limits of its logical devices */
    uint64_t held_bytes;    /* held by its logical devices together */
    uint64_t
        process_bytes; /* what the system reports for this process (NVML, resident memory); 0: unknown */
    uint32_t logical_count;
    uint32_t compute_major, compute_minor; /* CUDA only */
    uint32_t reserved;
    /* total = free + ours + others, where free is at most total.  Ours is what the system reports for this process or,
     * if it cannot tell, the runtime plus what the logical devices hold. */
    uint64_t ours_bytes, others_bytes;
    int32_t is_open; /* 0: runtime_bytes is not known yet (hr_device_open) */
    int32_t is_gpu;  /* opening it takes memory */
} hr_device_info;

/* Devices are ordered as the visible list says, else "host" first.  The pointers live as long as the context. */
HR_API size_t hr_device_count(hr_ctx *ctx);
HR_API hr_device *hr_device_at(hr_ctx *ctx, size_t index);
/* HR_E_NOT_FOUND, with the names there are in the error. */
HR_API HR_MUST_CHECK hr_status hr_device_find(hr_ctx *ctx, const char *name, hr_device **out);
/* "cuda:0"; for a device that does not respond too. */
HR_API const char *hr_device_name(const hr_device *device);
/* HR_E_DEVICE or HR_E_NOMEM_DEVICE, with the reason in the error, when it does not respond. */
HR_API HR_MUST_CHECK hr_status hr_device_get_info(hr_device *device, hr_device_info *out);
/* Takes what the device needs before any tensor and measures it; the first use would do so too.  Fails
 * as hr_device_get_info does, on a GPU that is full for example.  Opening it again does nothing. */
HR_API HR_MUST_CHECK hr_status hr_device_open(hr_device *device);

/* ---- logical devices ---- */

typedef enum hr_growth {
    HR_GROWTH_ON = 0, /* pages are taken from the device as they are needed */
    HR_GROWTH_OFF = 1 /* the whole limit is taken at once, and kept */
} hr_growth;

/* Zero means the default in every field.  Set `size` to sizeof(hr_logical_options). */
typedef struct hr_logical_options {
    size_t size;
    const char *name;      /* NULL: "<device>/<n>" */
    uint64_t limit_bytes;  /* 0: all that the device can still promise */
    int32_t growth;        /* hr_growth; default: on */
    uint32_t idle_trim_ms; /* > 0: pages idle for that long are given back by themselves */
} hr_logical_options;

/* Makes a slice of `device`.  HR_E_LIMIT when the limits of all slices would exceed what the device has (the numbers
 * are in the error), HR_E_RANGE when the limit is smaller than one page, HR_E_EXISTS when the name is taken,
 * HR_E_NOMEM_DEVICE when growth is off and the device cannot give the pages now. */
HR_API HR_MUST_CHECK hr_status hr_logical_create(hr_device *device,
                                                 const hr_logical_options *options,
                                                 hr_logical **out);

/* HR_E_BUSY with the names of the holders while blocks or ranges live in it. */
HR_API HR_MUST_CHECK hr_status hr_logical_destroy(hr_logical *logical);

/* Changes the limit while running.  Idle pages above a lower limit are given back; HR_E_BUSY when more than the new
 * limit is in use, HR_E_LIMIT when the sum would not fit the device.  With growth off the pages follow the limit. */
HR_API HR_MUST_CHECK hr_status hr_logical_set_limit(hr_logical *logical, uint64_t limit_bytes);
HR_API HR_MUST_CHECK hr_status hr_logical_set_growth(hr_logical *logical, hr_growth growth);
HR_API HR_MUST_CHECK hr_status hr_logical_set_idle_trim(hr_logical *logical, uint32_t idle_trim_ms);

/* Gives idle pages back to the device, now.  With growth off there is nothing to give: *freed is 0.  freed may be
 * NULL. */
HR_API HR_MUST_CHECK hr_status hr_logical_trim(hr_logical *logical, uint64_t *freed_bytes);

HR_API hr_device *hr_logical_device(hr_logical *logical);
HR_API const char *hr_logical_name(hr_logical *logical);

/* ---- queues, events, copies ---- */

HR_API HR_MUST_CHECK hr_status hr_queue_create(hr_device *device, hr_queue **out);
/* Waits for what is in it.  NULL is allowed. */
HR_API void hr_queue_destroy(hr_queue *queue);
/* Waits until all is done; returns the first failure of anything in the queue, which then stays: a queue that has
 * failed refuses further work with the same status. */
HR_API HR_MUST_CHECK hr_status hr_queue_sync(hr_queue *queue);

HR_API HR_MUST_CHECK hr_status hr_event_create(hr_device *device, hr_event **out);
HR_API void hr_event_destroy(hr_event *event);
HR_API HR_MUST_CHECK hr_status hr_event_mark(hr_event *event, hr_queue *queue);
/* Everything put in `queue` from now on waits for the last mark of `event`.  An event never marked is passed at
 * once. */
HR_API HR_MUST_CHECK hr_status hr_event_wait(hr_event *event, hr_queue *queue);
/* Nanoseconds between two marks that have passed; HR_E_AGAIN while one has not. */
HR_API HR_MUST_CHECK hr_status hr_event_elapsed(hr_event *from, hr_event *to, uint64_t *out_ns);

/* Any mixture of device addresses, pinned and ordinary host memory.  bytes == 0 is allowed. */
HR_API HR_MUST_CHECK hr_status hr_copy(hr_queue *queue, hr_addr to, hr_addr from, uint64_t bytes);
HR_API HR_MUST_CHECK hr_status hr_fill(hr_queue *queue, hr_addr to, uint8_t value, uint64_t bytes);

/* Host memory that the device can copy from and to at full speed. */
HR_API HR_MUST_CHECK hr_status hr_pinned_create(hr_device *device, uint64_t bytes, void **out);
HR_API void hr_pinned_destroy(hr_device *device, void *memory);

HR_END_DECLS
#endif
