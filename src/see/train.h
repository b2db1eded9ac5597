/* A profile of some steps of a real training run: `train --profile FILE`.
 *
 *   hri_see_train *t;
 *   status = hri_see_train_open(plan, "run.hrp", "100-102", &t, &why);      before training starts
 *   hri_see_train_event(t, planned, event);                                 everything that is told
 *   status = hri_see_train_write(t, &why);                                  once the arena has been given back
 *   hri_see_train_close(t);
 *
 * Steps outside the range run as always, and cost nothing.  Steps inside it run op by op; on a GPU, where that costs a tenth of a
 * step, only the first does, and the others are timed whole.  The file is written at the end: before, there would be no
 * room for it in the budget. */
#ifndef HRI_SEE_TRAIN_H
#define HRI_SEE_TRAIN_H

#include <headroom/event.h>
#include "see/watch.h"

typedef struct hri_see_train hri_see_train;

/* "A-B" or "A": steps of the run, from 1.  HR_E_INVALID for anything else. */
HR_MUST_CHECK hr_status hri_see_train_steps(const char *text, uint64_t *first, uint64_t *last);
/* The plan is not used yet.  "PATH.plan" is made. */
HR_MUST_CHECK hr_status hri_see_train_open(hr_plan *plan, const char *path, const char *steps,
                                           hri_see_train **out, hri_prose *why);
void hri_see_train_event(hri_see_train *t, hri_planned *planned, const hr_job_event *e);
/* How many ops were timed; 0: the run ended before its first step. */
size_t hri_see_train_timed(const hri_see_train *t);
HR_MUST_CHECK hr_status hri_see_train_write(hri_see_train *t, hri_prose *why);
/* NULL is allowed. */
void hri_see_train_close(hri_see_train *t);

#endif
