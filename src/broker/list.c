/* The rows of the ledger, and the record of a refusal; see serve.h. */
#include <string.h>

#include "broker/serve.h"

/* What a process has of a device: as it said last, or as it is seen, where it says nothing of its own (HRI_WIRE_OWN). */
static uint64_t taken_by(const hri_grants_process *p, int device) {
    const uint64_t told = p->held_bytes[device] + p->remainder_bytes[device];
    return told > p->seen_bytes[device] ? told : p->seen_bytes[device];
}

void hri_serve_list(const hri_grants *l, hri_wire *w, uint64_t now_ms) {
    uint32_t row = w->row;
    for (int d = 0; d < HRI_GRANTS_DEVICES; d++) {
        const hri_grants_device *dev = &l->devices[d];
        if (dev->total_bytes && row-- == 0) {
            memcpy(w->uuid, dev->uuid, 16);
            w->flags = HRI_WIRE_ROW_DEVICE | (dev->no_pids ? (uint32_t)HRI_WIRE_NO_PIDS : 0u);
            w->total_bytes = dev->total_bytes;
            memcpy(w->name, dev->name, sizeof w->name);
            w->name[sizeof w->name - 1] = '\0';
            w->outside_bytes = dev->outside_bytes;
            w->free_bytes = hri_grants_device_free(l, d);
            w->said = HRI_SAID_OK;
            return;
        }
    }
    for (int i = 0; i < HRI_GRANTS_JOBS; i++) {
        const hri_grants_job *job = &l->jobs[i];
        for (int d = 0; job->state && d < HRI_GRANTS_DEVICES; d++) {
            if (!job->limit_bytes[d] || row-- != 0) {
                continue;
            }
            memcpy(w->uuid, l->devices[d].uuid, 16);
            w->flags = HRI_WIRE_ROW_JOB | (uint32_t)job->flags |
                       (job->state == HRI_GRANTS_WAITING ? (uint32_t)HRI_WIRE_WAITING : 0u) |
                       (job->state == HRI_GRANTS_AWAY ? (uint32_t)HRI_WIRE_AWAY : 0u);
            w->job = job->id;
            w->pid = (int32_t)job->pid;
            w->limit_bytes = job->limit_bytes[d];
            w->granted_bytes = hri_grants_job_leased(l, job, d);
            w->wait_ms = job->since_ms < now_ms ? now_ms - job->since_ms : 0;
            for (int j = 0; j < HRI_GRANTS_PROCESSES; j++) {
                const hri_grants_process *p = &l->processes[j];
                if (p->state && p->job == job->id) {
                    w->held_bytes += taken_by(p, d);
                    w->spilled_bytes += p->spilled_bytes[d];
                }
            }
            memcpy(w->name, job->name, sizeof w->name);
            w->said = HRI_SAID_OK;
            return;
        }
    }
    for (int i = 0; i < HRI_GRANTS_PROCESSES; i++) {
        const hri_grants_process *p = &l->processes[i];
        for (int d = 0; p->state && d < HRI_GRANTS_DEVICES; d++) {
            if (!p->granted_bytes[d] || row-- != 0) {
                continue;
            }
            memcpy(w->uuid, l->devices[d].uuid, 16);
            w->flags = HRI_WIRE_ROW_PROCESS | (p->waiting ? (uint32_t)HRI_WIRE_WAITING : 0u) |
                       (p->state == HRI_GRANTS_DRAINING ? (uint32_t)HRI_WIRE_DRAINING : 0u) |
                       (p->state == HRI_GRANTS_AWAY ? (uint32_t)HRI_WIRE_AWAY : 0u);
            w->job = p->job;
            w->pid = (int32_t)p->pid;
            w->granted_bytes = p->granted_bytes[d];
            w->remainder_bytes = p->remainder_bytes[d];
            w->held_bytes =
                taken_by(p, d) -
                p->remainder_bytes[d]; /* with what it took of its lease since it spoke */
            memcpy(w->cause_bytes, p->cause_bytes[d], sizeof w->cause_bytes);
            w->spilled_bytes = p->spilled_bytes[d];
            w->wait_ms = p->waiting && p->since_ms < now_ms ? now_ms - p->since_ms : 0;
            memcpy(w->name, p->name, sizeof w->name);
            w->said = HRI_SAID_OK;
            return;
        }
    }
    w->said = HRI_SAID_END;
}

/* ---- refusals ---- */

/* The device that was not to be had. */
static int device_of(const hri_grants *l, const hri_grants_job *job, const hri_wire *question) {
    for (int d = 0; d < HRI_GRANTS_DEVICES; d++) {
        if (question->verb != HRI_VERB_ENTER ? memcmp(l->devices[d].uuid, question->uuid, 16) == 0
                                             : job->limit_bytes[d] > hri_grants_device_free(l, d)) {
            return l->devices[d].total_bytes ? d : -1;
        }
    }
    return -1;
}

int hri_serve_refusal(const hri_broker *b, const hri_caller *caller, const hri_wire *answer,
                      uint64_t now_ms, hri_refusal *out) {
    const hri_wire *q = &caller->question;
    const hri_grants_job *job = hri_grants_job_find(b->grants, caller->job);
    const int refused = answer->said == HRI_SAID_LIMIT || answer->said == HRI_SAID_AGAIN ||
                        answer->said == HRI_SAID_DEADLOCK;
    const int asked = q->verb == HRI_VERB_ENTER || (q->verb == HRI_VERB_LEASE && q->least_bytes) ||
                      (q->verb == HRI_VERB_LIMIT && caller->owner);
    const int device = job && refused && asked ? device_of(b->grants, job, q) : -1;
    if (device < 0) {
        return 0;
    }
    memset(out, 0, sizeof *out);
    out->magic = HRI_REFUSAL_MAGIC;
    out->bytes = sizeof *out;
    out->job = job->id;
    out->verb = q->verb;
    out->said = answer->said;
    out->pid = (int32_t)caller->pid;
    memcpy(out->uuid, b->grants->devices[device].uuid, 16);
    memcpy(out->name, job->name, sizeof out->name);
    out->limit_bytes = job->limit_bytes[device];
    out->held_bytes = q->held_bytes;
    out->wanted_bytes = q->verb == HRI_VERB_LEASE   ? q->least_bytes
                        : q->verb == HRI_VERB_LIMIT ? q->limit_bytes
                                                    : job->limit_bytes[device];
    out->waited_ms = caller->since_ms && caller->since_ms < now_ms ? now_ms - caller->since_ms : 0;
    for (uint32_t r = 0; out->count < HRI_REFUSAL_ROWS; r++) {
        hri_wire row = hri_wire_make(HRI_VERB_LIST);
        row.row = r;
        hri_serve_list(b->grants, &row, now_ms);
        if (row.said != HRI_SAID_OK) {
            break;
        }
        if (memcmp(row.uuid, out->uuid, 16) == 0) {
            *(row.flags & HRI_WIRE_ROW_DEVICE ? &out->device : &out->rows[out->count++]) = row;
        }
    }
    return 1;
}
