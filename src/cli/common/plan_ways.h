/* Ways out of a refusal: other command lines that would fit, each of them planned.
 *
 * The one idea: a way is a few changes to the flags that were typed.  The command's own table reads them (hri_change,
 * base/options.h), the job that is planned is made from the flags as they then are, and the command that is shown is printed
 * from the same flags by the same table.  So what is shown can be typed, and is planned as it will be then. */
#ifndef HRI_CLI_PLAN_WAYS_H
#define HRI_CLI_PLAN_WAYS_H

#include "cli/common/plan_answer.h"

/* How the flags of a command become a job.  A change of "budget" changes no job. */
struct hri_plan_road {
    void *user;
    const hri_field *fields;
    bool budget_only; /* nothing else may change: a run that is resumed, two runs in one arena */
    HR_MUST_CHECK hr_status (*job)(void *user, const hri_change *changes, size_t count,
                                   hri_fit_job *out, hri_prose *why);
    HR_MUST_CHECK hr_status (*command)(void *user, const hri_change *changes, size_t count,
                                       hri_text *out);
};

/* Fills the answer's ways; out->row is the smallest that was found. */
HR_MUST_CHECK hr_status hri_plan_ways_find(hri_plan_job *job, hri_plan_answer *out, hri_prose *why);
/* " --batch 27 --budget 64MiB" */
HR_MUST_CHECK hr_status hri_plan_ways_flags(const hri_field *fields, const hri_change *changes,
                                            size_t count, hri_text *out);

#endif
