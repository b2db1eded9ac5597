/* A way down in small steps, for limits that no single way from the start reaches.
 *
 * A search that goes straight down to a tight limit makes many cheap decisions far above it, which stand in one another's way
 * below.  A schedule that was brought back to speed at a limit a little higher has few of them, and goes on further. */
#ifndef HRI_PLAN_DESCEND_H
#define HRI_PLAN_DESCEND_H

#include "plan/schedule.h"

/* From the choice as it is, which keeps all: down to the first of some limits above `limit` that is reached, and from there in
 * steps, each brought back to speed before the next.  s is run when it returns HR_OK, and fits.  HR_E_NO_PLAN when no way was
 * found. */
HR_MUST_CHECK hr_status hri_descend(hri_schedule *s, uint64_t limit, uint64_t effort);

#endif
