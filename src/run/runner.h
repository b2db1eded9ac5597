/* The arena of a run: one range of one logical device, shared by all graphs of a training.
 *
 * A training has several graphs (a step, or a part of it and the last part; evaluation) with one plan each.  They run
 * one after another, so they share one arena: persistent values lie at the bottom, at the same offsets in all of them,
 * and the rest is as large as the largest needs.  The order of setting up is what keeps a budget:
 *
 *   hri_runner_open   addresses are reserved and every plan is bound to them; no memory is taken yet
 *   (the caller frees problems and plans)
 *   hri_runner_take   takes the memory: whole pages, at once, present from then on; on a GPU every plan is tried once
 *                     on zeros and captured, and what that took is compared with what was planned for it
 *   hri_exec_...      runs; nothing is allocated any more
 *
 * Left out on purpose: which steps to run and what to feed (train/). */
#ifndef HRI_RUN_RUNNER_H
#define HRI_RUN_RUNNER_H

#include <headroom/device.h>
#include "run/execute.h"

enum { HRI_RUNNER_PIECES = 48 }; /* eight trainings of six graphs each */

typedef struct hri_runner_piece {
    const hr_graph *g;
    const hri_problem *problem;
    const hri_plan *plan;
    uint64_t seed;      /* added to the runner's: two trainings may differ */
    uint64_t init_mask; /* likewise, of the runner's init_mask by exclusive or */
} hri_runner_piece;

typedef struct hri_runner_options {
    hr_device *device;  /* the host, or that of the engine */
    hri_engine *engine; /* of a GPU; NULL: the host */
    int stage;          /* GPU: large inputs have a place of their own at the top of the arena */
    uint64_t
        runtime_bytes;    /* GPU: the most that may be taken outside the arena; 0: whatever it is */
    const char *name;     /* of the logical device; NULL: by the library */
    uint64_t limit_bytes; /* of the logical device; 0: as large as the arena */
    int grow; /* host: memory comes when a graph that needs it first runs (hri_runner_need) */
    hri_threads *threads;
    /* Memories beside the arena, by their numbers less one: a folder, and values wait in a file there; NULL: in memory. */
    const char *spill[HRI_PROBLEM_MEMORIES_MAX];
    uint64_t seed;
    uint64_t init_mask;  /* first values are those of seed ^ init_mask */
    struct hri_net *net; /* of a rank among several; NULL: none */
    int apart;           /* GPU: they are in other processes */
    uint64_t band_bytes; /* GPU: hri_lane_sizes.band */
    uint32_t count;
    hri_runner_piece pieces[HRI_RUNNER_PIECES];
} hri_runner_options;

typedef struct hri_runner hri_runner;

typedef struct hri_measured {
    uint64_t planned_bytes;  /* the arena as planned, in whole pages */
    uint64_t arena_bytes;    /* the most that the arena held */
    uint64_t other_bytes;    /* of all memories beside it */
    uint64_t resident_bytes; /* of the process, now */
    uint64_t
        resident_peak_bytes; /* of the process, the most since it began, as the kernel counts; 0: unknown */
    uint64_t peak_bytes;    /* what a budget bounds: resident_peak_bytes, or process_bytes */
    uint64_t process_bytes; /* GPU: what NVML shows for the process now */
    uint64_t runtime_bytes; /* GPU: of them, what is outside our memory */
    uint64_t memory_ns, prepare_ns,
        begin_ns; /* of hri_runner_take: memory, GPU kernels and graphs, values */
} hri_measured;

/* HR_E_UNSUPPORTED for a device that runs nothing; HR_E_LIMIT when the device cannot promise the pages. */
HR_MUST_CHECK hr_status hri_runner_open(const hri_runner_options *options, hri_runner **out,
                                        hri_prose *why);
/* Takes the memory and writes persistent values and constants as they begin.  Again is allowed: then they only begin
 * again.  HR_E_LIMIT when a GPU took more outside the arena than runtime_bytes. */
HR_MUST_CHECK hr_status hri_runner_take(hri_runner *r, hri_prose *why);
/* Before a graph is fed and run: its memory is there.  Does something only where memory grows. */
HR_MUST_CHECK hr_status hri_runner_need(hri_runner *r, uint32_t piece);
/* NULL is allowed. */
void hri_runner_close(hri_runner *r);

hri_exec *hri_runner_exec(hri_runner *r, uint32_t piece);
hri_threads *hri_runner_threads(hri_runner *r);
void hri_runner_measure(hri_runner *r, hri_measured *out);

#endif
