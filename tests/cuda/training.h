/* A training on cuda:0, set up as the program does it: engine, timings, fit, plans.  Every part may fail on the way; what
 * is there is closed in any case. */
#ifndef TESTS_CUDA_TRAINING_H
#define TESTS_CUDA_TRAINING_H

#include <headroom/headroom.h>
#include "fit/planned.h"
#include "fit/timing.h"

enum { TRAINING_STEPS = 3, TRAINING_SEED = 7 };

typedef struct training {
    hr_ctx *ctx;
    hr_device *device;
    hri_engine *engine;
    hri_timing *timing;
    hr_model *model;
    hri_fit_job job;
    hri_fit fit;
    hri_fit_plans plans;
    hri_planned *planned;
    hri_engine *engines[8]; /* with the first; engine_count 0: there is one */
    uint32_t engine_count;
    uint64_t seed, cycle; /* TRAINING_SEED and none, unless set after open */
    /* Made-up batches, unless set before training_take. */
    hr_status (*feed)(void *user, const hri_planned_run *run, hri_prose *why);
    void *feed_user;
} training;

/* The device, its engine and the job; skips the case where there is none that runs kernels. */
void training_open(training *t, const char *model, const char *options, int64_t batch);
/* The same without a check, for faults. */
hr_status training_try(training *t, const char *model, const char *options, int64_t batch,
                       hri_prose *why);
/* More devices beside cuda:0, before training_plan; each may read the others where `peers`. */
void training_add_devices(training *t, uint32_t count, int peers);
/* Plans for a share of what plain training takes over the floor (1: all of it, 0: the floor), or a little more where no
 * plan is found. */
void training_plan(training *t, double share);
/* Takes the memory.  Afterwards problems and plans are gone but for their sums in t->plans. */
void training_take(training *t);
void training_steps(training *t, float *losses);
/* Of every parameter and state that a checkpoint has. */
hr_status training_print(hri_planned *p, uint64_t *out);
/* Ends the plans, so that another budget can be tried, or everything. */
void training_drop(training *t);
void training_close(training *t);
/* The same steps by the interpreter on the host. */
void training_on_the_host(const training *t, float *losses);

#endif
