/* Inference inside a budget: the evaluation graph of a checkpoint's model, planned, proven and run batch by batch.
 *
 *   hri_predictor_open(&options, &i, &why);             plans, takes the memory, loads the weights
 *   while ((status = hri_predictor_next(i, &why)) == HR_OK) {
 *       hri_predictor_fed(i) samples have been through; hri_predictor_scores(i) are theirs, (fed, classes)
 *   }                                               HR_E_EOF: the data has ended
 *   hri_predictor_close(i);
 *
 * The promise is that of training: the budget bounds what the outside sees, the answer comes before the first sample,
 * and a refusal names what makes the floor.  Samples of a batch do not touch one another here, so a batch that does not
 * fit may be made smaller without changing a result: batch 0 takes the largest power of two that fits.
 *
 * Threads: one at a time. */
#ifndef HRI_LOOP_PREDICTOR_H
#define HRI_LOOP_PREDICTOR_H

#include <headroom/run.h>
#include "weights/checkpoint.h"
#include "loop/supply.h"
#include "passes/common/pass.h"

enum { HRI_PREDICTOR_BATCH = 64 }; /* the most that batch 0 tries */

typedef struct hri_predictor hri_predictor;

typedef struct hri_predictor_options {
    hr_device *device;
    hr_model *model;          /* of the checkpoint; these three live as long as the inference */
    const hri_passes *passes; /* over the model; NULL: none */
    const hri_checkpoint *checkpoint; /* may be closed after opening */
    hri_supply *supply;
    hri_pixels
        pixels; /* of images that the supply gives as bytes; zeros: it gives what the model asks for */
    int64_t batch;  /* samples at once, or fewer where so many do not fit; 0: as many as fit */
    int outputs;    /* the result "logits" is read whatever its shape, for hri_predictor_output */
    int single;     /* the supply's last samples come one by one: its loss leaves nothing out */
    uint64_t count; /* samples there are: a batch is not much larger; HR_COUNT_UNKNOWN: not known */
    uint64_t budget_bytes; /* of everything; 0: as much as it takes */
    uint64_t data_bytes;   /* of it, what the supply's pipeline may still take */
    uint32_t threads;      /* 0: one a core */
    struct hr_budget
        *ledger; /* whose bounds hold, too, and which the supply has leased from; NULL: none */
    uint64_t wait_ms;
    const char *name; /* of the holder of its leases */
    uint64_t *
        minimum_bytes; /* gets the budget that one sample at once needs, when it does not fit; NULL: not asked */
} hri_predictor_options;

/* HR_E_NO_PLAN: it does not fit, with the minimum and its op in the sentence; whatever loading a checkpoint gives. */
HR_MUST_CHECK hr_status hri_predictor_open(const hri_predictor_options *o, hri_predictor **out,
                                           hri_prose *why);
/* NULL is allowed. */
void hri_predictor_close(hri_predictor *i);

/* Other samples from now on, of the same form. */
void hri_predictor_set_supply(hri_predictor *i, hri_supply *supply);
/* One batch.  HR_E_EOF when there is no sample left. */
HR_MUST_CHECK hr_status hri_predictor_next(hri_predictor *i, hri_prose *why);
/* How many samples the last batch had. */
uint32_t hri_predictor_fed(const hri_predictor *i);
/* Its scores before softmax, (fed, classes), or NULL for a model that has none a sample (gpt2, unet). */
const float *hri_predictor_scores(const hri_predictor *i);
int64_t hri_predictor_classes(const hri_predictor *i);
/* The same in the model's own shape, *meta of one sample; NULL: it has no such result, or it was not asked for. */
const float *hri_predictor_output(const hri_predictor *i, hr_meta *meta);
/* Loss, accuracy and top5 of the last batch, over the labels that count; NAN where the graph does not say. */
hri_numbers hri_predictor_numbers(const hri_predictor *i);

/* A persistent value of its graph, by name; HR_E_NOT_FOUND, and HR_E_SHAPE when it has other bytes. */
HR_MUST_CHECK hr_status hri_predictor_get(hri_predictor *i, const char *name, void *to,
                                          uint64_t bytes);
int64_t hri_predictor_batch(const hri_predictor *i);
/* The plan and what was measured so far; data_bytes is in runtime_bytes and so in the peak. */
void hri_predictor_report(const hri_predictor *i, hr_run_report *out);

#endif
