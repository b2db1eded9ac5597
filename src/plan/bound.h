/* How fast a plan within a budget can be at best: a bound that holds for every plan, from one fractional knapsack. */
#ifndef HRI_PLAN_BOUND_H
#define HRI_PLAN_BOUND_H

#include "plan/problem.h"

/* Nanoseconds.  `time_ns` is that of a known plan: a faster one has no more time for copies than that. */
HR_MUST_CHECK hr_status hri_bound_time(const hri_problem *p, uint64_t budget_bytes, double time_ns,
                                       double *out);
/* Every op once, the fastest way. */
double hri_base_time(const hri_problem *p);

#endif
