/* The vtable of a back end: what a kind of hardware must do, and no more.  Pools, limits, accounts and the texts of
 * errors sit above it and are written once.
 *
 * A back end is one `const hri_backend hri_backend_<name>` in src/device/<name>/<name>.c; the build lists the folders.
 * Its state is reached through `hri_lib` (one a context: opened libraries, tables of functions) and `hri_dev` (one a
 * device).  Both are embedded as the first member of the back end's own struct.
 *
 * Fault points (base/fault.h) stand right in front of each outside call.  Threads: any thread for all calls, except
 * that one queue is used by one thread at a time. */
#ifndef HRI_DEVICE_BACKEND_H
#define HRI_DEVICE_BACKEND_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/device.h>
#include "base/log.h"
#include "device/kernel.h"
#include "memory/source.h"

typedef struct hri_backend hri_backend;

typedef struct hri_lib {
    const hri_backend *backend;
    hri_log *log; /* of the context */
    int device_count;
} hri_lib;

typedef struct hri_dev {
    hri_lib *lib;
    hri_page_source source;
} hri_dev;

/* Embedded first by the back end's queue and event. */
typedef struct hri_dev_queue {
    hri_dev *dev;
} hri_dev_queue;
typedef struct hri_dev_event {
    hri_dev *dev;
} hri_dev_event;

/* What `doctor` shows: one line a component. */
typedef enum hri_found {
    HRI_FOUND_OK,      /* there and in use */
    HRI_FOUND_MISSING, /* not there: `detail` says what is switched off by that */
    HRI_FOUND_BROKEN   /* there but unusable: `detail` says why */
} hri_found;
typedef void hri_report_fn(void *user, const char *component, hri_found found, const char *version,
                           const char *detail);

enum { HRI_BACKEND_ABI = 3 };

/* What a device can do, for whoever must know: nobody outside this layer asks for its name. */
enum {
    HRI_CAN_COMPUTE = 1, /* kernels run there; else it is for planning alone */
    HRI_CAN_POINT =
        2, /* addresses are pointers of this process: kernels are called, memory is the resident set */
    HRI_CAN_QUEUE = 4 /* kernels are put into queues (device/gpu.h), memory is the device's own */
};

struct hri_backend {
    uint32_t abi; /* HRI_BACKEND_ABI */
    const char *name;
    uint32_t can;               /* HRI_CAN_... */
    const hri_kernels *kernels; /* what it computes with, and what is planned for it; never NULL */

    /* Looks for the hardware.  "None" is HR_OK with device_count 0.  `options` is the caller's, `log` lives as long as
     * the lib. */
    hr_status (*probe)(const hr_ctx_options *options, hri_log *log, hri_lib **out);
    void (*unprobe)(hri_lib *lib);
    /* May be NULL: nothing to say. */
    void (*report)(hri_lib *lib, hri_report_fn *fn, void *user);

    /* Fills what can be known of device `index` without opening it: name, description, backend, total_bytes,
     * page_bytes, and free_bytes where that costs nothing (0: unknown).  May be NULL: then it is opened to ask. */
    hr_status (*describe)(hri_lib *lib, int index, hr_device_info *out);
    /* The 16 bytes that name it for everybody on the machine, without opening it: 1, or 0 when there are none.  May be
     * NULL. */
    int (*uuid)(hri_lib *lib, int index, unsigned char out[16]);
    /* Opens device `index` (0 .. device_count-1); what that costs on the device is measured and reported by info as
     * runtime_bytes. */
    hr_status (*open)(hri_lib *lib, int index, hri_dev **out);
    void (*close)(hri_dev *dev);
    /* Fills name, description, backend, total_bytes, free_bytes, page_bytes, runtime_bytes, process_bytes and
     * compute_*; the rest is the device layer's. */
    hr_status (*info)(hri_dev *dev, hr_device_info *out);
    /* The last native failure in words ("cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY"), or "".  May be NULL. */
    void (*detail)(hri_dev *dev, char *buf, size_t size);

    /* Somebody who has counted takes so many bytes of pages next, all of them or none: are they there?  *out_left (never
     * NULL) is what there is.  May be NULL: nothing is known. */
    hr_status (*expect)(hri_dev *dev, uint64_t bytes, uint64_t *out_left);

    /* From the next map on, `reader`, another device of the same lib, may read the pages of `dev`.  HR_E_UNSUPPORTED: they have
     * no way to one another but the host.  Again is allowed.  May be NULL: none has. */
    hr_status (*let_read)(hri_dev *dev, hri_dev *reader);
    /* 1: they have wires of their own between them.  May be NULL: none has. */
    int (*is_linked)(hri_dev *dev, hri_dev *peer);

    hr_status (*pinned_create)(hri_dev *dev, uint64_t bytes, void **out);
    void (*pinned_destroy)(hri_dev *dev, void *memory);

    hr_status (*queue_open)(hri_dev *dev, hri_dev_queue **out);
    void (*queue_close)(hri_dev_queue *queue);
    hr_status (*queue_sync)(hri_dev_queue *queue);
    hr_status (*event_open)(hri_dev *dev, hri_dev_event **out);
    void (*event_close)(hri_dev_event *event);
    hr_status (*event_mark)(hri_dev_event *event, hri_dev_queue *queue);
    hr_status (*event_wait)(hri_dev_event *event, hri_dev_queue *queue);
    hr_status (*event_elapsed)(hri_dev_event *from, hri_dev_event *to, uint64_t *out_ns);
    hr_status (*copy)(hri_dev_queue *queue, hr_addr to, hr_addr from, uint64_t bytes);
    hr_status (*fill)(hri_dev_queue *queue, hr_addr to, uint8_t value, uint64_t bytes);
};

/* Written by the build from the folder listing; ends with NULL. */
extern const hri_backend *const hri_backends[];

#endif
