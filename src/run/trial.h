/* One kernel on a GPU, tried and timed in scratch memory.
 *
 * Trying comes first even where the time is known: the first call with a signature compiles, loads and chooses, and what
 * that takes of the device's memory must be there before it is measured as runtime.
 *
 * Threads: one at a time. */
#ifndef HRI_RUN_TRIAL_H
#define HRI_RUN_TRIAL_H

#include "graph/op.h"
#include "run/engine.h"

/* Nanoseconds of one call of the op on made-up operands, from events around several; with `once` it is only tried, and
 * the answer is 0.  Negative: it needs more than most_bytes, or something refused. */
double hri_trial_time(hri_engine *engine, const hri_sig *s, uint32_t variant, uint64_t most_bytes,
                      int once);

#endif
