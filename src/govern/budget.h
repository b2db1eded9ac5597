/* What the user says of a budget, as bytes of devices. */
#ifndef HRI_GOVERN_BUDGET_H
#define HRI_GOVERN_BUDGET_H

#include "govern/watch.h"

/* Fills the job's devices and limits.  Devices are those that CUDA_VISIBLE_DEVICES leaves visible, numbered as the program
 * will see them.  NULL or "": what each has free now. */
HR_MUST_CHECK hr_status hri_run_budget(hri_link *link, const char *text, hri_door_job *job,
                                       hri_prose *why);
/* "30s", "10m", "2h", "90". */
HR_MUST_CHECK hr_status hri_run_wait_parse(const char *text, uint64_t *out_ms, hri_prose *why);

#endif
