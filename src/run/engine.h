/* A GPU made ready before there is a plan: its kernels and libraries, its queues, and what all that takes.
 *
 * The one idea: whatever takes device memory outside the arena is opened here, before planning, so that it can be
 * measured and planned for as `runtime`.  hri_engine_runtime() is asked again whenever more was loaded.
 *
 * Scratch is memory for trying kernels out before the arena is there; it is given back before the arena is taken.
 *
 * Threads: one at a time. */
#ifndef HRI_RUN_ENGINE_H
#define HRI_RUN_ENGINE_H

#include <headroom/device.h>
#include "base/prose.h"
#include "device/gpu.h"

typedef struct hri_engine hri_engine;

typedef enum hri_engine_lane {
    HRI_ENGINE_COMPUTE = 0,
    HRI_ENGINE_FEED, /* inputs of the next run */
    HRI_ENGINE_LANES
} hri_engine_lane;

/* Queues of copies between memories, by the numbers that a plan's problem gives them.  Two are there from the start, one
 * away and one back; more are opened for who needs them. */
enum { HRI_ENGINE_COPIES = 2, HRI_ENGINE_COPIES_MAX = 12 };

/* HR_E_UNSUPPORTED for a device that runs no kernels. */
HR_MUST_CHECK hr_status hri_engine_open(hr_device *device, const hri_gpu_options *options,
                                        hri_engine **out, hri_prose *why);
/* NULL is allowed. */
void hri_engine_close(hri_engine *e);
hri_gpu *hri_engine_gpu(hri_engine *e);
hr_device *hri_engine_device(hri_engine *e);
hr_queue *hri_engine_queue(hri_engine *e, hri_engine_lane lane);

/* The queues 0 .. count-1 are there from now on. */
HR_MUST_CHECK hr_status hri_engine_need_copies(hri_engine *e, uint32_t count);
hr_queue *hri_engine_copy_queue(hri_engine *e, uint32_t number);
/* A queue of its own for what ranks exchange: there from the first of these calls on; NULL before. */
HR_MUST_CHECK hr_status hri_engine_need_net(hri_engine *e);
hr_queue *hri_engine_net_queue(hri_engine *e);
/* Waits for everything in every queue. */
void hri_engine_settle(hri_engine *e);

/* Bytes that the outside sees for this process now, less those that our logical devices hold: context, modules, library
 * handles, captured graphs.  By NVML where it shows the process, else by what the device's use grew by. */
uint64_t hri_engine_runtime(hri_engine *e);
/* What NVML shows for the process now, all of it; the same estimate where it does not. */
uint64_t hri_engine_process(hri_engine *e);
/* What to add to runtime for so many graphs of so many ops in all that are not captured yet: by what a node takes here
 * (run/node_bytes.h), where that was set, else generously.  Never less than HRI_ENGINE_GRAPH_LEAST. */
uint64_t hri_engine_graph_reserve(const hri_engine *e, uint64_t graphs, uint64_t ops);
void hri_engine_set_node_bytes(hri_engine *e, uint64_t bytes);
#define HRI_ENGINE_GRAPH_LEAST (UINT64_C(4) << 20)

/* Speeds of this device, in bytes and operations a nanosecond: products and memory from a table, copies measured. */
typedef struct hri_engine_speed {
    double flops_per_ns, bytes_per_ns, launch_ns;
    double out_bytes_per_ns, in_bytes_per_ns, copy_latency_ns;
    double copy_drag; /* share of a copy's time that kernels beside it lose */
} hri_engine_speed;

/* On an H200 ResNet-50's steps with copies took 0.14 to 0.15 of the copies' time longer than their kernels alone, at every
 * budget.  Of that 0.02 is what kernels lose to copies (run/drag.h measures it); for the rest steps wait for copies that
 * are over later than planned. */
#define HRI_ENGINE_COPY_LATE 0.13
/* Both, where nothing is measured. */
#define HRI_ENGINE_COPY_DRAG 0.15
void hri_engine_measure_speed(hri_engine *e, hri_engine_speed *out);

/* At least `bytes` of device memory, aligned to pages, valid until the next call or drop.  HR_E_NOMEM_DEVICE, HR_E_LIMIT. */
HR_MUST_CHECK hr_status hri_engine_scratch(hri_engine *e, uint64_t bytes, hr_addr *out);
void hri_engine_scratch_drop(hri_engine *e);

#endif
