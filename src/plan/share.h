/* One place for each persistent value that several problems share.
 *
 * Problems of one training run in turn in one arena.  Their persistent values of equal name are one memory, so they lie
 * at the same offsets in all of them, at the bottom; constants of each problem follow apart. */
#ifndef HRI_PLAN_SHARE_H
#define HRI_PLAN_SHARE_H

#include "plan/problem.h"

/* Fills offsets[i][v] for the persistent values and constants of problem i, and gives the bytes of the bottom.
 * HR_E_SHAPE when two problems give one name different bytes. */
HR_MUST_CHECK hr_status hri_problem_share(const hri_problem *const *problems,
                                          uint64_t *const *offsets, uint32_t count,
                                          uint64_t *out_bytes, hri_prose *why);

#endif
