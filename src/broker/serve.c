/* See serve.h. */
#include "broker/serve.h"

#include <stdio.h>
#include <string.h>

#include "broker/process.h"

/* At the door nobody is refused for what is on its way back: the end of a program that was not read yet, memory that the
 * driver has not taken back yet.  So even who does not want to wait is refused only after SETTLE_MS. */
enum { LOOK_MS = 20, LOOKS = 5, SETTLE_MS = 250 };

/* ---- looking ---- */

static uint64_t bytes_of(const hri_observed_process *list, int count, int64_t pid) {
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        bytes += list[i].pid == pid ? list[i].bytes : 0;
    }
    return bytes;
}

/* Has an entry before this one the same process?  Two jobs of one program are one to the driver. */
static int counted(const hri_grants *l, int index) {
    for (int i = 0; i < index; i++) {
        const hri_grants_process *p = &l->processes[i];
        if (p->state && p->pid == l->processes[index].pid &&
            p->started == l->processes[index].started) {
            return 1;
        }
    }
    return 0;
}

/* What our processes hold on a device, as the outside sees it; the dead whose memory is back are emptied. */
static uint64_t look_at_ours(hri_broker *b, int device) {
    hri_observed_process *list = b->seen;
    hri_grants *l = b->grants;
    hri_grants_device *d = &l->devices[device];
    const int count = b->observer->processes(b->observer->user, d->uuid, list);
    uint64_t ours = 0;
    d->no_pids = count < 0;
    for (int i = 0; i < HRI_GRANTS_PROCESSES; i++) {
        hri_grants_process *p = &l->processes[i];
        if (!p->state) {
            continue;
        }
        const uint64_t seen = counted(l, i) ? 0 : bytes_of(list, count > 0 ? count : 0, p->pid);
        const uint64_t told = p->held_bytes[device] + p->remainder_bytes[device];
        p->was_seen[device] |= seen != 0;
        if (!seen && p->held_bytes[device] && p->state == HRI_GRANTS_IN && !p->was_seen[device] &&
            hri_process_is(p->pid, p->started)) {
            d->no_pids = 1; /* it is there, and the list has never known it by this number */
        }
        p->seen_bytes[device] = d->no_pids ? told : seen;
        ours += p->seen_bytes[device];
        if (p->state != HRI_GRANTS_DRAINING) {
            continue;
        }
        if (d->no_pids ? !hri_process_is(p->pid, p->started) : seen == 0) {
            p->granted_bytes[device] = p->held_bytes[device] = p->remainder_bytes[device] = 0;
        } else if (!d->no_pids && seen < p->granted_bytes[device]) {
            p->granted_bytes[device] = seen; /* it comes back in pieces, and a context last */
        }
    }
    return ours;
}

/* What is used beyond ours is somebody else's.  The two numbers are read one after the other, and programs go on meanwhile:
 * only when ours was the same before and behind does the difference mean anything; else the old one stays. */
static void look_at_devices(hri_broker *b, uint64_t now_ms) {
    hri_observed devices[HRI_OBSERVED_DEVICES];
    uint64_t before[HRI_GRANTS_DEVICES] = {0};
    if (!b->observer || (b->observed_ms && now_ms - b->observed_ms < LOOK_MS)) {
        return;
    }
    b->observed_ms = now_ms;
    for (int attempt = 0, unsure = 1; attempt < LOOKS && unsure; attempt++) {
        unsure = 0;
        for (int d = 0; d < HRI_GRANTS_DEVICES; d++) {
            before[d] = b->grants->devices[d].total_bytes ? look_at_ours(b, d) : 0;
        }
        const int count = b->observer->devices(b->observer->user, devices);
        for (int i = 0; i < count; i++) {
            const int d =
                hri_grants_device_find(b->grants, devices[i].uuid, devices[i].total_bytes);
            if (d < 0) {
                continue;
            }
            snprintf(b->grants->devices[d].name, sizeof b->grants->devices[d].name, "%.*s",
                     (int)sizeof devices[i].name - 1, devices[i].name);
            const uint64_t used = devices[i].used_bytes, ours = look_at_ours(b, d);
            if (ours == before[d]) {
                b->grants->devices[d].outside_bytes = used > ours ? used - ours : 0;
            } else {
                unsure = 1;
            }
        }
    }
}

static int holds_anything(const hri_grants_process *p) {
    uint64_t sum = 0;
    for (int d = 0; d < HRI_GRANTS_DEVICES; d++) {
        sum |= p->granted_bytes[d];
    }
    return sum != 0;
}

int hri_serve_look(hri_broker *b, uint64_t now_ms) {
    hri_grants *l = b->grants;
    int under_way = 0;
    look_at_devices(b, now_ms);
    for (int i = 0; i < HRI_GRANTS_PROCESSES; i++) {
        hri_grants_process *p = &l->processes[i];
        if (p->state == HRI_GRANTS_AWAY && !hri_process_is(p->pid, p->started)) {
            hri_grants_process_died(p);
        }
        if (p->state == HRI_GRANTS_DRAINING && !holds_anything(p)) {
            hri_grants_process_drained(l, p);
        }
        under_way += p->state == HRI_GRANTS_DRAINING || p->waiting;
    }
    for (int i = 0; i < HRI_GRANTS_JOBS; i++) {
        hri_grants_job *job = &l->jobs[i];
        if (job->state == HRI_GRANTS_AWAY && job->pid && !hri_process_is(job->pid, job->started)) {
            hri_grants_job_leave(l, job);
        }
        under_way += job->state == HRI_GRANTS_WAITING;
    }
    return under_way;
}

/* What the driver holds for the process beyond what it says, on this device now. */
static uint64_t remainder_of(hri_broker *b, const hri_grants_process *p, int device,
                             uint64_t held_bytes, uint64_t known_bytes) {
    hri_observed_process *list = b->seen;
    const hri_grants_device *d = &b->grants->devices[device];
    const int count = b->observer ? b->observer->processes(b->observer->user, d->uuid, list) : -1;
    const uint64_t seen = count > 0 ? bytes_of(list, count, p->pid) : 0;
    if (count < 0 || (!seen && held_bytes)) {
        return known_bytes;
    }
    return seen > held_bytes ? seen - held_bytes : 0;
}

/* ---- answers ---- */

static void describe(const hri_broker *b, const hri_grants_process *p, int device, hri_wire *w) {
    hri_grants *l = b->grants;
    const hri_grants_job *job = hri_grants_job_find(l, p->job);
    w->granted_bytes = p->granted_bytes[device];
    w->remainder_bytes = p->remainder_bytes[device];
    w->limit_bytes = job ? job->limit_bytes[device] : 0;
    w->slack_bytes = job ? hri_grants_job_slack(job, device) : 0;
    w->free_bytes = hri_grants_lease_free(l, p, device);
    w->total_bytes = l->devices[device].total_bytes;
    w->flags = (job ? (uint32_t)job->flags : 0) |
               (l->devices[device].no_pids ? (uint32_t)HRI_WIRE_NO_PIDS : 0u);
}

/* A process of the same job has died and the driver has not taken back all it had there. */
static int drains(const hri_grants *l, const hri_grants_process *p, int device) {
    for (int i = 0; i < HRI_GRANTS_PROCESSES; i++) {
        const hri_grants_process *q = &l->processes[i];
        if (q->state == HRI_GRANTS_DRAINING && q->job == p->job && q->granted_bytes[device]) {
            return 1;
        }
    }
    return 0;
}

/* Tries the lease that the caller asks for.  HRI_SAID_AGAIN: others have it, or the job's own dead, for a moment. */
static hri_said try_lease(hri_broker *b, hri_caller *caller, int device, hri_wire *w) {
    hri_grants_process *p = caller->process;
    const hri_wire *q = &caller->question;
    const hri_grants_job *job = hri_grants_job_find(b->grants, p->job);
    /* One of our own has a plan for all it takes, context included. */
    const uint64_t remainder =
        job && (job->flags & HRI_WIRE_OWN) ? 0
        : b->grants->devices[device].no_pids
            ? q->remainder_bytes /* what it goes by itself */
            : remainder_of(b, p, device, q->held_bytes, p->remainder_bytes[device]);
    const hri_said said = hri_grants_lease(b->grants, p, device, q->held_bytes, remainder,
                                           q->least_bytes, q->wanted_bytes);
    describe(b, p, device, w);
    w->said = said;
    return said == HRI_SAID_LIMIT && drains(b->grants, p, device) ? HRI_SAID_AGAIN : said;
}

static int wait_for(hri_broker *b, hri_caller *caller, uint64_t wait_ms, uint64_t now_ms) {
    caller->waiting = 1;
    caller->since_ms = now_ms;
    caller->until_ms = now_ms + wait_ms;
    caller->order = ++b->next_order;
    return 0;
}

static int answer(hri_wire *w, hri_said said) {
    w->said = said;
    return 1;
}

static int serve_job(hri_broker *b, hri_caller *caller, hri_wire *w) {
    hri_grants *l = b->grants;
    hri_grants_job *job = w->job ? hri_grants_job_find(l, w->job) : NULL;
    if (caller->job || (job && job->pid && job->pid != caller->pid)) {
        return answer(w, HRI_SAID_WRONG);
    }
    if (!job) {
        job = hri_grants_job_open(l, w->name, w->flags, caller->pid, caller->started);
        if (!job) {
            return answer(w, HRI_SAID_FULL);
        }
        if (w->job) { /* from before a restart that lost the ledger: it is in already */
            job->id = w->job;
            l->next_job = l->next_job > w->job ? l->next_job : w->job + 1;
            job->state = HRI_GRANTS_AWAY;
        }
    }
    job->pid = caller->pid;
    job->started = caller->started;
    job->spill_limit_bytes = w->spilled_bytes;
    caller->job = w->job = job->id;
    caller->owner = 1;
    return answer(w, HRI_SAID_OK);
}

static int serve_wish(hri_broker *b, hri_caller *caller, hri_wire *w, uint64_t now_ms) {
    hri_grants_job *job = caller->owner ? hri_grants_job_find(b->grants, caller->job) : NULL;
    look_at_devices(b, now_ms);
    const int device = hri_grants_device_find(b->grants, w->uuid, 0);
    if (!job || job->state == HRI_GRANTS_IN) {
        return answer(w, HRI_SAID_WRONG);
    }
    if (device < 0) {
        return answer(w, HRI_SAID_NOT_FOUND);
    }
    w->total_bytes = b->grants->devices[device].total_bytes;
    if (w->limit_bytes > w->total_bytes) {
        return answer(w, HRI_SAID_LIMIT);
    }
    job->limit_bytes[device] = w->limit_bytes;
    return answer(w, HRI_SAID_OK);
}

static int serve_enter(hri_broker *b, hri_caller *caller, hri_wire *w, uint64_t now_ms) {
    hri_grants_job *job = caller->owner ? hri_grants_job_find(b->grants, caller->job) : NULL;
    if (!job) {
        return answer(w, HRI_SAID_WRONG);
    }
    look_at_devices(b, now_ms);
    const hri_said said = hri_grants_job_enter(b->grants, job);
    job->since_ms = now_ms;
    if (said == HRI_SAID_AGAIN) {
        return wait_for(b, caller, w->wait_ms > SETTLE_MS ? w->wait_ms : SETTLE_MS, now_ms);
    }
    hri_grants_job_give_up(job);
    return answer(w, said);
}

static int serve_process(hri_broker *b, hri_caller *caller, hri_wire *w) {
    const hri_grants_job *job = hri_grants_job_find(b->grants, w->job);
    if (caller->job || !job) {
        return answer(w, caller->job ? HRI_SAID_WRONG : HRI_SAID_NOT_FOUND);
    }
    caller->process =
        hri_grants_process_open(b->grants, w->job, w->name, caller->pid, caller->started);
    if (!caller->process) {
        return answer(w, HRI_SAID_FULL);
    }
    caller->job = w->job;
    w->flags = (uint32_t)job->flags;
    return answer(w, HRI_SAID_OK);
}

static int serve_device(hri_broker *b, hri_caller *caller, hri_wire *w, uint64_t now_ms) {
    hri_grants_process *p = caller->process;
    look_at_devices(b, now_ms);
    const int device = p ? hri_grants_device_find(b->grants, w->uuid, 0) : -1;
    if (device < 0) {
        return answer(w, p ? HRI_SAID_NOT_FOUND : HRI_SAID_WRONG);
    }
    /* What it was told once it has, though the ledger was lost; never more than there is. */
    if (w->granted_bytes > p->granted_bytes[device] &&
        w->granted_bytes - p->granted_bytes[device] <= hri_grants_unleased(b->grants, device)) {
        p->granted_bytes[device] = w->granted_bytes;
    }
    p->held_bytes[device] = w->held_bytes;
    p->remainder_bytes[device] = w->remainder_bytes;
    memcpy(p->cause_bytes[device], w->cause_bytes, sizeof w->cause_bytes);
    p->spilled_bytes[device] = w->spilled_bytes; /* what it has, it has */
    describe(b, p, device, w);
    return answer(w, HRI_SAID_OK);
}

static int serve_lease(hri_broker *b, hri_caller *caller, hri_wire *w, uint64_t now_ms) {
    hri_grants *l = b->grants;
    const int device = caller->process ? hri_grants_device_find(l, w->uuid, 0) : -1;
    if (device < 0) {
        return answer(w, caller->process ? HRI_SAID_NOT_FOUND : HRI_SAID_WRONG);
    }
    const hri_grants_job *job = hri_grants_job_find(l, caller->job);
    if (job && (job->flags & HRI_WIRE_OVERCOMMIT)) {
        look_at_devices(b, now_ms);
    }
    const hri_said said = try_lease(b, caller, device, w);
    const uint64_t settles = w->said == HRI_SAID_LIMIT ? SETTLE_MS : 0;
    const uint64_t wait_ms =
        caller->question.wait_ms > settles ? caller->question.wait_ms : settles;
    if (said != HRI_SAID_AGAIN || !wait_ms || (caller->question.flags & HRI_WIRE_CAPTURING)) {
        return 1;
    }
    caller->process->waiting = 1 + (uint64_t)device;
    caller->process->order = l->next_order++;
    caller->process->since_ms = now_ms;
    return wait_for(b, caller, wait_ms, now_ms);
}

static int serve_causes(hri_broker *b, const hri_caller *caller, hri_wire *w) {
    hri_grants_process *p = caller->process;
    const int device = p ? hri_grants_device_find(b->grants, w->uuid, 0) : -1;
    if (device < 0) {
        return answer(w, p ? HRI_SAID_NOT_FOUND : HRI_SAID_WRONG);
    }
    memcpy(p->cause_bytes[device], w->cause_bytes, sizeof w->cause_bytes);
    return answer(w, HRI_SAID_OK);
}

static int serve_spill(hri_broker *b, hri_caller *caller, hri_wire *w) {
    hri_grants_process *p = caller->process;
    const int device = p ? hri_grants_device_find(b->grants, w->uuid, 0) : -1;
    if (device < 0) {
        return answer(w, p ? HRI_SAID_NOT_FOUND : HRI_SAID_WRONG);
    }
    const hri_said said = hri_grants_spill(b->grants, p, device, w->spilled_bytes);
    w->spilled_bytes = p->spilled_bytes[device];
    return answer(w, said);
}

/* ---- lists and limits ---- */

static int serve_limit(hri_broker *b, const hri_caller *caller, hri_wire *w) {
    static const unsigned char any[16];
    hri_grants *l = b->grants;
    hri_grants_job *job = hri_grants_job_find(l, w->job);
    hri_said said = HRI_SAID_NOT_FOUND;
    if (job && (job->flags & HRI_WIRE_OWN) && caller->pid != job->pid) {
        return answer(w, HRI_SAID_WRONG);
    }
    for (int d = 0; job && d < HRI_GRANTS_DEVICES; d++) {
        if (job->limit_bytes[d] &&
            (!memcmp(w->uuid, any, 16) || !memcmp(w->uuid, l->devices[d].uuid, 16))) {
            w->free_bytes = hri_grants_device_free(l, d);
            w->total_bytes = l->devices[d].total_bytes;
            said = hri_grants_job_limit(l, job, d, w->limit_bytes);
            w->granted_bytes = hri_grants_job_leased(l, job, d);
            if (said != HRI_SAID_OK) {
                break;
            }
        }
    }
    return answer(w, said);
}

int hri_serve_question(hri_broker *b, hri_caller *caller, hri_wire *w, uint64_t now_ms) {
    if (w->verb == HRI_VERB_CANCEL) {
        caller->until_ms = now_ms;
        return 0;
    }
    if (caller->waiting) {
        return -1; /* one question at a time */
    }
    caller->question = *w;
    caller->since_ms = now_ms;
    switch (w->verb) {
    case HRI_VERB_JOB:
        return serve_job(b, caller, w);
    case HRI_VERB_WISH:
        return serve_wish(b, caller, w, now_ms);
    case HRI_VERB_ENTER:
        return serve_enter(b, caller, w, now_ms);
    case HRI_VERB_PROCESS:
        return serve_process(b, caller, w);
    case HRI_VERB_DEVICE:
        return serve_device(b, caller, w, now_ms);
    case HRI_VERB_LEASE:
        return serve_lease(b, caller, w, now_ms);
    case HRI_VERB_CAUSES:
        return serve_causes(b, caller, w);
    case HRI_VERB_SPILL:
        return serve_spill(b, caller, w);
    case HRI_VERB_LIST:
        look_at_devices(b, now_ms);
        hri_serve_list(b->grants, w, now_ms);
        return 1;
    case HRI_VERB_LIMIT:
        return serve_limit(b, caller, w);
    default:
        return -1;
    }
}

void hri_serve_end(hri_broker *b, hri_caller *caller) {
    hri_grants_job *job = caller->owner ? hri_grants_job_find(b->grants, caller->job) : NULL;
    if (caller->process) {
        hri_grants_process_died(caller->process);
    }
    if (job) {
        hri_grants_job_leave(b->grants, job);
    }
    memset(caller, 0, sizeof *caller);
}

/* ---- those who wait ---- */

int hri_serve_ask(hri_broker *b, const hri_caller *asker, const hri_caller *other, hri_wire *ask) {
    const hri_grants_job *job = hri_grants_job_find(b->grants, asker->job);
    const hri_grants_process *p = other->process;
    if (!asker->waiting || !job || !p || other == asker) {
        return 0;
    }
    for (int d = 0; d < HRI_GRANTS_DEVICES; d++) {
        const int wanted =
            asker->process ? asker->process->waiting == 1 + (uint64_t)d : job->limit_bytes[d] != 0;
        if (wanted && p->granted_bytes[d]) {
            *ask = hri_wire_make(HRI_VERB_ASK);
            memcpy(ask->uuid, b->grants->devices[d].uuid, 16);
            ask->granted_bytes = p->held_bytes[d] + p->remainder_bytes[d];
            return 1;
        }
    }
    return 0;
}

/* 1: *w is the answer. */
static int try_again(hri_broker *b, hri_caller *caller, hri_wire *w, uint64_t now_ms) {
    hri_grants *l = b->grants;
    hri_said said;
    *w = caller->question;
    if (w->verb == HRI_VERB_ENTER) {
        hri_grants_job *job = hri_grants_job_find(l, caller->job);
        said = job ? hri_grants_job_enter(l, job) : HRI_SAID_NOT_FOUND;
        w->said = said;
        if (job && said == HRI_SAID_OK) {
            job->since_ms = now_ms;
        }
        if (job && (said != HRI_SAID_AGAIN || now_ms >= caller->until_ms)) {
            hri_grants_job_give_up(job);
        }
    } else {
        said = try_lease(b, caller, (int)caller->process->waiting - 1, w);
        if (w->said == HRI_SAID_AGAIN && hri_grants_deadlock(l) == caller->process) {
            w->said = said = HRI_SAID_DEADLOCK;
        }
    }
    if (said == HRI_SAID_AGAIN && now_ms < caller->until_ms) {
        return 0;
    }
    caller->waiting = 0;
    if (caller->process) {
        caller->process->waiting = 0;
    }
    return 1;
}

int hri_serve_turn(hri_broker *b, hri_caller *const *callers, int count, hri_wire *w,
                   uint64_t now_ms) {
    uint64_t after = 0;
    for (;;) {
        int next = -1;
        for (int i = 0; i < count; i++) {
            if (callers[i]->waiting && callers[i]->order > after &&
                (next < 0 || callers[i]->order < callers[next]->order)) {
                next = i;
            }
        }
        if (next < 0) {
            return -1;
        }
        if (try_again(b, callers[next], w, now_ms)) {
            return next;
        }
        after = callers[next]->order;
    }
}
