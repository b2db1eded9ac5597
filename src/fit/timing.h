/* Measured times of kernels, kept on disk between runs.
 *
 * A kernel is known by its signature (op, attributes, types, shapes), its variant and the number of threads.  The first
 * time one is asked for it is run a few times on made-up operands and the median is kept, in
 * <cache>/timings-<device>.json under a name that tells the machine apart.  On a GPU each signature is tried once even
 * when its time is known, so that everything is loaded before runtime is measured (run/trial.h).  What is too large to be tried in the memory
 * allowed is not measured: it gets the analytic time, scaled by how far that was off for the others.
 *
 * On a GPU, ops that a step has in one launch are measured as such, too: two neighbours (hri_timing_together), or many alike
 * (hri_timing_many).  Their keys name the ops, and have a hash of their signatures and of the memory they share.
 *
 * A GPU's clock sinks by what is computed beside, so steps of a model take a few percent longer or shorter than its ops by themselves,
 * by about as much in every budget: its pace.  A training measures it once, and it is kept beside the times.
 *
 * Times decide how fast a plan is said to be and which of two plans is taken; never whether one fits.  A cache that
 * cannot be read or written is no failure: what is missing is measured again.
 *
 * Threads: one at a time. */
#ifndef HRI_FIT_TIMING_H
#define HRI_FIT_TIMING_H

#include "base/threads.h"
#include "graph/op.h"
#include "run/engine.h"
#include "run/trial.h"

typedef struct hri_timing hri_timing;

typedef struct hri_timing_options {
    hri_threads *threads;
    const char *folder;                /* of the cache; NULL or "": none is kept */
    const char *device;                /* "host", "NVIDIA H200" */
    const hri_kernels *kernels;        /* of the device; NULL: the host's */
    hri_engine *engine;                /* of a GPU; NULL: the host */
    int try_only;                      /* GPU: kernels are tried but not timed */
    double flops_per_ns, bytes_per_ns; /* of the analytic model */
    uint64_t most_bytes;               /* memory that measuring may take; 0: 256 MiB */
    void (*before)(void *user); /* GPU: each time that it is about to be used; NULL: nobody asks */
    void *before_user;
} hri_timing_options;

HR_MUST_CHECK hr_status hri_timing_open(const hri_timing_options *options, hri_timing **out);
/* Writes what was measured to the cache.  NULL is allowed. */
void hri_timing_close(hri_timing *t);
/* Writes what was measured so far, and has from then on what others wrote meanwhile, for what both measured too: processes that go
 * on side by side plan with the same times. */
void hri_timing_share(hri_timing *t);
/* Nanoseconds of one run; negative: not known.  `timing` is an hri_timing. */
double hri_timing_time(void *timing, const hri_sig *sig, uint32_t variant);
/* GPU: nanoseconds of the ops one after another, in as few launches as a step makes of them; negative: not known. */
double hri_timing_together(void *timing, const hri_trial_op *ops, uint32_t count);
/* The same of many alike, or of as many of the first as there is memory for: *used. */
double hri_timing_many(void *timing, const hri_trial_op *ops, uint32_t count, uint32_t *used);
/* GPU: the share of a copy's time that kernels beside it lose (run/drag.h), measured once and kept with the times. */
double hri_timing_copy_drag(hri_timing *t);
/* GPU: a speed of the machine as it was first measured, so that all processes plan with the same one; `measured` where none is
 * kept yet. */
double hri_timing_keep(hri_timing *t, const char *key, double measured);
/* Its keys: bytes a nanosecond from the device to the host, and back. */
#define HRI_TIMING_COPY_OUT "copy out, bytes a ns"
#define HRI_TIMING_COPY_IN  "copy in, bytes a ns"
/* GPU: the pace of a graph's steps, 1 where no training has measured it.  All times that are given from then on are so many times as
 * long. */
double hri_timing_take_pace(void *timing, const hr_graph *g);
/* What keeps a pace at the end of a training, when timings are closed; zeroed: nothing does. */
typedef struct hri_pace {
    char folder[1024], file[128], key[32];
    double predicted_ns; /* of a step, at a pace of 1; 0: nothing is kept */
} hri_pace;
void hri_timing_pace_of(const hri_timing *t, const hr_graph *g, double predicted_ns, hri_pace *out);
/* Keeps it where none is kept.  What is further off than any GPU's clock sinks is not kept: somebody else used the GPU. */
void hri_pace_keep(const hri_pace *pace, uint64_t step_ns);
/* GPU: what captured graphs take is known to the engine from then on (run/node_bytes.h), measured once and kept likewise. */
void hri_timing_measure_graphs(hri_timing *t);
/* GPU: the time that trying kernels took so far. */
uint64_t hri_timing_trial_ns(const hri_timing *t);
/* How many signatures are known, and how many of them were measured by this run. */
void hri_timing_counts(const hri_timing *t, uint64_t *known, uint64_t *measured);

#endif
