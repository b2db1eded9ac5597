/* Options of a job set anew by name: what a way out does, and what a way out is planned with. */
#ifndef HRI_JOB_CHANGE_H
#define HRI_JOB_CHANGE_H

#include "job/answer.h"

/* *to is *from with the changes.  training gets the new text of options of training, when it changes; *to points to it
 * and to the changes.  HR_E_NOT_FOUND for a key that is none. */
HR_MUST_CHECK hr_status hri_job_change(const hr_job_options *from, const hri_way_change *changes,
                                       size_t count, hri_text *training, hr_job_options *to);
/* Adds a text of options of training with one key set: "rate=0.1,momentum=0". */
void hri_training_set(const char *from, const char *key, const char *value, hri_text *out);

#endif
