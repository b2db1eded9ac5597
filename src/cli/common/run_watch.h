/* Starting the program and staying beside it until it ends. */
#ifndef HRI_CLI_RUN_WATCH_H
#define HRI_CLI_RUN_WATCH_H

#include "cli/common/broker_link.h"

enum { HRI_RUN_DEVICES_MAX = 16 };

/* The job as it was admitted: what a broker that was started anew has to be told. */
typedef struct hri_run_job {
    uint64_t id;
    uint32_t flags;
    char name[HRI_WIRE_NAME];
    int count;
    unsigned char uuids[HRI_RUN_DEVICES_MAX][16];
    uint64_t limits[HRI_RUN_DEVICES_MAX];
} hri_run_job;

/* Tells the broker of the job and asks for admission.  HR_E_AGAIN: others hold the memory and wait_ms have passed.
 * HR_E_LIMIT: a device has not so much in all.  HR_E_IO: the broker went away.  interrupted() ends the wait with
 * HR_E_CANCELLED; it may be NULL. */
HR_MUST_CHECK hr_status hri_run_job_enter(hri_link *link, hri_run_job *job, uint64_t wait_ms,
                                          int (*interrupted)(void));

/* Runs argv with this environment; signals to us go to it.  A broker that ends is started again and told of the job.
 * *out_status is as waitpid gives it. */
HR_MUST_CHECK hr_status hri_run_watch(hri_link *link, hri_run_job *job, char *const *argv,
                                      char *const *environment, int *out_status, hri_prose *why);

#endif
