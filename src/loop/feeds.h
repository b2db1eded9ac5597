/* What feeds a training: samples of its pipelines, or a batch that somebody brings. */
#ifndef HRI_LOOP_FEEDS_H
#define HRI_LOOP_FEEDS_H

#include "loop/supply.h"

/* What feeds a training: the function and the user that hri_planned_options asks for. */
typedef struct hri_feeds {
    hri_supply *train, *validation; /* validation may be NULL */
    uint32_t fed;                   /* samples that the last run had */
    /* A batch of somebody's own for the next step, in place of the pipeline's; NULL: none. */
    const hr_field *fields;
    size_t field_count;
    uint32_t field_first,
        field_samples; /* evaluation: the first of them that is due, and how many there are */
    const hri_model_input *want;
} hri_feeds;

/* Is this a whole batch: every input by its name, in its type, with so many samples?  HR_E_NOT_FOUND, HR_E_SHAPE. */
HR_MUST_CHECK hr_status hri_fields_check(const hr_field *fields, size_t count,
                                         const hri_model_input *want, uint64_t samples,
                                         hri_prose *why);

HR_MUST_CHECK hr_status hri_feeds_feed(void *feeds, const hri_planned_run *run, hri_prose *why);

#endif
