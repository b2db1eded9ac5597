/* Options of training that concern what is learnt from which sample, and what is told of it: flags of `headroom train`, and
 * fields of hr_job_options under the same names. */
#ifndef HRI_JOB_HABITS_H
#define HRI_JOB_HABITS_H

#include <headroom/job.h>
#include "base/options.h"
#include "loop/source.h"

typedef struct hri_habits {
    const char *metric, *best_by; /* NULL: none */
    double mixup, cutmix;
    const char *seeds;
} hri_habits;

#define HRI_METRIC_HELP                                                                            \
    "more metrics: topK, precision, recall, f1, dice, iou, auc (of one class: recall:star), mae, " \
    "rmse, r2, perplexity"

#define HRI_AUGMENT_HELP                                                                           \
    "random augmentation of training images: flip, crop, jitter, randaugment, erase, or none"

/* The rows of a table of flags, over a struct TYPE that has an hri_habits `habits`. */
#define HRI_HABIT_FIELDS(TYPE)                                                                     \
    {"metric",                                                                                     \
     HRI_METRIC_HELP "; of each validation",                                                       \
     offsetof(TYPE, habits.metric),                                                                \
     HRI_FIELD_STRING,                                                                             \
     NULL,                                                                                         \
     .metavar = "NAMES"},                                                                          \
        {"mixup",                                                                                  \
         "mix pairs of samples and their labels, by shares from Beta(ALPHA, ALPHA); 0: off",       \
         offsetof(TYPE, habits.mixup),                                                             \
         HRI_FIELD_DOUBLE,                                                                         \
         "0",                                                                                      \
         .min = 0,                                                                                 \
         .max = 1000,                                                                              \
         .metavar = "ALPHA"},                                                                      \
        {"cutmix",                                                                                 \
         "put a rectangle of one image into another, by shares from Beta(ALPHA, ALPHA); 0: off",   \
         offsetof(TYPE, habits.cutmix),                                                            \
         HRI_FIELD_DOUBLE,                                                                         \
         "0",                                                                                      \
         .min = 0,                                                                                 \
         .max = 1000,                                                                              \
         .metavar = "ALPHA"},                                                                      \
        {"seeds",                                                                                  \
         "seeds of parts, data=N,init=N,dropout=N,augment=N; those not named: --seed",             \
         offsetof(TYPE, habits.seeds),                                                             \
         HRI_FIELD_STRING,                                                                         \
         NULL,                                                                                     \
         .metavar = "PART=N,..."},                                                                 \
    {                                                                                              \
        "best-by",                                                                                 \
            "metric that the best checkpoint, --patience and the schedule plateau go by; "         \
            "default: "                                                                            \
            "loss",                                                                                \
            offsetof(TYPE, habits.best_by), HRI_FIELD_STRING, NULL, .metavar = "NAME"              \
    }

static inline void hri_habits_set(const hri_habits *h, hr_job_options *o) {
    o->metric = h->metric;
    o->best_by = h->best_by;
    o->mixup = h->mixup;
    o->cutmix = h->cutmix;
    o->seeds = h->seeds;
}

#endif
