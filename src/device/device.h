/* The objects of the device layer, as its own files see them.
 *
 * context.c   finds devices, owns all           device.c   one physical device: opened at first use
 * logical.c   slices with limits                blocks.c   memory calls, passed on to the heap of a slice
 * queue.c     queues, events, copies            error.c    prose for failures
 * janitor.c   gives idle pages back by itself
 *
 * Locks, in the order in which they are taken: device->mutex (its list of slices, the sum of limits), then a heap's,
 * then ctx->error_mutex.  The janitor takes device->mutex, so a slice cannot go away under it. */
#ifndef HRI_DEVICE_DEVICE_H
#define HRI_DEVICE_DEVICE_H

#include <pthread.h>
#include <headroom/headroom.h>
#include "base/log.h"
#include "device/backend.h"
#include "memory/budget.h"
#include "memory/heap.h"

typedef struct hri_janitor {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int running, stop, changed;
} hri_janitor;

struct hr_ctx {
    hri_log log;
    pthread_mutex_t error_mutex;
    hr_error error;
    hri_lib **libs; /* one a back end that was probed */
    size_t lib_count;
    hr_device **devices; /* in the visible order */
    size_t device_count;
    hri_janitor janitor;
    struct hr_budget *ledger; /* hri_ctx_ledger; NULL: nobody has asked for it */
};

struct hr_device {
    hr_ctx *ctx;
    hri_lib *lib;
    int index; /* within the lib */
    char name[HR_NAME_SIZE];
    pthread_mutex_t mutex;
    hri_dev *dev;                        /* NULL until first used */
    uint64_t total_bytes, runtime_bytes; /* known once opened */
    hr_logical *logicals;
    uint64_t limits_bytes;
    uint32_t logical_count, logicals_made;
    uint64_t
        readers; /* a bit for each index within the lib; those beyond read by way of the host */
};

struct hr_logical {
    hr_device *device;
    hr_logical *prev, *next;
    char name[HR_NAME_SIZE];
    hri_heap heap;
    uint64_t limit_bytes;
    uint32_t idle_trim_ms;
    uint64_t next_tick_ns;
};

/* Opens the device if it is not open yet; any thread. */
HR_MUST_CHECK hr_status hri_device_open(hr_device *device);
void hri_device_deinit(hr_device *device);
/* Says that so many bytes are taken next by a plan that counted them, so that nothing is kept free beside them.
 * HR_E_NOMEM_DEVICE when they are not there; *out_left (may be NULL) is what there is, UINT64_MAX when nobody knows. */
HR_MUST_CHECK hr_status hri_device_expect(hr_device *device, uint64_t bytes, uint64_t *out_left);
/* Lets another device read what is mapped on this one from now on, both opened.  HR_E_UNSUPPORTED: copies between them go by
 * way of the host. */
HR_MUST_CHECK hr_status hri_device_let_read(hr_device *device, hr_device *reader);
/* 1 when that was done, and for a device itself. */
int hri_device_is_read_by(const hr_device *device, const hr_device *reader);
/* 1 when both, opened, are connected by more than what connects them to the host: NVLink. */
int hri_device_is_linked(const hr_device *device, const hr_device *peer);
/* What it can do (HRI_CAN_..., backend.h) and the kernels it does it with. */
uint32_t hri_device_can(const hr_device *device);
const hri_kernels *hri_device_kernels(const hr_device *device);
/* Of a name that was typed, before there is a context: 1 for the host; what stands behind "null:", or NULL. */
int hri_device_name_is_host(const char *name);
const char *hri_device_name_null(const char *name);
/* The 16 bytes by which the whole machine knows it (NVML's UUID), without opening it; 0: it has none. */
int hri_device_uuid(const hr_device *device, unsigned char out[16]);
/* Takes every slice away, live blocks included. */
void hri_device_drop_logicals(hr_device *device);

/* What a queue is to its back end; gpu.c launches there. */
hri_dev_queue *hri_queue_native(const hr_queue *queue);

/* A context with more back ends than the build knows: `more` ends with NULL and outlives the context. */
HR_MUST_CHECK hr_status hri_ctx_create_with(const hr_ctx_options *options,
                                            const hri_backend *const *more, hr_ctx **out);

/* What a request to a pool of this budget would be granted now.  HR_E_NOT_FOUND: no such device. */
HR_MUST_CHECK hr_status hri_budget_free(struct hr_budget *budget, const char *pool, uint64_t *out);
/* The pool's limit; HR_UNKNOWN: none. */
uint64_t hri_budget_limit(struct hr_budget *budget, const char *pool);
/* The process has so much of that device already: memory/budget.h, hri_book_enter. */
HR_MUST_CHECK hr_status hri_budget_enter(struct hr_budget *budget, const char *pool,
                                         uint64_t process_bytes, hr_error *why);
uint64_t hri_budget_runtime(struct hr_budget *budget, const char *pool);
void hri_budget_leave(struct hr_budget *budget, const char *pool);
/* The context's own, for jobs that were given none: it bounds nothing, and knows who holds what.  Any thread. */
HR_MUST_CHECK hr_status hri_ctx_ledger(hr_ctx *ctx, struct hr_budget **out);

/* What the back ends have to say about themselves, for `doctor`. */
void hri_ctx_report(hr_ctx *ctx, hri_report_fn *fn, void *user);

/* Records the failure on the context and returns `status`. */
hr_status hri_fail(hr_ctx *ctx, hr_status status, const char *format, ...) HR_PRINTF(3, 4);
/* The same for a refusal of memory: `why` holds the numbers, `what` says what was wanted. */
hr_status hri_fail_memory(hr_logical *logical, hr_status status, hr_error *why, const char *what);

/* Starts the thread if a slice wants it; wakes it when settings changed. */
HR_MUST_CHECK hr_status hri_janitor_wake(hr_ctx *ctx);
void hri_janitor_stop(hr_ctx *ctx);

#endif
