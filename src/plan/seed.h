/* A start for the search where memory is very small: checkpoints inside checkpoints.
 *
 * The forward part is cut again and again at places that few bytes cross.  What crosses a cut is kept from the pass in
 * which its segment is worked on; the right part is worked on in the same pass with one checkpoint less, the left part
 * one pass later.  Where no checkpoint is left, a segment is worked off from its end, one pass for each piece.  How the
 * parts are weighed is Griewank's binomial rule: c checkpoints and r passes serve (c + r over c) pieces.  The search
 * then mends what real graphs have different from chains, and takes back whatever fits. */
#ifndef HRI_PLAN_SEED_H
#define HRI_PLAN_SEED_H

#include "plan/schedule.h"

/* Sets the gaps, for so many checkpoints at a time.  Pieces of no more than leaf_bytes are not cut; values of no more
 * than small_bytes are kept. */
HR_MUST_CHECK hr_status hri_seed_nested(hri_schedule *s, uint32_t checkpoints, uint64_t leaf_bytes,
                                        uint64_t small_bytes);

#endif
