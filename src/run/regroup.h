/* Calls of one op that can be one launch are brought next to one another. */
#ifndef HRI_RUN_REGROUP_H
#define HRI_RUN_REGROUP_H

#include "device/kernel.h"
#include "run/bind.h"

/* Moves calls whose kernels launch many at once (casts of weights) ahead to the first one of their kernel that they can reach
 * without crossing a call that touches their memory; then copies out of the way of calls that can be one launch: they start
 * behind them and are waited for before.  Same bits; places and the plan stay as they are. */
void hri_bound_regroup(hri_bound *b, const hri_kernels *kernels);

#endif
