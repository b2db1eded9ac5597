/* One search for a plan: see plan.h and plan_make.c. */
#ifndef HRI_PLAN_PLAN_MAKE_H
#define HRI_PLAN_PLAN_MAKE_H

#include "plan/plan.h"

/* As hri_plan_make, for the budget as it is and no other. */
HR_MUST_CHECK hr_status hri_plan_make_once(const hri_problem *p, const hri_plan_options *options,
                                           hri_plan **out, int *impossible, hri_prose *why);

enum { HRI_PLAN_KEPT = 4 }; /* schedules that a search ends with, the fastest */
/* Steps that a plan may have where memory is short. */
uint64_t hri_plan_short_entries(const hri_problem *p);

#endif
