/* Samples from an input pipeline into the inputs of a plan, one at a time, each straight to its place.
 *
 * The one idea: the pipeline gives single samples, so neither its place in an epoch nor its budget knows how a batch is
 * cut.  A training may go on with another budget and other parts and still sees the same samples in the same order.  No
 * batch is ever put together beside the arena.
 *
 * Training takes sample after sample.  An epoch that ends between two batches ends with HR_E_EOF, and begins again when it
 * is told to; one that ends in the middle of a batch (samples were left out, or the pipeline has no whole(N)) fills it up
 * with the first samples of the next.  Evaluation starts at the beginning each time and ends with the data: what is missing
 * in its last batch is filled with zeros whose label, -1, counts for nothing.  A model whose loss leaves nothing out gets
 * HR_E_AGAIN there: its last samples are asked for one by one.
 *
 * A field goes to the input of its name; the first input and the label also take the usual names of data (source.h).
 *
 * A label that is missing is, for tokens, the next token.  An input of bytes gets bytes, which the graph normalises
 * (graph/pixels.h); for an input of real numbers they become numbers between 0 and 1.  Threads: one at a time. */
#ifndef HRI_LOOP_SUPPLY_H
#define HRI_LOOP_SUPPLY_H

#include "fit/planned.h"
#include "loop/mix.h"
#include "loop/source.h"

typedef struct hri_supply hri_supply;

typedef struct hri_supply_options {
    const char *pipeline;     /* gives single samples */
    hr_pipeline *built;       /* in its place: somebody's own, which outlives the supply */
    const hri_source *source; /* for the names of its fields */
    const hri_model_input *want;
    const hri_tabular *table; /* of a source of columns; NULL: it has none.  Outlives the supply */
    hr_pipeline_options pipeline_options;
    int until_bad; /* 1: evaluation gets the samples before a bad one, and the failure with the next run */
    int dealt;     /* 1: the pipeline leaves out what others train on (deal) */
    int no_labels; /* 1: every label is -1, whatever the data has: for predicting */
    int fills_up;  /* 1: a short batch of evaluation is filled up whatever the loss makes of it */
    const int32_t *
        label_map; /* label_count numbers: what a label of the data is to the model; NULL: itself */
    size_t label_count;
    const hri_mix_options *mix; /* of training: samples are mixed in pairs; NULL: they are not */
    uint64_t mix_batch;         /* samples of a step, then */
    /* Is shown each sample that was put, with its place in the run; NULL: nobody is. */
    void (*seen)(void *user, uint32_t index, const hr_element *sample);
    void *seen_user;
} hri_supply_options;

HR_MUST_CHECK hr_status hri_supply_open(const hri_supply_options *o, hri_supply **out,
                                        hri_prose *why);
/* NULL is allowed. */
void hri_supply_close(hri_supply *s);
hr_pipeline *hri_supply_pipeline(hri_supply *s);

/* Fills the inputs of one run; *fed (may be NULL) says with how many samples.  HR_E_EOF when there is no sample left for
 * the first run of a batch, before anything was put.  HR_E_AGAIN: fewer are left than the run has room for, and nothing
 * can stand in their place; a run of one sample gets the next. */
HR_MUST_CHECK hr_status hri_supply_feed(hri_supply *s, const hri_planned_run *run, uint32_t *fed,
                                        hri_prose *why);
/* 1 when the epoch that was fed has no sample left, as the pipeline said; until the next one is begun. */
int hri_supply_ended(const hri_supply *s);
/* The place between two samples, and back to it: hr_pipeline_save, hr_pipeline_restore. */
HR_MUST_CHECK hr_status hri_supply_restore(hri_supply *s, const void *place, size_t bytes,
                                           uint64_t epoch, hri_prose *why);
/* Starts epoch `epoch`. */
HR_MUST_CHECK hr_status hri_supply_start(hri_supply *s, uint64_t epoch, hri_prose *why);
/* The same behind an epoch that ended: one that has begun already, in the middle of a batch, goes on where it is. */
HR_MUST_CHECK hr_status hri_supply_go_on(hri_supply *s, uint64_t epoch, hri_prose *why);
/* Time spent waiting for samples, so far. */
uint64_t hri_supply_wait_ns(const hri_supply *s);

#endif
