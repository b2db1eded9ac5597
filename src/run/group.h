/* Executors of ranks that are all in this process, on GPUs: each over its own arena, all of the same steps.
 *
 * One thread begins the work of all of them, step by step, so the order between them is known without asking: what ranks
 * exchange are copies from arena to arena.  They go to a queue of their own on each device, behind what the compute queues of
 * all ranks have so far, and the plan's waits make the compute queues wait for all of them.  On several devices, or as slices of one,
 * the whole is captured as one graph; devices that do not see one another, or a driver that cannot capture, get it call by
 * call.
 *
 * The memory is that of the executors.  Threads: one at a time. */
#ifndef HRI_RUN_GROUP_H
#define HRI_RUN_GROUP_H

#include "run/execute.h"

typedef struct hri_group hri_group;

/* By rank; executors outlive it.  HR_E_INVALID: their steps differ, or they are not of GPUs. */
HR_MUST_CHECK hr_status hri_group_create(hri_exec *const *execs, uint32_t count, hri_group **out,
                                         hri_prose *why);
/* NULL is allowed.  Nothing may be under way. */
void hri_group_destroy(hri_group *g);
/* Is it of these? */
int hri_group_is(const hri_group *g, hri_exec *const *execs, uint32_t count);
/* As hri_exec_run, of all of them. */
HR_MUST_CHECK hr_status hri_group_run(hri_group *g, uint32_t step, uint32_t *node);
/* 1 when it was captured as one graph. */
int hri_group_is_captured(const hri_group *g);

#endif
