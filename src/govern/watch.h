/* Starting the program and staying beside it until it ends. */
#ifndef HRI_GOVERN_WATCH_H
#define HRI_GOVERN_WATCH_H

#include "broker/door.h"
#include "govern/link.h"
#include "govern/ram.h"

/* As hri_door_enter; a broker that dies meanwhile is started again and asked again, until the same deadline. */
HR_MUST_CHECK hr_status hri_run_enter(hri_link *link, hri_door_job *job, uint64_t wait_ms,
                                      hr_wait_fn *on_wait, void *user);
/* Runs argv with this environment, inside `ram`; signals to us go to it.  A broker that ends is started again and told of the job;
 * link NULL: there is none, and no job.
 * *out_status is as waitpid gives it. */
HR_MUST_CHECK hr_status hri_run_watch(hri_link *link, hri_door_job *job, hri_ram *ram,
                                      char *const *argv, char *const *environment, int *out_status,
                                      hri_prose *why);

#endif
