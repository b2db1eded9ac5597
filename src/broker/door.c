/* See door.h. */
#include "broker/door.h"

#include <string.h>

#include "base/clock.h"

enum { ANSWER_MS = 10000, SLICE_MS = 100 };

static hr_status status_of(uint32_t said) {
    switch (said) {
    case HRI_SAID_OK:
        return HR_OK;
    case HRI_SAID_LIMIT:
        return HR_E_LIMIT;
    case HRI_SAID_AGAIN:
        return HR_E_AGAIN;
    case HRI_SAID_NOT_FOUND:
        return HR_E_NOT_FOUND;
    default:
        return HR_E_INTERNAL;
    }
}

static hr_status tell(hri_client *client, hri_wire *w) {
    const hr_status status = hri_client_ask(client, w, ANSWER_MS);
    return status == HR_E_AGAIN ? HR_E_IO : status != HR_OK ? status : status_of(w->said);
}

hr_status hri_door_enter(hri_client *client, hri_door_job *job, uint64_t wait_ms,
                         hr_wait_fn *on_wait, void *user) {
    hri_wire w = hri_wire_make(HRI_VERB_JOB);
    w.job = job->id;
    w.flags = job->flags;
    w.spilled_bytes = job->spill_limit_bytes;
    hri_wire_name(&w, job->name);
    hr_status status = tell(client, &w);
    const int again = job->id != 0;
    job->id = status == HR_OK ? w.job : job->id;
    for (int i = 0; i < job->count && status == HR_OK; i++) {
        w = hri_wire_make(HRI_VERB_WISH);
        memcpy(w.uuid, job->uuids[i], 16);
        w.limit_bytes = job->limits[i];
        status = tell(client, &w);
        if (again && status == HR_E_INTERNAL) {
            status =
                HR_OK; /* its budget is in the ledger already, and may have been changed there */
        }
    }
    if (status != HR_OK) {
        return status;
    }
    w = hri_wire_make(HRI_VERB_ENTER);
    w.wait_ms = wait_ms;
    const uint64_t begun = hri_clock_ns() / 1000000, until = begun + wait_ms + ANSWER_MS;
    status = hri_client_ask(client, &w, SLICE_MS);
    while (status == HR_E_AGAIN && hri_clock_ns() / 1000000 < until) {
        const hr_status said = on_wait ? on_wait(user, hri_clock_ns() / 1000000 - begun) : HR_OK;
        if (said != HR_OK) {
            return said;
        }
        status = hri_client_hear(client, &w, SLICE_MS);
    }
    return status == HR_E_AGAIN ? HR_E_IO : status != HR_OK ? status : status_of(w.said);
}

/* All that the job has of a device, but for what is kept for what the driver loads later. */
static hr_status lease_all(hri_client *own, const unsigned char uuid[16], uint64_t limit,
                           uint64_t slack) {
    hri_wire w = hri_wire_make(HRI_VERB_LEASE);
    memcpy(w.uuid, uuid, 16);
    w.least_bytes = w.wanted_bytes = limit > slack ? limit - slack : 0;
    return tell(own, &w);
}

hr_status hri_door_join(hri_client *client, const hri_door_job *job) {
    hri_wire w = hri_wire_make(HRI_VERB_PROCESS);
    w.job = job->id;
    hri_wire_name(&w, job->name);
    hr_status status = tell(client, &w);
    for (int i = 0; i < job->count && status == HR_OK; i++) {
        w = hri_wire_make(HRI_VERB_DEVICE);
        memcpy(w.uuid, job->uuids[i], 16);
        status = tell(client, &w);
        if (status == HR_OK) {
            status = lease_all(client, job->uuids[i], w.limit_bytes, w.slack_bytes);
        }
    }
    return status;
}

hr_status hri_door_resize(hri_client *client, hri_client *own, hri_door_job *job, int device,
                          uint64_t bytes) {
    hri_wire w = hri_wire_make(HRI_VERB_LIMIT);
    w.job = job->id;
    w.limit_bytes = bytes;
    memcpy(w.uuid, job->uuids[device], 16);
    hr_status status = tell(client, &w);
    if (status != HR_OK) {
        return status;
    }
    job->limits[device] = bytes;
    w = hri_wire_make(HRI_VERB_DEVICE); /* what is kept out of leases follows the budget */
    memcpy(w.uuid, job->uuids[device], 16);
    status = tell(own, &w);
    return status == HR_OK ? lease_all(own, job->uuids[device], w.limit_bytes, w.slack_bytes)
                           : status;
}
