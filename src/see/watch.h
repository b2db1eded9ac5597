/* Looking on while a plan runs: every op timed, what is alive in the arena, and memory as the outside sees it.
 *
 * The one idea: everything that is needed is taken before the arena, and the planned recording waits in a file meanwhile, so
 * that looking changes what is measured as little as possible.  `profile` and `train --profile` differ only in who runs the
 * steps.
 *
 *   hri_see_watch *w;
 *   status = hri_see_watch_open(plan, steps, beside, &w, &why);     before the plan is used
 *   hri_see_watch_taken(w, planned);                                the arena is there
 *   hri_planned_set_probe(planned, hri_see_watch_probe(w));         for the steps whose ops are timed
 *   hri_see_watch_step(w, planned, &step);                          after each step
 *   hri_see_watch_over(w, planned);                                 the arena is still there
 *   status = hri_see_watch_finish(w, &recording, &why);
 *   hri_see_watch_close(w);
 *
 * Parts that were measured add up to head.measured_peak_bytes; see watch_parts.c. */
#ifndef HRI_SEE_WATCH_H
#define HRI_SEE_WATCH_H

#include <headroom/plan.h>
#include "fit/planned.h"
#include "see/recording.h"

typedef struct hri_see_watch hri_see_watch;

/* steps: how many are kept at most.  "BESIDE.plan" is made. */
HR_MUST_CHECK hr_status hri_see_watch_open(hr_plan *plan, uint64_t steps, const char *beside,
                                           hri_see_watch **out, hri_prose *why);
/* Times the ops of whichever steps run with it; their times are means over those. */
const hri_planned_probe *hri_see_watch_probe(hri_see_watch *w);
/* Only these steps, from 1, however long the probe is set. */
void hri_see_watch_range(hri_see_watch *w, uint64_t first, uint64_t last);
/* How many ops were timed so far. */
size_t hri_see_watch_timed(const hri_see_watch *w);
void hri_see_watch_taken(hri_see_watch *w, hri_planned *planned);
/* begin_ns and end_ns by hri_clock_ns; held_bytes is filled in here. */
void hri_see_watch_step(hri_see_watch *w, hri_planned *planned, const hri_see_step *step);
void hri_see_watch_over(hri_see_watch *w, hri_planned *planned);
/* Finished, or *out untouched. */
HR_MUST_CHECK hr_status hri_see_watch_finish(hri_see_watch *w, hri_recording *out, hri_prose *why);
/* NULL is allowed.  "BESIDE.plan" is removed. */
void hri_see_watch_close(hri_see_watch *w);

#endif
