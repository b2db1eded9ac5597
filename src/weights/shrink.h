/* A smaller model of a checkpoint: whole channels are removed where the graph allows it (passes/common/channels.h).
 *
 *   hri_shrinking_init(&x, &checkpoint, model, &options, &why);     reads weights, one layer at a time, and chooses
 *   ... x.cuts, x.report: what it will be; hri_shrink_build as an hr_build_fn with &x: the model
 *   hri_shrinking_save(&x, "small.safetensors", &about, &why);
 *   hri_shrinking_deinit(&x);
 *
 * Channels that are tied are one unit (channels.h), and units of the outputs of one layer are one group.  What is removed:
 *
 *   zeros      units that nothing reads: wherever a layer would read one, it is constant 0 or the weights for it are.  The function
 *              stays what it was, but for the order of sums
 *   keep       of each group the share with the largest score
 *   threshold  units with a smaller score
 *
 * A unit's score is the norm (L1 or L2) of its weights in each layer that makes it, over the mean of the layer's outputs, and of this
 * the mean over these layers; what nothing reads has 0.  Of equal ones the first stay. */
#ifndef HRI_WEIGHTS_SHRINK_H
#define HRI_WEIGHTS_SHRINK_H

#include "passes/common/shrinking.h"
#include "weights/checkpoint.h"

typedef enum hri_shrink_by {
    HRI_SHRINK_ZEROS = 0,
    HRI_SHRINK_KEEP,
    HRI_SHRINK_THRESHOLD
} hri_shrink_by;

typedef struct hri_shrink_options {
    int by;           /* hri_shrink_by */
    double keep;      /* share of each group, above 0 to 1 */
    double threshold; /* of the mean, 0 and more */
    int l1;           /* 1: sums of magnitudes in place of the roots of sums of squares */
    int64_t multiple; /* a group keeps a multiple of it, and at least as many; 1: any number */
} hri_shrink_options;

typedef struct hri_shrink_report {
    uint64_t groups;            /* of channels that may be removed */
    uint64_t units, units_gone; /* in them */
    uint64_t unread;            /* of those that are gone: nothing read them */
    uint64_t fixed;             /* groups in which every unit must stay */
} hri_shrink_report;

typedef struct hri_shrinking {
    const hri_checkpoint *checkpoint;
    hr_model *model; /* as it was; not owned */
    hr_graph *g;     /* its evaluation, for a batch of 1 */
    int averages;    /* parameters are those averaged over training (ema) */
    hri_channels c;  /* of g */
    uint8_t *gone;   /* by unit of c */
    hri_cuts cuts;
    hri_shrink_report report;
} hri_shrinking;

/* HR_E_UNSUPPORTED for a checkpoint with adapters, or of a quantized model; HR_E_NOT_FOUND, HR_E_FORMAT for one that does not go
 * with its model.  A zeroed one may be taken apart. */
HR_MUST_CHECK hr_status hri_shrinking_init(hri_shrinking *x, const hri_checkpoint *c,
                                           hr_model *model, const hri_shrink_options *o,
                                           hri_prose *why);
void hri_shrinking_deinit(hri_shrinking *x);
/* An hr_build_fn; `shrinking` is an hri_shrinking. */
HR_MUST_CHECK hr_status hri_shrink_build(void *shrinking, hr_graph *g, int64_t batch, int training);
/* Writes a checkpoint of parameters alone.  about->graph is the text of the smaller model. */
HR_MUST_CHECK hr_status hri_shrinking_save(const hri_shrinking *x, const char *path,
                                           const hri_about *about, hri_prose *why);

/* A parameter or state of x->g, all of it, as it is in memory: `to` has room for it. */
HR_MUST_CHECK hr_status hri_shrink_read(const hri_shrinking *x, hr_value v, void *to,
                                        hri_prose *why);
/* Fills `gone` and the report (shrink_choose.c). */
HR_MUST_CHECK hr_status hri_shrink_choose(hri_shrinking *x, const hri_shrink_options *o,
                                          hri_prose *why);
/* By unit: 1 where some layer reads it (shrink_unread.c); `read` has room for x->c.count. */
HR_MUST_CHECK hr_status hri_shrink_find_read(const hri_shrinking *x, uint8_t *read, hri_prose *why);

#endif
