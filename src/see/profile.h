/* A profile: a plan that was run, with every op timed and memory read from outside.
 *
 * Steps run as they always do, each timed; then one more runs call by call, and each call is timed.  On a GPU, where a step is
 * otherwise one captured graph, this is how its ops get times of their own.  While steps run, the planned recording waits in
 * a file, so that it takes no memory that is measured.
 *
 * The parts that were measured add up to head.measured_peak_bytes: buffers lie where they were planned, in an arena whose pages are
 * counted; the process before the arena is read; what remains has a name. */
#ifndef HRI_SEE_PROFILE_H
#define HRI_SEE_PROFILE_H

#include <headroom/plan.h>
#include "job/why.h"
#include "see/recording.h"

/* The plan is used up.  "BESIDE.plan" is made and removed.  Finished. */
HR_MUST_CHECK hr_status hri_see_profile(hr_plan *plan, uint64_t steps, const char *beside,
                                        hri_recording *out, hri_why *why);

#endif
