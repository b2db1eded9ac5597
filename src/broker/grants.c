/* See grants.h. */
#include "broker/grants.h"

#include <stddef.h>
#include <string.h>

void hri_grants_init(hri_grants *l) {
    memset(l, 0, sizeof *l);
    l->magic = HRI_GRANTS_MAGIC;
    l->bytes = sizeof *l;
    l->next_job = l->next_order = 1;
}

/* ---- devices ---- */

int hri_grants_device_find(hri_grants *l, const unsigned char uuid[16], uint64_t total_bytes) {
    int empty = -1;
    for (int i = 0; i < HRI_GRANTS_DEVICES; i++) {
        hri_grants_device *d = &l->devices[i];
        if (d->total_bytes && memcmp(d->uuid, uuid, 16) == 0) {
            return i;
        }
        empty = !d->total_bytes && empty < 0 ? i : empty;
    }
    if (empty >= 0 && total_bytes) {
        memcpy(l->devices[empty].uuid, uuid, 16);
        l->devices[empty].total_bytes = total_bytes;
        return empty;
    }
    return -1;
}

uint64_t hri_grants_job_leased(const hri_grants *l, const hri_grants_job *job, int device) {
    uint64_t sum = 0;
    for (int i = 0; i < HRI_GRANTS_PROCESSES; i++) {
        const hri_grants_process *p = &l->processes[i];
        sum += p->state && p->job == job->id ? p->granted_bytes[device] : 0;
    }
    return sum;
}

/* What a job takes of a device from everybody else. */
static uint64_t committed_by(const hri_grants *l, const hri_grants_job *job, int device) {
    const uint64_t leased = hri_grants_job_leased(l, job, device);
    if (job->state == HRI_GRANTS_FREE || job->state == HRI_GRANTS_WAITING) {
        return leased;
    }
    const uint64_t reserved = job->flags & HRI_WIRE_OVERCOMMIT ? 0 : job->limit_bytes[device];
    return reserved > leased ? reserved : leased;
}

static uint64_t committed(const hri_grants *l, int device) {
    uint64_t sum = 0;
    for (int i = 0; i < HRI_GRANTS_JOBS; i++) {
        sum += l->jobs[i].state ? committed_by(l, &l->jobs[i], device) : 0;
    }
    return sum;
}

static uint64_t minus(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

uint64_t hri_grants_device_free(const hri_grants *l, int device) {
    const hri_grants_device *d = &l->devices[device];
    return minus(minus(d->total_bytes, d->outside_bytes), committed(l, device));
}

uint64_t hri_grants_unleased(const hri_grants *l, int device) {
    uint64_t leased = 0;
    for (int i = 0; i < HRI_GRANTS_PROCESSES; i++) {
        leased += l->processes[i].state ? l->processes[i].granted_bytes[device] : 0;
    }
    return minus(l->devices[device].total_bytes, leased);
}

/* ---- jobs ---- */

hri_grants_job *hri_grants_job_open(hri_grants *l, const char *name, uint32_t flags, int64_t pid,
                                    uint64_t started) {
    for (int i = 0; i < HRI_GRANTS_JOBS; i++) {
        hri_grants_job *job = &l->jobs[i];
        if (job->state == HRI_GRANTS_FREE) {
            memset(job, 0, sizeof *job);
            job->id = l->next_job++;
            job->flags = flags & (HRI_WIRE_OVERCOMMIT | HRI_WIRE_OWN);
            job->pid = pid;
            job->started = started;
            strncpy(job->name, name, sizeof job->name - 1);
            job->state = HRI_GRANTS_WAITING;
            return job;
        }
    }
    return NULL;
}

hri_grants_job *hri_grants_job_find(hri_grants *l, uint64_t id) {
    for (int i = 0; i < HRI_GRANTS_JOBS; i++) {
        if (l->jobs[i].state && l->jobs[i].id == id) {
            return &l->jobs[i];
        }
    }
    return NULL;
}

/* Does an earlier job wait for one of the same devices? */
static int behind(const hri_grants *l, const hri_grants_job *job) {
    for (int i = 0; i < HRI_GRANTS_JOBS; i++) {
        const hri_grants_job *other = &l->jobs[i];
        if (other->state != HRI_GRANTS_WAITING || !other->order || other->order >= job->order) {
            continue;
        }
        for (int d = 0; d < HRI_GRANTS_DEVICES; d++) {
            if (other->limit_bytes[d] && job->limit_bytes[d]) {
                return 1;
            }
        }
    }
    return 0;
}

hri_said hri_grants_job_enter(hri_grants *l, hri_grants_job *job) {
    if (job->state == HRI_GRANTS_IN || job->state == HRI_GRANTS_AWAY) {
        job->state = HRI_GRANTS_IN;
        return HRI_SAID_OK;
    }
    int room = 1;
    job->order = job->order ? job->order : l->next_order++;
    for (int d = 0; d < HRI_GRANTS_DEVICES; d++) {
        if (job->limit_bytes[d] > l->devices[d].total_bytes) {
            return HRI_SAID_LIMIT;
        }
        room &= job->limit_bytes[d] <= hri_grants_device_free(l, d);
    }
    if ((job->flags & HRI_WIRE_OVERCOMMIT) || (room && !behind(l, job))) {
        job->state = HRI_GRANTS_IN;
        return HRI_SAID_OK;
    }
    return HRI_SAID_AGAIN;
}

void hri_grants_job_give_up(hri_grants_job *job) {
    job->order = 0;
}

/* A job without its run and without processes is no more. */
static void end_if_empty(hri_grants *l, hri_grants_job *job) {
    if (job->pid) {
        return;
    }
    for (int i = 0; i < HRI_GRANTS_PROCESSES; i++) {
        if (l->processes[i].state && l->processes[i].job == job->id) {
            return;
        }
    }
    job->state = HRI_GRANTS_FREE;
}

void hri_grants_job_leave(hri_grants *l, hri_grants_job *job) {
    job->pid = 0;
    end_if_empty(l, job);
}

hri_said hri_grants_job_limit(hri_grants *l, hri_grants_job *job, int device, uint64_t bytes) {
    if (bytes > l->devices[device].total_bytes) {
        return HRI_SAID_LIMIT;
    }
    const uint64_t now = job->limit_bytes[device];
    if (bytes > now && job->state == HRI_GRANTS_IN && !(job->flags & HRI_WIRE_OVERCOMMIT)) {
        const uint64_t taken = committed_by(l, job, device);
        if (minus(bytes, taken) > hri_grants_device_free(l, device)) {
            return HRI_SAID_AGAIN;
        }
    }
    job->limit_bytes[device] = bytes;
    return HRI_SAID_OK;
}

uint64_t hri_grants_job_slack(const hri_grants_job *job, int device) {
    const uint64_t part = job->limit_bytes[device] / 32;
    const uint64_t least = 4 << 20, most = 64 << 20;
    return part < least ? least : part > most ? most : part;
}

/* ---- processes ---- */

hri_grants_process *hri_grants_process_open(hri_grants *l, uint64_t job, const char *name,
                                            int64_t pid, uint64_t started) {
    const hri_grants_job *of = hri_grants_job_find(l, job);
    hri_grants_process *empty = NULL;
    if (!of || of->state == HRI_GRANTS_WAITING) {
        return NULL;
    }
    for (int i = 0; i < HRI_GRANTS_PROCESSES; i++) {
        hri_grants_process *p = &l->processes[i];
        const int same = (p->state == HRI_GRANTS_AWAY || p->state == HRI_GRANTS_DRAINING) &&
                         p->pid == pid && p->started == started;
        if (same && p->job == job) {
            p->state = HRI_GRANTS_IN;
            return p;
        }
        if (same && p->state == HRI_GRANTS_DRAINING) {
            hri_grants_process_drained(l, p); /* what it still has is in its new lease */
        }
        empty = p->state == HRI_GRANTS_FREE && !empty ? p : empty;
    }
    if (empty) {
        memset(empty, 0, sizeof *empty);
        empty->job = job;
        empty->pid = pid;
        empty->started = started;
        strncpy(empty->name, name, sizeof empty->name - 1);
        empty->state = HRI_GRANTS_IN;
    }
    return empty;
}

void hri_grants_process_died(hri_grants_process *p) {
    p->waiting = 0;
    p->state = HRI_GRANTS_DRAINING;
}

void hri_grants_process_drained(hri_grants *l, hri_grants_process *p) {
    hri_grants_job *job = hri_grants_job_find(l, p->job);
    p->state = HRI_GRANTS_FREE;
    if (job) {
        end_if_empty(l, job);
    }
}

/* The most that a lease may come to, by the job's budget and by the device. */
static void bounds(const hri_grants *l, const hri_grants_process *p, int device, uint64_t *job_room,
                   uint64_t *device_room) {
    const hri_grants_job *job = hri_grants_job_find((hri_grants *)l, p->job);
    const uint64_t own = p->granted_bytes[device];
    *job_room = *device_room = 0;
    if (!job) {
        return;
    }
    uint64_t processes = 0;
    for (int i = 0; i < HRI_GRANTS_PROCESSES; i++) {
        const hri_grants_process *q = &l->processes[i];
        processes += q->state && q->job == p->job && (q == p || q->granted_bytes[device]);
    }
    const uint64_t others = hri_grants_job_leased(l, job, device) - own;
    const uint64_t slack = processes * hri_grants_job_slack(job, device);
    *job_room = minus(minus(job->limit_bytes[device], slack), others);
    *device_room =
        job->flags & HRI_WIRE_OVERCOMMIT ? own + hri_grants_device_free(l, device) : UINT64_MAX;
}

hri_said hri_grants_lease(hri_grants *l, hri_grants_process *p, int device, uint64_t held_bytes,
                          uint64_t remainder_bytes, uint64_t least_bytes, uint64_t wanted_bytes) {
    uint64_t job_room, device_room;
    if (held_bytes > UINT64_MAX / 8 || remainder_bytes > UINT64_MAX / 8 ||
        least_bytes > UINT64_MAX / 8 || wanted_bytes > UINT64_MAX / 8) {
        return HRI_SAID_LIMIT;
    }
    const uint64_t base = held_bytes + remainder_bytes;
    const uint64_t least = base + least_bytes;
    const uint64_t wanted = base + (wanted_bytes > least_bytes ? wanted_bytes : least_bytes);
    p->held_bytes[device] = held_bytes;
    p->remainder_bytes[device] = remainder_bytes;
    if (p->granted_bytes[device] > wanted) {
        p->granted_bytes[device] = wanted;
    }
    bounds(l, p, device, &job_room, &device_room);
    const uint64_t room = job_room < device_room ? job_room : device_room;
    if (least > room) {
        return least > job_room ? HRI_SAID_LIMIT : HRI_SAID_AGAIN;
    }
    /* Beyond what is needed, at most a quarter of what is left: others of the job want some too. */
    const uint64_t extra = (room - least) / 4;
    const uint64_t grant = wanted - least > extra ? least + extra : wanted;
    /* What it has within `wanted` it keeps: another thread may be taking of it at this moment. */
    const uint64_t kept = p->granted_bytes[device] < room ? p->granted_bytes[device] : room;
    p->granted_bytes[device] = grant > kept ? grant : kept;
    return HRI_SAID_OK;
}

uint64_t hri_grants_lease_free(const hri_grants *l, const hri_grants_process *p, int device) {
    uint64_t job_room, device_room;
    bounds(l, p, device, &job_room, &device_room);
    return minus(job_room < device_room ? job_room : device_room, p->granted_bytes[device]);
}

/* ---- host memory ---- */

uint64_t hri_grants_job_spilled(const hri_grants *l, const hri_grants_job *job) {
    uint64_t sum = 0;
    for (int i = 0; i < HRI_GRANTS_PROCESSES; i++) {
        const hri_grants_process *p = &l->processes[i];
        /* The host takes its memory back with the process: the dead have none. */
        const int lives = p->state == HRI_GRANTS_IN || p->state == HRI_GRANTS_AWAY;
        for (int d = 0; lives && p->job == job->id && d < HRI_GRANTS_DEVICES; d++) {
            sum += p->spilled_bytes[d];
        }
    }
    return sum;
}

hri_said hri_grants_spill(hri_grants *l, hri_grants_process *p, int device, uint64_t bytes) {
    const hri_grants_job *job = hri_grants_job_find(l, p->job);
    const uint64_t own = p->spilled_bytes[device];
    if (!job || (bytes > own &&
                 bytes - own > minus(job->spill_limit_bytes, hri_grants_job_spilled(l, job)))) {
        return HRI_SAID_LIMIT;
    }
    p->spilled_bytes[device] = bytes;
    return HRI_SAID_OK;
}

/* ---- waiting in circles ---- */

/* Marks processes that will give memory back or go on: those that do not wait, and those that wait for one of them. */
hri_grants_process *hri_grants_deadlock(hri_grants *l) {
    unsigned char moves[HRI_GRANTS_PROCESSES] = {0};
    for (int changed = 1; changed;) {
        changed = 0;
        for (int i = 0; i < HRI_GRANTS_PROCESSES; i++) {
            const hri_grants_process *p = &l->processes[i];
            if (!p->state || moves[i]) {
                continue;
            }
            int can = !p->waiting;
            const uint64_t device = p->waiting - 1;
            for (int j = 0; !can && j < HRI_GRANTS_PROCESSES; j++) {
                can = j != i && l->processes[j].state && moves[j] &&
                      l->processes[j].granted_bytes[device] != 0;
            }
            /* A job that reserved memory may end and give it back, and so may somebody outside. */
            for (int j = 0; !can && j < HRI_GRANTS_JOBS; j++) {
                const hri_grants_job *job = &l->jobs[j];
                can = job->state == HRI_GRANTS_IN && !(job->flags & HRI_WIRE_OVERCOMMIT) &&
                      job->limit_bytes[device] != 0;
            }
            moves[i] = (unsigned char)can;
            changed |= can;
        }
    }
    hri_grants_process *victim = NULL;
    for (int i = 0; i < HRI_GRANTS_PROCESSES; i++) {
        hri_grants_process *p = &l->processes[i];
        if (p->state && p->waiting && !moves[i] && (!victim || p->order > victim->order)) {
            victim = p;
        }
    }
    return victim;
}

/* ---- from a file, and checking ---- */

static int ends(const char *name) {
    return memchr(name, '\0', HRI_WIRE_NAME) != NULL;
}

int hri_grants_restore(hri_grants *l) {
    if (l->magic != HRI_GRANTS_MAGIC || l->bytes != sizeof *l) {
        return 0;
    }
    for (int i = 0; i < HRI_GRANTS_JOBS; i++) {
        hri_grants_job *job = &l->jobs[i];
        if (job->state >= HRI_GRANTS_STATE_END_ || !ends(job->name) || job->id >= l->next_job ||
            (job->flags & ~(uint64_t)(HRI_WIRE_OVERCOMMIT | HRI_WIRE_OWN))) {
            return 0;
        }
        job->state = job->state == HRI_GRANTS_WAITING ? HRI_GRANTS_FREE
                     : job->state                     ? HRI_GRANTS_AWAY
                                                      : HRI_GRANTS_FREE;
    }
    for (int i = 0; i < HRI_GRANTS_PROCESSES; i++) {
        hri_grants_process *p = &l->processes[i];
        if (p->state >= HRI_GRANTS_STATE_END_ || !ends(p->name)) {
            return 0;
        }
        p->waiting = 0;
        p->state = p->state == HRI_GRANTS_IN ? HRI_GRANTS_AWAY : p->state;
        if (p->state && !hri_grants_job_find(l, p->job)) {
            p->state = HRI_GRANTS_FREE;
        }
    }
    return hri_grants_check(l);
}

int hri_grants_check(const hri_grants *l) {
    if (l->magic != HRI_GRANTS_MAGIC || l->bytes != sizeof *l) {
        return 0;
    }
    for (int d = 0; d < HRI_GRANTS_DEVICES; d++) {
        uint64_t leases = 0;
        for (int i = 0; i < HRI_GRANTS_PROCESSES; i++) {
            const hri_grants_process *p = &l->processes[i];
            if (!p->state) {
                continue;
            }
            if (p->waiting > HRI_GRANTS_DEVICES ||
                p->granted_bytes[d] > l->devices[d].total_bytes ||
                !hri_grants_job_find((hri_grants *)l, p->job)) {
                return 0;
            }
            leases += p->granted_bytes[d];
        }
        if (leases > l->devices[d].total_bytes) {
            return 0;
        }
        for (int i = 0; i < HRI_GRANTS_JOBS; i++) {
            if (l->jobs[i].state && l->jobs[i].limit_bytes[d] > l->devices[d].total_bytes) {
                return 0;
            }
        }
    }
    return 1;
}
