/* Running graphs inside a budget: plan, prove, take the memory once, then only run.
 *
 *   const hr_run_options o = {.size = sizeof o, .device = host, .graphs = &graph, .graph_count = 1,
 *                             .budget_bytes = 256 << 20};
 *   hr_run *run;
 *   hr_error why;
 *   if (hr_run_open(&o, &run, &why) != HR_OK) ...        HR_E_NO_PLAN: why.message has the floor and the op that makes it
 *   hr_run_put(run, 0, "image", pixels, bytes);
 *   hr_run_step(run, 0);
 *   hr_run_get(run, 0, "loss", &loss, sizeof loss);
 *
 * Several graphs may run in turn in one arena: persistent values (parameters, states) of the same name are the same
 * memory in all of them, and everything else is as large as the largest graph needs.  So a training step, its
 * accumulating part and its validation cost no more than the largest of them.
 *
 * The budget bounds what the outside sees: on the host the resident set of this process, of which what it has when the
 * run is opened is taken off first; on a GPU what its driver reports.  0 asks for as much as plain running needs.
 *
 * hr_step_build (train.h) makes graphs that learn; hr_graph_differentiate (graph.h) makes your own.
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

/* Zero means the default in every field that may be left out.  Set `size` to sizeof(hr_run_options). */
typedef struct hr_run_options {
    size_t size;
    hr_device *device;
    const hr_graph *const *graphs; /* frozen; they live as long as the run */
    size_t graph_count;            /* 1 to HR_RUN_GRAPHS */
    uint64_t budget_bytes;         /* 0: as much as it takes */
    uint32_t threads;              /* 0: one a core */
    uint32_t reserved;
    uint64_t seed; /* of persistent values and of random ops */
    /* A lease of the pool of the device, for all that the run takes there, is held as long as it is open; budget_bytes 0 is
     * then what that pool leaves.  Lives longer than the run.  NULL: none bounds it. */
    struct hr_budget *budget;
    uint64_t wait_ms; /* for memory that others hold of that budget */
    const char *name; /* of the holder, for those who are refused; NULL: "run" */
} hr_run_options;

/* HR_E_NO_PLAN: nothing was taken, and *why (may be NULL) names the floor, the op that makes it and the bytes short.
 * HR_E_BUSY for a graph that is not frozen; HR_E_SHAPE when two graphs disagree about a persistent value;
 * HR_E_UNSUPPORTED for a device that runs nothing; HR_E_LIMIT or HR_E_AGAIN when the budget does not grant the lease. */
HR_API HR_MUST_CHECK hr_status hr_run_open(const hr_run_options *options, hr_run **out,
                                           hr_error *why);
/* Gives everything back.  NULL is allowed. */
HR_API void hr_run_close(hr_run *run);

/* Copies a whole value in or out, by its name in graph number `graph`: inputs and persistent values in, results and
 * persistent values out.  HR_E_NOT_FOUND for another name, HR_E_SHAPE when `bytes` are not its bytes. */
HR_API HR_MUST_CHECK hr_status hr_run_put(hr_run *run, size_t graph, const char *name,
                                          const void *from, uint64_t bytes);
HR_API HR_MUST_CHECK hr_status hr_run_get(hr_run *run, size_t graph, const char *name, void *to,
                                          uint64_t bytes);

/* What random ops draw by: the number of the step, and of the first sample when a batch is run in parts. */
HR_API void hr_run_at(hr_run *run, uint32_t step, uint32_t first_sample);
/* Runs one graph once.  Every input must be put anew before each run, after the last run of any graph and after the last
 * put into another graph's inputs, because they all lie in one arena; HR_E_INVALID names one that was not.  Results are
 * there until the next run. */
HR_API HR_MUST_CHECK hr_status hr_run_step(hr_run *run, size_t graph);
/* The reason of the last failure. */
HR_API void hr_run_error(const hr_run *run, hr_error *out);

typedef struct hr_run_report {
    size_t size; /* set by the caller to sizeof(hr_run_report) */
    uint64_t budget_bytes;
    uint64_t peak_bytes;    /* planned: runtime + persistent + the rest of the arena */
    uint64_t runtime_bytes; /* what the process or device had before */
    uint64_t persistent_bytes;
    uint64_t arena_bytes;     /* without the persistent ones */
    uint64_t floor_bytes;     /* no plan needs less */
    uint64_t unplanned_bytes; /* plain running, everything kept until its last use */
    uint64_t measured_bytes;  /* what the arena held at most */
    uint64_t resident_bytes;  /* of this process on the device, at most; 0: unknown */
    uint64_t recomputed_ops;  /* in one run of every graph */
    double time_ratio;        /* predicted, over the time without anything computed twice */
} hr_run_report;

/* Fails only for a size that was forgotten. */
HR_API hr_status hr_run_get_report(const hr_run *run, hr_run_report *out);

HR_END_DECLS
#endif
