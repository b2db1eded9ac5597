/* Coming in: a job with budgets on devices, admitted as a whole, and kept while the connections are open.
 *
 *   hri_door_job job = {.name = "train", .count = 1, .limits = {6ull << 30}, .uuids = {...}};
 *   status = hri_door_enter(&client, &job, wait_ms, NULL, NULL);   reserved: nobody else under the broker gets these bytes
 *   status = hri_door_join(&own, &job);                        this process is the one that uses them
 *
 * `headroom run` enters and its program's processes join by themselves.  A program of ours that uses the memory itself does
 * both, on two connections: what it takes is then counted as the job's, and not as somebody's outside. */
#ifndef HRI_BROKER_DOOR_H
#define HRI_BROKER_DOOR_H

#include <headroom/budget.h>
#include "broker/client.h"

enum { HRI_DOOR_DEVICES = 16 };

/* The job as it was admitted: what a broker that was started anew has to be told. */
typedef struct hri_door_job {
    uint64_t id; /* 0: new */
    uint32_t flags;
    char name[HRI_WIRE_NAME];
    int count;
    unsigned char uuids[HRI_DOOR_DEVICES][16];
    uint64_t limits[HRI_DOOR_DEVICES];
    uint64_t spill_limit_bytes; /* host memory for what passes them; 0: none */
} hri_door_job;

/* Tells the broker of the job and asks for admission.  HR_E_AGAIN: others hold the memory and wait_ms have passed.
 * HR_E_LIMIT: a device has not so much in all.  HR_E_NOT_FOUND: it has no such device.  HR_E_IO: the broker went away.
 * on_wait (may be NULL) is called at least every 100 ms; any status but HR_OK ends the wait with that status. */
HR_MUST_CHECK hr_status hri_door_enter(hri_client *client, hri_door_job *job, uint64_t wait_ms,
                                       hr_wait_fn *on_wait, void *user);
/* This process leases all of the job's budgets.  HR_E_LIMIT: others of the job have some of it. */
HR_MUST_CHECK hr_status hri_door_join(hri_client *client, const hri_door_job *job);
/* Other budgets for a job that is in: `own` is the connection that joined.  Less is always OK.  HR_E_AGAIN: others hold so much
 * that more is not to be had; the budgets are as they were. */
HR_MUST_CHECK hr_status hri_door_resize(hri_client *client, hri_client *own, hri_door_job *job,
                                        int device, uint64_t bytes);

#endif
