/* Another budget for a job that runs, and ending one: for `headroom limit` and the keys of `headroom top`. */
#ifndef HRI_GOVERN_LIMIT_H
#define HRI_GOVERN_LIMIT_H

#include "govern/link.h"

/* *said has the sentence of what happened, also on HR_OK.  HR_E_NOT_FOUND: no such job.  HR_E_RANGE: more than the GPU has.
 * HR_E_AGAIN: others have the rest.  HR_E_UNSUPPORTED: a training of ours, whose plan is made.  HR_E_IO. */
HR_MUST_CHECK hr_status hri_limit_job(hri_link *link, uint64_t job, uint64_t bytes,
                                      hri_prose *said);
/* Sends the signal to the job's `headroom run`, which passes it on; SIGKILL to every process of it.  HR_E_NOT_FOUND. */
HR_MUST_CHECK hr_status hri_limit_end(hri_link *link, uint64_t job, int signal, hri_prose *said);

#endif
