/* From a schedule to a plan: instances become buffers, entries become steps, the packer gives offsets. */
#ifndef HRI_PLAN_PLACE_H
#define HRI_PLAN_PLACE_H

#include "plan/schedule.h"

/* The schedule must have been run.  The arena is as low as the packer finds it with this effort (pack.h), or below
 * options->budget_bytes. */
HR_MUST_CHECK hr_status hri_place(const hri_schedule *s, const hri_plan_options *options,
                                  uint64_t effort, hri_plan **out);
/* Moves what ops write that must lie apart from what the op before reads (`apart` of problem.h), where the arena has room for it; part of
 * hri_place.  Nothing but their offsets changes. */
void hri_place_apart(const hri_problem *p, hri_plan *plan);
/* Where persistent values and constants lie when nobody says otherwise; their end is the bottom of the rest. */
uint64_t hri_place_fixed(const hri_problem *p, uint64_t *offsets);

/* The same with what goes together brought together: neighbours where the budget bears it (all of them, or those that leave room for
 * what the first try was over by, or none), updates, and what runs again.  `limit` is what the schedule keeps to.  The plan may still be over the
 * budget; the next run undoes what was moved. */
HR_MUST_CHECK hr_status hri_place_together(hri_schedule *s, const hri_plan_options *options,
                                           uint64_t limit, uint64_t effort, hri_plan **out);

#endif
