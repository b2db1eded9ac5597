/* The executor of a GPU: a bound plan captured as one graph, and replayed.
 *
 * The calls of the plan go to four queues as they stand in it.  Kernels go to the compute queue.  A copy to the other
 * memory waits for what the compute queue has so far and goes to a queue of its own, as do copies back; the plan's waits
 * make the compute queue wait for them.  That is all the order a plan asks for, and capturing keeps it.
 *
 * A run is: inputs to where the plan wants them (lane.h), one launch, small results on their way back.  Everything that
 * changes from run to run is in memory, so the graph is captured once.  A device that cannot capture runs call by call, and so
 * does a plan that exchanges with ranks of other processes (gpu_wire.h).
 *
 * Used by execute.c alone. */
#ifndef HRI_RUN_EXECUTE_GPU_H
#define HRI_RUN_EXECUTE_GPU_H

#include "run/bind.h"
#include "run/execute.h"
#include "run/gpu_wire.h"
#include "run/lane.h"

typedef struct hri_exec_gpu hri_exec_gpu;

/* Borrows lane, bound and wire (NULL: all ranks are in this process). */
HR_MUST_CHECK hr_status hri_exec_gpu_create(hri_lane *lane, const hri_bound *bound, uint64_t seed,
                                            uint32_t rank, hri_gpu_wire *wire, hri_exec_gpu **out,
                                            hri_prose *why);
/* NULL is allowed. */
void hri_exec_gpu_destroy(hri_exec_gpu *x);
HR_MUST_CHECK hr_status hri_exec_gpu_prepare(hri_exec_gpu *x, hri_prose *why);
/* The value is held and the bytes are in it. */
HR_MUST_CHECK hr_status hri_exec_gpu_put(hri_exec_gpu *x, hr_value v, uint64_t at, const void *from,
                                         uint64_t bytes);
/* The same for a whole persistent value or constant that is made on the way (lane.h), and for one of zeros. */
HR_MUST_CHECK hr_status hri_exec_gpu_make(hri_exec_gpu *x, hr_value v, uint64_t bytes,
                                          hri_lane_make_fn *make, void *user);
HR_MUST_CHECK hr_status hri_exec_gpu_clear(hri_exec_gpu *x, hr_value v, uint64_t bytes);
HR_MUST_CHECK hr_status hri_exec_gpu_get(hri_exec_gpu *x, hr_value v, uint64_t at, void *to,
                                         uint64_t bytes);
HR_MUST_CHECK hr_status hri_exec_gpu_flush(hri_exec_gpu *x);
HR_MUST_CHECK hr_status hri_exec_gpu_run(hri_exec_gpu *x, uint32_t step, uint32_t first_sample,
                                         uint32_t *node);
HR_MUST_CHECK hr_status hri_exec_gpu_wait(hri_exec_gpu *x);
void hri_exec_gpu_drop(hri_exec_gpu *x);
uint64_t hri_exec_gpu_busy_ns(hri_exec_gpu *x);
HR_MUST_CHECK hr_status hri_exec_gpu_profile(hri_exec_gpu *x, uint32_t step, uint32_t first_sample,
                                             hri_exec_time_fn *each, void *user);

/* ---- for group.c, which begins the runs of several together ---- */

/* NULL: of the host.  *first_sample: as it was set. */
hri_exec_gpu *hri_exec_of_gpu(hri_exec *e, uint32_t *first_sample);
const hri_bound *hri_exec_gpu_bound(const hri_exec_gpu *x);
hri_lane *hri_exec_gpu_lane(const hri_exec_gpu *x);
/* Inputs, and then calls: how many from number i on go together, these, and the small results. */
HR_MUST_CHECK hr_status hri_exec_gpu_feed(hri_exec_gpu *x, uint32_t step, uint32_t first_sample);
uint32_t hri_exec_gpu_neighbours(const hri_exec_gpu *x, uint32_t i);
HR_MUST_CHECK hr_status hri_exec_gpu_put_call(const hri_exec_gpu *x, uint32_t i, uint32_t count);
HR_MUST_CHECK hr_status hri_exec_gpu_put_results(const hri_exec_gpu *x);
/* The call moves bytes between ranks: into a queue of its own. */
int hri_exec_gpu_moves(const hri_exec_gpu *x, uint32_t i);

#endif
