/* Search over the gaps of a schedule: down to a limit, then back up to speed.
 *
 * fit      drops values where the limit is exceeded, the least time for the most bytes over the limit first, until no
 *          entry is over it;
 * improve  takes back what turned out not to be needed, then trades: drops something cheap, keeps something dear.
 * Effort is counted in simulated entries, so that the same problem always gets the same plan. */
#ifndef HRI_PLAN_SEARCH_H
#define HRI_PLAN_SEARCH_H

#include "plan/schedule.h"

/* Starts from the gaps as they are; s is run when it returns.  HR_E_NO_PLAN when no way down was found. */
HR_MUST_CHECK hr_status hri_search_fit(hri_schedule *s, uint64_t limit, uint64_t effort);
/* Needs a schedule that fits, and leaves one that fits and is not slower. */
HR_MUST_CHECK hr_status hri_search_improve(hri_schedule *s, uint64_t limit, uint64_t effort);

#endif
