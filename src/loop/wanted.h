/* Metrics by name: "f1,recall:star,top3", which of them suit a task, and which way is better.
 *
 *   loss accuracy topK precision recall f1 dice iou auc   of classes, and of flags without topK
 *   mae rmse r2                                           of numbers
 *   perplexity                                            of tokens
 *
 * dice is another name of f1.  precision, recall, f1, dice, iou and auc are means over the classes that occur; with a
 * colon and a class, its name or its number from 0, they are of that class alone. */
#ifndef HRI_LOOP_WANTED_H
#define HRI_LOOP_WANTED_H

#include "base/prose.h"
#include "loop/metrics.h"

enum { HRI_WANTED_MAX = 16, HRI_WANTED_NAME = 80 };

typedef enum hri_wanted_kind {
    HRI_WANTED_LOSS = 0,
    HRI_WANTED_ACCURACY,
    HRI_WANTED_TOP,
    HRI_WANTED_PRECISION,
    HRI_WANTED_RECALL,
    HRI_WANTED_F1,
    HRI_WANTED_DICE,
    HRI_WANTED_IOU,
    HRI_WANTED_AUC,
    HRI_WANTED_MAE,
    HRI_WANTED_RMSE,
    HRI_WANTED_R2,
    HRI_WANTED_PERPLEXITY
} hri_wanted_kind;

typedef struct hri_wanted_metric {
    hri_wanted_kind kind;
    int64_t top; /* of TOP */
    int64_t of;  /* one class; -1: the mean over them */
    int scores;  /* it is made of the model's scores, not of what every evaluation says */
    char name[HRI_WANTED_NAME]; /* as it was asked for */
} hri_wanted_metric;

typedef struct hri_wanted {
    hri_wanted_metric of[HRI_WANTED_MAX];
    size_t count;
} hri_wanted;

/* What a model predicts. */
typedef struct hri_wanted_task {
    hri_target target;
    int64_t outputs;            /* classes, flags or numbers; 0: not known */
    int tokens;                 /* a class for each token of a sequence */
    int pixels;                 /* a class for each pixel */
    const char *const *classes; /* their names; NULL: they have none */
    size_t class_count;
} hri_wanted_task;

/* Adds the metrics of a list, those that are there already left out; NULL or "": none.  *last (may be NULL) is where the
 * last of them is.  HR_E_INVALID, HR_E_RANGE: there is no such metric, class or place, or the task has none. */
HR_MUST_CHECK hr_status hri_wanted_add(hri_wanted *w, const char *list, const hri_wanted_task *task,
                                       size_t *last, hri_prose *why);
/* 1: a larger number is better. */
int hri_wanted_rises(const hri_wanted_metric *m);

/* What an evaluation says without scores. */
typedef struct hri_wanted_sums {
    double loss, accuracy; /* NAN: the model does not say */
} hri_wanted_sums;

/* Its value; m may be NULL where no scores are needed.  NAN: it cannot be told. */
HR_MUST_CHECK hr_status hri_wanted_value(const hri_wanted_metric *w, hri_metrics *m,
                                         const hri_wanted_sums *sums, double *out);

#endif
