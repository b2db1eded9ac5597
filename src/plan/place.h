/* From a schedule to a plan: instances become buffers, entries become steps, the packer gives offsets. */
#ifndef HRI_PLAN_PLACE_H
#define HRI_PLAN_PLACE_H

#include "plan/schedule.h"

/* The schedule must have been run.  The arena is as low as the packer finds it with this effort (pack.h), or below
 * options->budget_bytes. */
HR_MUST_CHECK hr_status hri_place(const hri_schedule *s, const hri_plan_options *options,
                                  uint64_t effort, hri_plan **out);
/* Where persistent values and constants lie when nobody says otherwise; their end is the bottom of the rest. */
uint64_t hri_place_fixed(const hri_problem *p, uint64_t *offsets);

#endif
