/* A small trainer over the interpreter: for tests of parity and of learning, and for benchmarks.
 *
 * It builds the graphs of a step, feeds synthetic batches (synthetic.h) and the small inputs of train.h, runs, and
 * gives the loss of every step.  The command trains with plans instead; this is what it is compared with.
 *
 *   hri_interp_job job = {.options = o, .build = build, .user = user, .batch = 8, .steps = 20, .seed = 1, .limit = 10};
 *   float losses[20];
 *   status = hri_train_run(&job, losses, &why); */
#ifndef HRI_LOOP_RUN_H
#define HRI_LOOP_RUN_H

#include <headroom/train.h>
#include "base/threads.h"
#include "run/interpret.h"

typedef struct hri_interp_job {
    hr_train_options options;
    hr_build_fn *build;
    void *user;
    int64_t batch;
    int64_t part; /* samples of a part; 0: the whole batch at once */
    uint64_t steps;
    uint64_t seed;        /* of the weights, of random ops and of the batches */
    uint64_t cycle;       /* > 0: batch s % cycle is used in step s; 0: a new one every step */
    uint32_t limit;       /* of whole-number inputs: classes, vocabulary */
    hri_threads *threads; /* NULL: one */
    /* Called once, before step 0, to set the weights (may be NULL: as the model says), and after the last step (may be
     * NULL).  Values are found by name in `g`, their memory by hri_interp_data(it, value). */
    hr_status (*begin)(void *user, const hr_graph *g, hri_interp *it);
    hr_status (*end)(void *user, const hr_graph *g, hri_interp *it);
    /* Fills an input instead of the rule of synthetic.h (may be NULL).  Returns 0 when it did not. */
    int (*fill)(void *user, const char *name, const hr_meta *meta, uint64_t step,
                uint32_t first_sample, void *out);
    hr_log_fn *log; /* NULL: silent */
    void *log_user;
} hri_interp_job;

/* losses[0 .. steps).  *why (may be NULL) gets the reason of a failure. */
HR_MUST_CHECK hr_status hri_train_run(const hri_interp_job *job, float *losses, hr_error *why);

#endif
