/* A plan as a recording: every graph of a step once, one after another. */
#ifndef HRI_SEE_FROM_PLAN_H
#define HRI_SEE_FROM_PLAN_H

#include <headroom/plan.h>
#include "see/recording.h"

/* The part of the sum that no buffer holds. */
#define HRI_SEE_GAP "not in use at the peak"

/* Only of a plan that fits and has its details (plan.h): HR_E_NOT_FOUND otherwise.  Finished; planned parts add up to the
 * peak.  Choices are those that hr_job_explore left. */
HR_MUST_CHECK hr_status hri_recording_from_plan(hr_plan *plan, hri_recording *out);

#endif
