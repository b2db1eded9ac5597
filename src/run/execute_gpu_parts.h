/* What an executor of a GPU consists of, for its three files: execute_gpu.c makes and runs it, feed_gpu.c brings its inputs, profile_gpu.c
 * times its calls. */
#ifndef HRI_RUN_EXECUTE_GPU_PARTS_H
#define HRI_RUN_EXECUTE_GPU_PARTS_H

#include "device/device.h"
#include "run/execute_gpu.h"

typedef struct hri_fed {
    hr_value value;
    hr_addr to;         /* where the plan wants it */
    uint64_t at, bytes; /* in staging, as it waits there */
    uint64_t low, high; /* bytes that were put since they last travelled; low == high: none */
    uint8_t small;
    uint8_t fed;            /* it has been put at all */
    hri_lane_widen *widens; /* it waits rounded; NULL: as it is */
} hri_fed;

typedef struct hri_fetched {
    hr_value value;
    hr_addr from;
    uint64_t at, bytes; /* in lane->back */
} hri_fetched;

struct hri_exec_gpu {
    hri_lane *lane;
    const hri_bound *b;
    uint64_t seed;
    uint32_t rank;
    uint8_t moves;  /* some calls move bytes between ranks: over the wire, or group.c runs it with
                      those of the others */
    uint8_t trying; /* nobody exchanges anything yet */
    hri_gpu_wire *wire;
    hri_gpu_wire_call *nets; /* with a wire: by exchange */
    hr_addr *addrs;          /* bound->pointers as addresses */
    hri_gpu_call *calls;     /* by call of the plan; those that run nothing have no signature */
    hri_fed *inputs;
    hri_fetched *results;
    hr_event **done;      /* by copy of the plan: it is over */
    hr_event **marks;     /* of profiles: before the first call, and behind each; NULL: none yet */
    hri_gpu_graph *graph; /* NULL: run call by call */
    uint32_t input_count, result_count;
    uint64_t
        launched_ns; /* when the run that is not waited for yet was launched; 0: there is none */
    uint64_t took_ns[2]; /* the device, for the last two; 0: not known */
};

static inline hr_addr hri_exec_gpu_addr(const void *pointer) {
    return (hr_addr)(uintptr_t)pointer;
}

static inline hr_queue *hri_exec_gpu_queue(const hri_exec_gpu *x, hri_engine_lane which) {
    return hri_engine_queue(x->lane->engine, which);
}

/* What a small value takes in staging, or in lane->back. */
static inline uint64_t hri_exec_gpu_room(uint64_t bytes) {
    return (bytes + HRI_LANE_ALIGN - 1) / HRI_LANE_ALIGN * HRI_LANE_ALIGN;
}

/* ---- feed_gpu.c ---- */

/* Into x->inputs, which has room for all values. */
HR_MUST_CHECK hr_status hri_exec_gpu_list_inputs(hri_exec_gpu *x);
void hri_exec_gpu_free_inputs(hri_exec_gpu *x);
/* All inputs are zeros from now on. */
void hri_exec_gpu_feed_zeros(hri_exec_gpu *x);

/* ---- execute_gpu.c ---- */

/* Between processes: call i, waited for at once or not. */
HR_MUST_CHECK hr_status hri_exec_gpu_exchange(const hri_exec_gpu *x, uint32_t i, int at_once);

#endif
