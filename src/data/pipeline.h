/* The pipeline's inside, for the files of this folder that build and run it: pipeline.c (build, run, states),
 * text.c (the textual form), tune.c (the tuner). */
#ifndef HRI_DATA_PIPELINE_H
#define HRI_DATA_PIPELINE_H

#include <pthread.h>
#include "base/log.h"
#include "data/stage.h"

enum { HRI_BAD_KEPT = 100, HRI_NOTES_KEPT = 16 };

struct hr_pipeline {
    hr_pipeline_options options;
    const hri_tabular *table; /* NULL: none was given */
    hri_log log;
    hri_buffer_pool *pool;
    hri_account *user;
    hri_stage **stages; /* every one, nested ones too, inputs before those that pull from them */
    uint32_t stage_count, stage_capacity;
    hri_stage *last; /* of the outermost chain */
    bool built;
    uint64_t epoch, handed_elements, wait_ns;
    uint64_t fingerprint;
    pthread_mutex_t mutex; /* error, bad, progress, told */
    hr_error error;
    uint64_t bad_count;
    _Atomic uint64_t left_over; /* of the last epoch, by whole(N) */
    char *bad[HRI_BAD_KEPT];
    char *notes[HRI_NOTES_KEPT];
    uint32_t note_count;
    /* the tuner's */
    uint64_t tuned_ns, tuned_wait_ns;
    uint64_t *tuned; /* per stage: busy_ns, wait_ns, elements at the last look */
};

/* hr_pipeline_open of a source of columns that a table says (NULL: the source itself); it outlives the pipeline. */
HR_MUST_CHECK hr_status hri_pipeline_open_with(const hr_pipeline_options *options, const char *text,
                                               const hri_tabular *table, hr_error *error,
                                               hr_pipeline **out);
/* What its source has learnt of its columns: the caller's, and in use as long as the pipeline is; NULL: nothing. */
hri_tabular *hri_pipeline_take_table(hr_pipeline *p);
/* Tokens that it gives are numbers below this; 0: not known, or none. */
int64_t hri_pipeline_vocab(const hr_pipeline *p);
/* The token that fills short texts; 0: it is 0, or there is none. */
/* The size of the source's encoded images; false: it has none, or they differ. */
bool hri_pipeline_image_size(const hr_pipeline *p, uint32_t *height, uint32_t *width);
int64_t hri_pipeline_pad(const hr_pipeline *p);
/* Keeps the prose on the pipeline and returns status. */
hr_status hri_pipeline_fail(hr_pipeline *p, hr_status status, const char *format, ...)
    HR_PRINTF(3, 4);
/* Makes a stage of `type` with the options in `text` (may be NULL) behind `inputs`, which it does not own: the
 * pipeline owns all stages. */
HR_MUST_CHECK hr_status hri_pipeline_append(hr_pipeline *p, const hri_stage_type *type,
                                            const char *text, hri_stage *const *inputs,
                                            uint32_t input_count, hri_stage **out);
/* The same at the end of the outermost chain, which then ends there. */
HR_MUST_CHECK hr_status hri_pipeline_chain(hr_pipeline *p, const hri_stage_type *type,
                                           const char *name, hri_stage **out);
/* Takes back the stages from `count` on; for a text that turned out wrong half-way. */
void hri_pipeline_cut(hr_pipeline *p, uint32_t count);
/* Looks at the statistics now and then, and changes `parallel` and `depth` of stages. */
void hri_pipeline_tune(hr_pipeline *p, uint64_t now_ns);

#endif
