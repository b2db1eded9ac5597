/* The state of the CUDA back end and what its files share.  Only files of this folder include it.
 *
 * hri_cuda_lib    one a context of ours: the tables of functions, what report() tells
 * hri_cuda_dev    one a device: its primary context, the page size, what the context cost, the last native failure
 *
 * Contexts: CUDA keeps a stack of current contexts a thread.  Every call enters (pushes ours, unless it is on top
 * already) and leaves (pops it again), so that any thread may call and finds its own context unchanged. */
#ifndef HRI_DEVICE_CUDA_STATE_H
#define HRI_DEVICE_CUDA_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/fault.h"
#include "device/backend.h"
#include "device/cuda/cuda_load.h"

/* How runtime_bytes was measured; the better ones first. */
typedef enum hri_cuda_measure {
    HRI_CUDA_UNMEASURED = 0,  /* no device of that number was opened yet */
    HRI_CUDA_BY_PID,          /* NVML's bytes of this process */
    HRI_CUDA_BY_OTHER_PID,    /* the same, under the number by which NVML knows this process */
    HRI_CUDA_BY_DIFFERENCE,   /* NVML's bytes of the whole device, after minus before */
    HRI_CUDA_BY_DEVICE_IN_USE /* total minus free of the driver: others' bytes are in it */
} hri_cuda_measure;

typedef struct hri_cuda_lib {
    hri_lib base;
    hri_cuda_driver driver;
    hri_cuda_nvml nvml;
    pthread_mutex_t nvrtc_mutex;
    hri_cuda_nvrtc nvrtc; /* opened at first use, by hri_cuda_nvrtc_of */
    int nvrtc_tried;
    int switched_off;      /* no_cuda of the options */
    int init_result;       /* of cuInit or of counting; a CUresult */
    _Atomic int *measures; /* hri_cuda_measure, one a device */
} hri_cuda_lib;

enum { HRI_CUDA_READERS = 63 };

typedef struct hri_cuda_dev {
    hri_dev base;
    hri_cuda_lib *lib;
    const hri_cuda_driver *cu; /* of lib, at hand */
    int index;
    CUdevice device;
    CUcontext context;        /* the primary one, retained */
    nvmlDevice_t nvml_device; /* NULL: NVML does not know it */
    unsigned nvml_pid;        /* 0: NVML does not show this process */
    uint64_t runtime_bytes;
    int stack_bytes; /* of a thread of a kernel, as we set it; 0: the driver's own */
    CUdevice readers[HRI_CUDA_READERS]; /* others that may read its pages, from the next map on */
    int reader_count;
    int major, minor;
    char description[HR_NAME_SIZE];
    pthread_mutex_t detail_mutex;
    char detail[HRI_CUDA_TEXT];
} hri_cuda_dev;

/* Makes the device's context current.  *pushed goes to leave. */
HR_MUST_CHECK hr_status hri_cuda_enter(hri_cuda_dev *dev, int *pushed);
void hri_cuda_leave(hri_cuda_dev *dev, int pushed);

/* The stack is as large as this kernel wants it; 0: it is not, and may not grow.  The context is current. */
int hri_cuda_stack_for(hri_cuda_dev *dev, CUfunction function, int may_grow);

/* Turns the answer of `call` into a status, and keeps the words of a failure for detail(). */
HR_MUST_CHECK hr_status hri_cuda_check(hri_cuda_dev *dev, const char *call, CUresult result);
/* For calls that give something back and so cannot refuse: a failure is logged and kept for detail(). */
void hri_cuda_must(hri_cuda_dev *dev, const char *call, CUresult result);
/* Writes "call: NAME (text)". */
void hri_cuda_words(const hri_cuda_driver *cu, const char *call, CUresult result, char *buf,
                    size_t size);

extern const hri_backend hri_backend_cuda;

/* ---- cuda_memory.c ---- */
/* Fills base.source; HR_E_UNSUPPORTED when the device cannot map pages.  Needs no context. */
HR_MUST_CHECK hr_status hri_cuda_memory_init(hri_cuda_dev *dev);
hr_status hri_cuda_let_read(hri_dev *dev, hri_dev *reader);
int hri_cuda_is_linked(hri_dev *dev, hri_dev *peer);
hr_status hri_cuda_pinned_create(hri_dev *dev, uint64_t bytes, void **out);
void hri_cuda_pinned_destroy(hri_dev *dev, void *memory);

/* ---- cuda_queue.c ---- */
hr_status hri_cuda_queue_open(hri_dev *dev, hri_dev_queue **out);
void hri_cuda_queue_close(hri_dev_queue *queue);
hr_status hri_cuda_queue_sync(hri_dev_queue *queue);
hr_status hri_cuda_event_open(hri_dev *dev, hri_dev_event **out);
void hri_cuda_event_close(hri_dev_event *event);
hr_status hri_cuda_event_mark(hri_dev_event *event, hri_dev_queue *queue);
hr_status hri_cuda_event_wait(hri_dev_event *event, hri_dev_queue *queue);
hr_status hri_cuda_event_elapsed(hri_dev_event *from, hri_dev_event *to, uint64_t *out_ns);
hr_status hri_cuda_copy(hri_dev_queue *queue, hr_addr to, hr_addr from, uint64_t bytes);
hr_status hri_cuda_fill(hri_dev_queue *queue, hr_addr to, uint8_t value, uint64_t bytes);

/* For the files that launch: the stream behind a queue, the first failure that came out of the device in it, and the
 * check of a call that put something into it. */
CUstream hri_cuda_stream(hri_dev_queue *queue);
hr_status hri_cuda_queue_failed(hri_dev_queue *queue);
HR_MUST_CHECK hr_status hri_cuda_queue_check(hri_dev_queue *queue, const char *call,
                                             CUresult result);

/* The compiler of kernels; look at `usable`.  Any thread. */
const hri_cuda_nvrtc *hri_cuda_nvrtc_of(hri_cuda_lib *lib);

/* ---- cuda_libraries.c ---- */
/* A line of report() for each library beside the driver. */
void hri_cuda_report_libraries(hri_cuda_lib *lib, hri_report_fn *fn, void *user);

/* ---- cuda_runtime.c ---- */
/* What NVML shows before the context is made. */
typedef struct hri_cuda_before {
    nvmlProcessInfo_t *processes;
    unsigned count;
    uint64_t used_bytes;
    int known; /* used_bytes is one */
} hri_cuda_before;
/* Sets nvml_device. */
void hri_cuda_nvml_match(hri_cuda_dev *dev);
void hri_cuda_look_before(hri_cuda_dev *dev, hri_cuda_before *out);
void hri_cuda_before_deinit(hri_cuda_before *before);
/* Uses every kind of call once, so that what the driver loads lazily is loaded before the measurement. */
HR_MUST_CHECK hr_status hri_cuda_warm_up(hri_cuda_dev *dev);
/* Sets runtime_bytes and nvml_pid.  The context is current. */
void hri_cuda_measure_runtime(hri_cuda_dev *dev, const hri_cuda_before *before);
/* What NVML calls free on the device now; 0: unknown.  Needs no context. */
uint64_t hri_cuda_free_bytes(hri_cuda_dev *dev);
/* NVML's bytes of this process now; 0: unknown. */
uint64_t hri_cuda_process_bytes(hri_cuda_dev *dev);

#endif
