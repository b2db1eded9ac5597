/* Ways out of a refusal: the same job with other options that would fit, each of them planned.
 *
 * The one idea: a way is a few options set anew, as texts.  Whoever made the job makes it again with them (hri_plan_road),
 * so what is shown is what will be planned.  The command line prints a way as flags, Python as keyword arguments. */
#ifndef HRI_JOB_WAYS_H
#define HRI_JOB_WAYS_H

#include "job/answer.h"

/* How changed options become a job.  A change of "budget" changes no job. */
struct hri_plan_road {
    void *user;
    bool budget_only; /* nothing else may change: a run that is resumed, two runs in one arena */
    bool has_input;   /* val_batch and data_budget_bytes may change */
    bool has_nesterov;
    HR_MUST_CHECK hr_status (*job)(void *user, const hri_way_change *changes, size_t count,
                                   hri_fit_job *out, hri_prose *why);
};

/* Fills the answer's ways; out->row is the smallest that was found. */
HR_MUST_CHECK hr_status hri_plan_ways_find(hri_plan_job *job, hri_plan_answer *out, hri_prose *why);

#endif
