/* How trainings that share a device are planned, once each was looked at and sized (together.c). */
#ifndef HRI_JOB_TOGETHER_PLAN_H
#define HRI_JOB_TOGETHER_PLAN_H

#include "job/together.h"

/* Into the jobs' plans and answers, with what is left of the budget and, of those that do not fit, which it is.  HR_OK whether they
 * fit or not.  After a failure jobs[which].why has it. */
HR_MUST_CHECK hr_status hri_together_plan_jobs(hri_together *t);

#endif
