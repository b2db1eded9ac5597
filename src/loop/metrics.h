/* How good predictions are: sums over samples, and the numbers that follow from them.
 *
 *   classes   confusion matrix; accuracy, top-k, precision, recall, F1 (Dice) and IoU of each class, and their means over classes that
 *             occur; AUC of each class against the others, from softmax probabilities
 *   flags     the same for each output alone, right at 0.5
 *   numbers   MAE, RMSE and R2, each the mean over outputs
 *
 * The definitions are scikit-learn's: a ratio without a denominator is 0, ties count half, a class without positives or
 * without negatives has no AUC.  What is missing (an id below 0, a number that is NaN) counts for nothing.
 * Memory: classes^2 counts, and for AUC every score as long as there are at most HRI_METRICS_SCORES. */
#ifndef HRI_LOOP_METRICS_H
#define HRI_LOOP_METRICS_H

#include <stdint.h>
#include <headroom/status.h>
#include "loop/source.h"

enum { HRI_METRICS_SCORES = 1 << 22, HRI_METRICS_CLASSES = 1000, HRI_METRICS_MAX = 8 };

typedef struct hri_metrics hri_metrics;

typedef struct hri_metrics_options {
    hri_target target;
    int64_t outputs;          /* classes, flags or numbers of a row */
    const hri_tabular *table; /* NUMBERS: their units; NULL: as they are */
    int no_auc;    /* rows are pixels or tokens, too many for it to be of use; or nobody asks */
    uint64_t rows; /* of which AUC is told: room is taken at once; 0: as they come */
} hri_metrics_options;

typedef struct hri_metric {
    const char *name; /* "f1" */
    double value;     /* NAN: it cannot be told */
} hri_metric;

/* Of one class, or flag. */
typedef struct hri_class_metrics {
    uint64_t samples, predicted, right;
    double precision, recall, f1, iou, auc;
} hri_class_metrics;

/* HR_E_RANGE for more than HRI_METRICS_CLASSES outputs. */
HR_MUST_CHECK hr_status hri_metrics_open(const hri_metrics_options *o, hri_metrics **out);
/* NULL is allowed. */
void hri_metrics_close(hri_metrics *m);
/* Rows of scores before softmax with their ids; HR_E_NOMEM_HOST. */
HR_MUST_CHECK hr_status hri_metrics_add_ids(hri_metrics *m, const float *scores, const int32_t *ids,
                                            uint64_t rows);
/* Rows of outputs with their targets: FLAGS, NUMBERS. */
HR_MUST_CHECK hr_status hri_metrics_add_reals(hri_metrics *m, const float *scores,
                                              const float *targets, uint64_t rows);
/* The numbers of its task; returns how many, at most HRI_METRICS_MAX. */
HR_MUST_CHECK hr_status hri_metrics_get(hri_metrics *m, hri_metric *out, size_t *count);
/* c below `outputs`; not of numbers. */
HR_MUST_CHECK hr_status hri_metrics_class(hri_metrics *m, int64_t c, hri_class_metrics *out);
/* Share of rows whose id is among the k best scores, of equal ones the smaller number first; of classes.  NAN: no row. */
double hri_metrics_top(const hri_metrics *m, int64_t k);
/* Forgets all rows, and keeps the room. */
void hri_metrics_clear(hri_metrics *m);
/* What one takes at most, with rows and what telling it takes. */
uint64_t hri_metrics_bytes(const hri_metrics_options *o);
/* Rows with this id that were taken for `as`; of classes. */
uint64_t hri_metrics_confusion(const hri_metrics *m, int64_t id, int64_t as);

#endif
