/* Runs graphs within a budget: plan, check, allocate once, then only run.
 *
 *   const hr_run_options o = {.size = sizeof o, .device = host, .graphs = &graph, .graph_count = 1,
 *                             .budget_bytes = 256 << 20};
 *   hr_run *run;
 *   hr_error why;
 *   if (hr_run_open(&o, &run, &why) != HR_OK) ...        HR_E_NO_PLAN: why.message has the minimum and the op that sets it
 *   hr_run_put(run, 0, "image", pixels, bytes);
 *   hr_run_step(run, 0);
 *   hr_run_get(run, 0, "loss", &loss, sizeof loss);
 *
 * Several graphs may run alternately in one arena.  Persistent values (parameters, states) of the same name share memory
 * in all of them, and the rest is as large as the largest graph needs.  So a training step, its gradient accumulation and
 * its validation need no more memory than the largest of them.
 *
 * The budget bounds what the system reports: on the host the resident memory of this process, including what it uses
 * when the run is opened; on a GPU what the driver reports.  0 means as much as unconstrained execution needs.
 *
 * hr_step_build (train.h) builds training steps; use hr_graph_differentiate (graph.h) for your own.
 *
 * Threads: one at a time. */
#ifndef HEADROOM_RUN_H
#define HEADROOM_RUN_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/device.h>
#include <headroom/graph.h>

HR_BEGIN_DECLS

enum { HR_RUN_GRAPHS = 4 };

typedef struct hr_run hr_run;

/* Zero means the default in every optional field.  Set `size` to sizeof(hr_run_options). */
typedef struct hr_run_options {
    size_t size;
    hr_device *device;
    const hr_graph *const *graphs; /* frozen; must outlive the run */
    size_t graph_count;            /* 1 to HR_RUN_GRAPHS */
    uint64_t budget_bytes;         /* 0: as much as needed */
    uint32_t threads;              /* 0: one per core */
    uint32_t reserved;
    uint64_t seed; /* for initial values and random ops */
    /* While it is open, the run holds a lease of the device's pool for all the memory it uses there; budget_bytes 0 then
     * means what is free in that pool.  Must outlive the run.  NULL: no lease. */
    struct hr_budget *budget;
    uint64_t wait_ms; /* how long to wait for memory that others hold */
    const char *name; /* name of the holder, shown to those who are refused; NULL: "run" */
} hr_run_options;

/* HR_E_NO_PLAN: nothing was allocated, and *why (may be NULL) has the minimum, the op that sets it and the bytes missing.
 * HR_E_BUSY for a graph that is not frozen; HR_E_SHAPE if two graphs disagree about a persistent value;
 * HR_E_UNSUPPORTED for a device that cannot run ops; HR_E_LIMIT or HR_E_AGAIN if the budget does not grant the lease. */
HR_API HR_MUST_CHECK hr_status hr_run_open(const hr_run_options *options, hr_run **out,
                                           hr_error *why);
/* Frees everything.  NULL is allowed. */
HR_API void hr_run_close(hr_run *run);

/* Copies a value in or out, by its name in graph number `graph`: inputs and persistent values in, results and persistent
 * values out.  HR_E_NOT_FOUND for any other name, HR_E_SHAPE if `bytes` is not its size. */
HR_API HR_MUST_CHECK hr_status hr_run_put(hr_run *run, size_t graph, const char *name,
                                          const void *from, uint64_t bytes);
HR_API HR_MUST_CHECK hr_status hr_run_get(hr_run *run, size_t graph, const char *name, void *to,
                                          uint64_t bytes);

/* Sets the counters of random ops: the number of the step, and of the first sample of a micro-batch. */
HR_API void hr_run_at(hr_run *run, uint32_t step, uint32_t first_sample);
/* Runs one graph once.  Put every input before each run: after the last run of any graph and after the last put into
 * another graph's inputs, because all of them share one arena; HR_E_INVALID names one that was not put.  Results are valid
 * until the next run. */
HR_API HR_MUST_CHECK hr_status hr_run_step(hr_run *run, size_t graph);
/* The last failure. */
HR_API void hr_run_error(const hr_run *run, hr_error *out);

typedef struct hr_run_report {
    size_t size; /* set by the caller to sizeof(hr_run_report) */
    uint64_t budget_bytes;
    uint64_t peak_bytes;    /* planned: runtime + persistent + the rest of the arena */
    uint64_t runtime_bytes; /* used by the process or device before */
    uint64_t persistent_bytes;
    uint64_t arena_bytes;     /* without persistent values */
    uint64_t floor_bytes;     /* the minimum: no plan needs less */
    uint64_t unplanned_bytes; /* unconstrained: every value kept until its last use */
    uint64_t measured_bytes;  /* peak of the arena */
    uint64_t resident_bytes;  /* peak of this process on the device; 0: unknown */
    uint64_t recomputed_ops;  /* in one run of every graph */
    double time_ratio;        /* predicted time relative to unconstrained */
} hr_run_report;

/* Fails only if out->size is not set. */
HR_API hr_status hr_run_get_report(const hr_run *run, hr_run_report *out);

HR_END_DECLS
#endif
