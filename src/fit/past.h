/* Searches of this fit that were made before.
 *
 * A plan is a pure function of its problem and options (plan/plan.h), and budgets near one another look at the same smaller ones
 * (fit.c): who plans one budget after another would search for most plans twice.  The last few are kept here, those that found
 * nothing too.  That there is no memory for it is no failure.
 *
 * Threads: one at a time. */
#ifndef HRI_FIT_PAST_H
#define HRI_FIT_PAST_H

#include "plan/plan.h"

typedef struct hri_past hri_past;

/* NULL where there is no memory: nothing is kept then. */
hri_past *hri_past_create(void);
/* NULL is allowed. */
void hri_past_destroy(hri_past *past);
/* As hri_plan_make; the plan is the caller's.  `past` may be NULL, and searches with a memo or a start are not kept. */
HR_MUST_CHECK hr_status hri_past_plan(hri_past *past, const hri_problem *p,
                                      const hri_plan_options *options, hri_plan **out,
                                      hri_prose *why);

#endif
