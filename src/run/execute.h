/* Executing a plan: addresses are bound once (bind.h), then there are only kernel calls.
 *
 * One interface for both kinds of device.  On the host a run is a loop over the calls; on a GPU (options.lane) the calls
 * are captured once as one graph and a run replays it (execute_gpu.h).  Problem and plan may be freed after create; a run
 * allocates nothing, looks nothing up and decides nothing.
 *
 * A value is open to the outside only where that means something: inputs before a run, persistent values and
 * constants always, results after a run.  On the host copies to the other memory and back are done at once where the plan
 * starts them, so waits have nothing to do: there is one processor for both.  Exchanges with other ranks go on beside what is
 * computed (net_queue.h).
 *
 * The same seed, step and sample give the same bits as the interpreter (interpret.h), however often the plan computes
 * a value again.
 *
 * Threads: one at a time. */
#ifndef HRI_RUN_EXECUTE_H
#define HRI_RUN_EXECUTE_H

#include "base/threads.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "run/gpu_wire.h"
#include "run/lane.h"
#include "run/net_queue.h"
#include "run/spill.h"
#include "run/touch.h"

typedef struct hri_exec hri_exec;

typedef struct hri_exec_options {
    const hr_graph *g; /* frozen; lives as long as the executor */
    const hri_problem
        *problem;         /* of that graph: its ops' ids are nodes, its values' ids are values */
    const hri_plan *plan; /* that has passed the checker */
    void *arena;          /* plan->arena_bytes of them; need not be there yet */
    /* The memories beside the arena: plan->memory_bytes of each, or a file in its place. */
    void *others[HRI_PROBLEM_MEMORIES_MAX];
    hri_spill *const
        *spills; /* by memory, as `others`; NULL: there is none.  Lives as long as the executor */
    hri_threads
        *threads; /* as many as the problem's workspaces were asked for, or fewer; NULL: one */
    const hri_kernels *kernels; /* of the device; NULL: the host's.  With a lane, its device's */
    hri_lane *lane;             /* of a GPU, which arena and other belong to; NULL: the host */
    uint64_t seed;
    uint64_t init_mask;  /* first values are those of seed ^ init_mask */
    struct hri_net *net; /* of a rank among several, which outlives the executor; NULL: none */
    hri_net_queue *nets; /* of that net, outlives the executor; NULL: exchanges are made at once */
    hri_gpu_wire
        *wire; /* with a lane: to ranks of other processes, outlives the executor; NULL: none */
} hri_exec_options;

/* HR_E_INVALID when the plan is of another problem, or the problem of another graph; HR_E_UNSUPPORTED when a kernel is
 * missing; HR_E_NOMEM_HOST. */
HR_MUST_CHECK hr_status hri_exec_create(const hri_exec_options *options, hri_exec **out,
                                        hri_prose *why);
/* NULL is allowed. */
void hri_exec_destroy(hri_exec *e);

/* On a GPU: runs the plan once on zeros, so that everything is compiled, loaded and chosen, and captures it.  Needs the
 * memory; leaves persistent values as anything.  On the host there is nothing to do. */
HR_MUST_CHECK hr_status hri_exec_prepare(hri_exec *e, hri_prose *why);
/* Writes persistent values and constants as they begin; without those that `done` (may be NULL), an executor over the
 * same arena, has written already. */
HR_MUST_CHECK hr_status hri_exec_begin(hri_exec *e, const hri_exec *done);
/* 1 when the outside may read and write this value (see above): it has a place, and bytes. */
int hri_exec_holds(const hri_exec *e, hr_value v);
/* Copies bytes into a value, from byte `at` of it on, and out of one.  There is no other way in or out, so whoever uses
 * these runs on any device.  get waits for the run that makes the value.  An input is put whole before every run.
 * HR_E_NOT_FOUND for a value that is not held, HR_E_RANGE outside of it. */
HR_MUST_CHECK hr_status hri_exec_put(hri_exec *e, hr_value v, uint64_t at, const void *from,
                                     uint64_t bytes);
HR_MUST_CHECK hr_status hri_exec_get(const hri_exec *e, hr_value v, uint64_t at, void *to,
                                     uint64_t bytes);
/* The first `count` numbers of a floating-point value as f32. */
HR_MUST_CHECK hr_status hri_exec_get_reals(const hri_exec *e, hr_value v, float *to,
                                           uint64_t count);
/* Where a value that is held lies: an address of the device; 0: it is not held. */
hr_addr hri_exec_address(const hri_exec *e, hr_value v);
/* hri_lane_sizes.band on the device, which nothing uses during runs, and what is in it; 0 on the host and without one. */
hr_addr hri_exec_band(const hri_exec *e);
HR_MUST_CHECK hr_status hri_exec_get_band(const hri_exec *e, void *to, uint64_t bytes);
const hr_graph *hri_exec_graph(const hri_exec *e);
/* What was put into inputs so far may travel to the device while the run before goes on. */
HR_MUST_CHECK hr_status hri_exec_flush(hri_exec *e);
/* 1 when inputs may be put for the next run while one still goes on. */
int hri_exec_overlaps(const hri_exec *e);
/* The number of the first sample that later runs see: 0 unless a batch is run in parts. */
void hri_exec_sample(hri_exec *e, uint32_t first_sample);
/* One run of all steps.  After a failure, *node (may be NULL) is the node that failed.  On a GPU it is only begun:
 * whatever goes wrong there is known to the next get or wait. */
HR_MUST_CHECK hr_status hri_exec_run(hri_exec *e, uint32_t step, uint32_t *node);
HR_MUST_CHECK hr_status hri_exec_wait(hri_exec *e);
/* After a run that failed and hri_net_stop, before anybody waits: nothing of it waits for other ranks any more. */
void hri_exec_drop(hri_exec *e);
/* How long the device worked on the last run, after a get or wait; 0: it cannot tell, or is the host. */
uint64_t hri_exec_busy_ns(hri_exec *e);
/* The same, one call after another, each timed; node is HRI_NO_NODE for copies to and from the other memory.  Calls that
 * the device runs together share their time by the bytes they touch: `together` is how many those are, 0 of all but the
 * first of them. */
typedef void hri_exec_time_fn(void *user, uint32_t node, uint64_t bytes, double ns,
                              uint32_t together);
HR_MUST_CHECK hr_status hri_exec_profile(hri_exec *e, uint32_t step, hri_exec_time_fn *each,
                                         void *user);

/* What a run touches of the arena; see touch.h. */
void hri_exec_touch(const hri_exec *e, hri_touch_fn *each, void *user);

/* What an executor of a plan with so many steps and operands takes at most, before there is a plan. */
uint64_t hri_exec_record_bytes(uint64_t steps, uint64_t operands, uint64_t values);

#endif
