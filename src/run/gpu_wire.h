/* What a GPU exchanges with ranks of other processes while it runs a plan.
 *
 *   hri_gpu_wire_start(w, &call);           behind what the compute queue has so far, in a queue of its own
 *   hri_gpu_wire_wait(w, number, ...);      what is put into the compute queue next comes behind it
 *
 * A wire between devices (NCCL) takes the addresses as they are, and nothing here waits for anything.  For all others bytes go
 * by way of pinned memory: the thread of a net_queue copies them there, exchanges, and copies back what came, while the
 * GPU computes; so a wait holds up the caller until the exchange is over.  All ranks cut what they exchange alike.
 *
 * Nothing waits for ever: hri_gpu_wire_end asks the wire, which knows of ranks that have ended, before anybody waits for the GPU.
 *
 * Threads: one at a time.  No two runs overlap. */
#ifndef HRI_RUN_GPU_WIRE_H
#define HRI_RUN_GPU_WIRE_H

#include "graph/op.h"
#include "run/lane.h"
#include "run/net_queue.h"

struct hri_net;
typedef struct hri_gpu_wire hri_gpu_wire;

/* One exchange; the wire's from its start until it was waited for. */
typedef struct hri_gpu_wire_call {
    hri_gpu_wire *wire;    /* set by the start */
    const hri_sig *sig;    /* of an op with moves */
    void *const *operands; /* inputs, then outputs: addresses of the device */
    hr_event *ready, *over;
} hri_gpu_wire_call;

/* `nets` is NULL for a wire between devices, and only then.  Borrows all three.  HR_E_NOMEM_HOST; HR_E_UNSUPPORTED: more
 * ranks than the pinned memory has room for. */
HR_MUST_CHECK hr_status hri_gpu_wire_open(hri_lane *lane, struct hri_net *net, hri_net_queue *nets,
                                          hri_gpu_wire **out);
/* Nothing may be under way.  NULL is allowed. */
void hri_gpu_wire_close(hri_gpu_wire *w);

/* A run: exchanges are counted from 0, and failures forgotten. */
void hri_gpu_wire_begin(hri_gpu_wire *w);
HR_MUST_CHECK hr_status hri_gpu_wire_start(hri_gpu_wire *w, hri_gpu_wire_call *call);
/* Number `number` of this run's starts; `over` is its event. */
HR_MUST_CHECK hr_status hri_gpu_wire_wait(hri_gpu_wire *w, uint32_t number, hr_event *over);
/* Both at once, and not counted. */
HR_MUST_CHECK hr_status hri_gpu_wire_make(hri_gpu_wire *w, hri_gpu_wire_call *call);
/* The run that had this status so far: when it failed, until nothing uses the arena any more from here. */
HR_MUST_CHECK hr_status hri_gpu_wire_end(hri_gpu_wire *w, hr_status status);
/* After a run that failed here, and hri_net_stop: the wire gives up what it still has in its queue. */
void hri_gpu_wire_drop(hri_gpu_wire *w);

#endif
