/* What the tests of trainers share: a model with three inputs whose loss is known, its samples, and a listener that counts. */
#ifndef TESTS_UNIT_JOB_TRAINER_RIG_H
#define TESTS_UNIT_JOB_TRAINER_RIG_H

#include <headroom/headroom.h>

enum { SAMPLES = 44, HELD = 7, BATCH = 4 };

extern float left[SAMPLES][3], right[SAMPLES][2], target[SAMPLES];

typedef struct rig {
    hr_ctx *ctx;
    hr_model *model;
    hr_job_options o;
    hr_plan *plan;
    int steps, validations, epochs, started, saved, save_failed, bad, ticks;
    char text[600];   /* of the last one that was saved, failed or bad */
    hr_status answer; /* to the event of step `answer_at` */
    uint64_t answer_at;
    double last_loss;
} rig;

/* A path in the folder of the test; four of them at a time. */
const char *in(const char *name);
/* Options are set, and may be changed before rig_plan. */
void rig_open(rig *r);
void rig_plan(rig *r);
void rig_close(rig *r);
/* The validation loss of these weights, in double. */
double loss_of(const float *w, const float *v);
/* Samples as fields of a batch. */
void fields_of(size_t from, size_t count, hr_field to[3]);

#endif
