/* The trainer: steps, epochs, validation, checkpoints, early stopping; one step at a call.
 *
 *   hri_trainer_open(&options, &t, &why);            everything is set up and taken; goes on from a checkpoint if told
 *   while (!hri_trainer_over(t)) {
 *       status = hri_trainer_step(t, &why);          one update, and whatever follows from it
 *   }
 *   hri_trainer_close(t);
 *
 * The caller owns the loop, so two trainings can take turns, and a signal is looked at between two steps.  Values of
 * the plan are reached by copying alone (hri_planned_put, _get): the trainer does not know where it trains.
 *
 * The history of a training is a function of model, data, options and seed: neither threads, nor the budget as far as it
 * only computes things again, nor stopping and going on change a bit of it.  `digest` hashes every loss, so that two
 * histories can be compared at a glance.
 *
 * A loss that is not finite ends the training with HR_E_RANGE before anything is saved.  A checkpoint that cannot be
 * written is a warning and tried again; only when the last one fails does the training fail.
 *
 * Threads: one at a time. */
#ifndef HRI_LOOP_TRAINER_H
#define HRI_LOOP_TRAINER_H

#include "weights/checkpoint.h"
#include "fit/planned.h"
#include "records/record.h"
#include "loop/scorer.h"
#include "loop/feeds.h"

typedef enum hri_trainer_end {
    HRI_TRAINER_RUNS = 0,
    HRI_TRAINER_DONE,        /* as many epochs or steps as were asked for */
    HRI_TRAINER_EARLY,       /* nothing got better for `patience` validations */
    HRI_TRAINER_INTERRUPTED, /* hri_trainer_stop */
    HRI_TRAINER_FAILED
} hri_trainer_end;

typedef struct hri_trainer hri_trainer;

#define HRI_BEST_BY_LOSS SIZE_MAX

typedef struct hri_trainer_options {
    hri_planned *planned; /* taken; lives as long as the trainer, as do all below */
    hri_feeds *feeds;     /* that feed it; without validation there is none */
    const hri_about *about;
    uint64_t epochs, steps;   /* either may be 0: then the other decides */
    uint64_t steps_per_epoch; /* 0: until the data ends */
    uint64_t validate_every;  /* steps; 0: after every epoch */
    uint64_t patience; /* validations (epochs without any) without a better one; 0: never mind */
    double min_delta;  /* what counts as better */
    uint64_t
        best_from; /* steps done before which no validation is the best: the model changes yet */
    hri_scorer *scorer;    /* of the validation's supply, which shows it its samples; NULL: none */
    size_t best_by;        /* of its metrics, what `best` and `patience` go by; HRI_BEST_BY_LOSS */
    uint64_t save_every;   /* steps between checkpoints beside those of epochs; 0: none */
    uint64_t save_seconds; /* the same by the clock; 0: never */
    const char *folder;    /* of checkpoints; NULL: none are written */
    int locked; /* the caller has it open (hri_folder_open), and longer than the trainer */
    const hri_checkpoint *resume; /* NULL: from the start */
    hri_progress_state begin;     /* batch, seed, parts, input_print: for the checkpoint */
    hri_record *record;           /* NULL: nothing is recorded */
    hr_log_fn *log;
    void *log_user;
    /* Called after each step, validation and epoch (any may be NULL); on a GPU a step is told while the next one runs. */
    void (*on_step)(void *user, const hri_record_step *s);
    void (*on_validation)(void *user, const hri_record_validation *v);
    void (*on_epoch)(void *user, const hri_record_epoch *e, const hri_record_validation *v);
    /* A checkpoint was written there, or could not be: text is the path, or the reason. */
    void (*on_save)(void *user, int failed, const char *text);
    /* Between the parts of a step and the batches of a validation; any status but HR_OK ends them with it. */
    hri_planned_tick_fn *on_tick;
    void *user;
} hri_trainer_options;

/* Where the time went, and what came of it. */
typedef struct hri_trainer_sums {
    uint64_t steps, samples;   /* by this process */
    uint64_t step_ns, wait_ns; /* wait is inside step */
    uint64_t validate_ns, save_ns, all_ns;
    hri_record_epoch epoch;           /* the last whole one; .epoch 0: none */
    hri_record_validation validation; /* the last; .epoch 0: none */
    hri_record_validation best;
    float loss; /* of the last step */
    uint64_t saves;
} hri_trainer_sums;

/* Loads the checkpoint, if there is one to go on from.  HR_E_INVALID when it is of another training, HR_E_BUSY when
 * another one runs in the folder. */
HR_MUST_CHECK hr_status hri_trainer_open(const hri_trainer_options *o, hri_trainer **out,
                                         hri_prose *why);
/* NULL is allowed.  Saves nothing. */
void hri_trainer_close(hri_trainer *t);

/* One update and what follows from it; or, where the data turns out to have ended, the end of the epoch alone. */
HR_MUST_CHECK hr_status hri_trainer_step(hri_trainer *t, hri_prose *why);
hri_trainer_end hri_trainer_over(const hri_trainer *t);
/* Ends the training after the last step: saves, so that it can go on.  Not from a signal handler. */
HR_MUST_CHECK hr_status hri_trainer_stop(hri_trainer *t, hri_prose *why);

/* One update and nothing that may be due, from whatever feeds->fields has: the batch of somebody else. */
HR_MUST_CHECK hr_status hri_trainer_update(hri_trainer *t, hri_record_step *out, hri_prose *why);
/* The same in pieces, where gradients are kept: adds `share` of those of the batch that feeds->fields has; then the update,
 * which is a step.  HR_E_BUSY: nothing was added.  Dropping forgets what was. */
HR_MUST_CHECK hr_status hri_trainer_backward(hri_trainer *t, double share, hri_numbers *out,
                                             hri_prose *why);
HR_MUST_CHECK hr_status hri_trainer_apply(hri_trainer *t, hri_record_step *out, hri_prose *why);
void hri_trainer_drop(hri_trainer *t);
int hri_trainer_has_gradients(const hri_trainer *t);
/* One pass over the validation data now, as when it is due. */
HR_MUST_CHECK hr_status hri_trainer_validate(hri_trainer *t, hri_record_validation *out,
                                             hri_prose *why);
/* A batch of evaluation from whatever feeds->fields has; counts for nothing. */
HR_MUST_CHECK hr_status hri_trainer_evaluate(hri_trainer *t, hri_numbers *out, hri_prose *why);
/* The parameters alone, as best.safetensors has them. */
HR_MUST_CHECK hr_status hri_trainer_save_weights(hri_trainer *t, const char *path, hri_prose *why);
typedef enum hri_trainer_span {
    HRI_TRAINER_STEP,
    HRI_TRAINER_EPOCH,
    HRI_TRAINER_VALIDATION
} hri_trainer_span;
/* The mean of a scalar result of the model over that; NAN: there was none yet.  HR_E_NOT_FOUND. */
HR_MUST_CHECK hr_status hri_trainer_metric(const hri_trainer *t, const char *name,
                                           hri_trainer_span span, double *out);
/* A checkpoint to go on from; path NULL: that of the folder.  HR_E_INVALID where there is none. */
HR_MUST_CHECK hr_status hri_trainer_save(hri_trainer *t, const char *path, hri_prose *why);

void hri_trainer_get_sums(const hri_trainer *t, hri_trainer_sums *out);
const hri_progress_state *hri_trainer_progress(const hri_trainer *t);
/* 1 when the last attempt to write a checkpoint failed. */
int hri_trainer_save_failed(const hri_trainer *t);
/* The last checkpoint that was written: its path and step; "" when there is none. */
const char *hri_trainer_saved(const hri_trainer *t, uint64_t *step);

#endif
