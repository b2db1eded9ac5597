/* The ledger of all jobs of a user: who may take how much of which device.
 *
 *   device   total, minus what processes outside any job hold
 *   job      a budget on each of its devices.  It enters as a whole or waits (a gang is one grant), first come, first served.
 *            A job that reserves has its whole budget from then on; one that over-commits has what its processes lease
 *   process  a lease on each device it uses: what it was granted, of which it holds some
 *
 * Invariants (hri_grants_check), on every device:
 *   sum of leases of a job <= its budget              except right after the budget was lowered
 *   sum over jobs of max(budget if reserved, leases) <= total - outside     at the moment of each grant
 *
 * The dead are counted until the driver has given their memory back: a process whose connection ended is *draining* and
 * keeps its lease until it is observed to hold nothing.
 *
 * Pure: no clock, no socket, no allocation.  One plain struct, so that the daemon keeps it in a mapped file: a restarted
 * daemon finds every lease again, because a lease is one 8-byte number, stored before anybody is told of it.  Nothing
 * derived is stored.  One thread. */
#ifndef HRI_BROKER_GRANTS_H
#define HRI_BROKER_GRANTS_H

#include <stdint.h>
#include "broker/wire.h"

enum { HRI_GRANTS_DEVICES = 16, HRI_GRANTS_JOBS = 256, HRI_GRANTS_PROCESSES = 512 };
#define HRI_GRANTS_MAGIC 0x3272656764656cu

typedef enum hri_grants_state {
    HRI_GRANTS_FREE = 0,
    HRI_GRANTS_WAITING,  /* a job at the door */
    HRI_GRANTS_IN,       /* a job that entered; a process that is connected */
    HRI_GRANTS_AWAY,     /* from before a restart, not heard of since */
    HRI_GRANTS_DRAINING, /* dead; its memory is not back yet */
    HRI_GRANTS_STATE_END_
} hri_grants_state;

typedef struct hri_grants_device {
    unsigned char uuid[16];
    uint64_t total_bytes;     /* 0: the entry is free */
    uint64_t outside_bytes;   /* observed */
    char name[HRI_WIRE_NAME]; /* of the model; "": not known */
    uint64_t no_pids;         /* processes cannot be told apart there */
} hri_grants_device;

typedef struct hri_grants_job {
    uint64_t id, state, flags;
    uint64_t order;    /* of asking at the door; 0: it does not ask */
    uint64_t since_ms; /* it has waited, or has been in, since then; the daemon's clock */
    uint64_t started;  /* of the `headroom run` process: it and `pid` name a process for ever */
    int64_t pid;       /* 0: it has gone; the job lives on with its processes */
    uint64_t limit_bytes[HRI_GRANTS_DEVICES];
    uint64_t spill_limit_bytes; /* of host memory, for all devices and processes together */
    char name[HRI_WIRE_NAME];
} hri_grants_job;

typedef struct hri_grants_process {
    uint64_t state, job; /* job: id */
    int64_t pid;
    uint64_t started;
    uint64_t granted_bytes[HRI_GRANTS_DEVICES];
    uint64_t held_bytes[HRI_GRANTS_DEVICES]; /* as it said last */
    uint64_t remainder_bytes[HRI_GRANTS_DEVICES];
    uint64_t cause_bytes[HRI_GRANTS_DEVICES][HRI_CAUSES]; /* of the remainder, as it said last */
    uint64_t spilled_bytes[HRI_GRANTS_DEVICES];           /* host memory in place of the device's */
    uint64_t seen_bytes[HRI_GRANTS_DEVICES];              /* as the outside sees it */
    uint64_t was_seen[HRI_GRANTS_DEVICES];                /* the outside knows it by its number */
    uint64_t waiting;  /* 1 + the device whose memory it waits for; 0: it does not */
    uint64_t order;    /* of the wait */
    uint64_t since_ms; /* of the wait */
    char name[HRI_WIRE_NAME];
} hri_grants_process;

typedef struct hri_grants {
    uint64_t magic, bytes; /* bytes: sizeof */
    uint64_t next_job, next_order;
    hri_grants_device devices[HRI_GRANTS_DEVICES];
    hri_grants_job jobs[HRI_GRANTS_JOBS];
    hri_grants_process processes[HRI_GRANTS_PROCESSES];
} hri_grants;

void hri_grants_init(hri_grants *l);
/* After a restart: 1 when the contents can be taken over (everybody is AWAY then, jobs at the door are dropped), 0 when
 * they are not a ledger. */
int hri_grants_restore(hri_grants *l);
/* 1 when the invariants hold. */
int hri_grants_check(const hri_grants *l);

/* The index of the device; made when total_bytes > 0 and there is room, else -1. */
int hri_grants_device_find(hri_grants *l, const unsigned char uuid[16], uint64_t total_bytes);
/* What new leases and new reservations could still have of it. */
uint64_t hri_grants_device_free(const hri_grants *l, int device);

/* What is in no lease of it. */
uint64_t hri_grants_unleased(const hri_grants *l, int device);

/* ---- jobs ---- */

/* A job at the door, without wishes.  NULL: full. */
hri_grants_job *hri_grants_job_open(hri_grants *l, const char *name, uint32_t flags, int64_t pid,
                                    uint64_t started);
hri_grants_job *hri_grants_job_find(hri_grants *l, uint64_t id);
/* Asks at the door.  HRI_SAID_OK: it is in.  HRI_SAID_LIMIT: a wish is above what the device has in all.  HRI_SAID_AGAIN: not yet, and it
 * keeps its place; hri_grants_job_give_up ends that. */
hri_said hri_grants_job_enter(hri_grants *l, hri_grants_job *job);
void hri_grants_job_give_up(hri_grants_job *job);
/* Its `headroom run` has gone: the job ends when its last process has. */
void hri_grants_job_leave(hri_grants *l, hri_grants_job *job);
/* A new budget; OK, or HRI_SAID_AGAIN when the device has not so much left (nothing is changed). */
hri_said hri_grants_job_limit(hri_grants *l, hri_grants_job *job, int device, uint64_t bytes);
/* The sum of its leases. */
uint64_t hri_grants_job_leased(const hri_grants *l, const hri_grants_job *job, int device);
/* What is kept out of leases for what the driver loads later into each process. */
uint64_t hri_grants_job_slack(const hri_grants_job *job, int device);

/* ---- processes ---- */

/* NULL: no such job, or full.  A process that is AWAY, or draining and lives, is found again by pid and start: nobody is
 * counted twice. */
hri_grants_process *hri_grants_process_open(hri_grants *l, uint64_t job, const char *name,
                                            int64_t pid, uint64_t started);
/* Its connection ended. */
void hri_grants_process_died(hri_grants_process *p);
/* Its memory is back. */
void hri_grants_process_drained(hri_grants *l, hri_grants_process *p);

/* Sets the lease so that it covers held + remainder, `least` more and up to `wanted` more.  HRI_SAID_OK: done (and what
 * is idle beyond `wanted` has gone back).  HRI_SAID_LIMIT, HRI_SAID_AGAIN: the lease is as it was, except that idle bytes
 * beyond `wanted` are back. */
hri_said hri_grants_lease(hri_grants *l, hri_grants_process *p, int device, uint64_t held_bytes,
                          uint64_t remainder_bytes, uint64_t least_bytes, uint64_t wanted_bytes);
/* How much more than now the process could be granted. */
uint64_t hri_grants_lease_free(const hri_grants *l, const hri_grants_process *p, int device);

/* The process wants `bytes` of host memory in place of the device's, in all.  HRI_SAID_LIMIT: the job has not so much left,
 * and what it had stays.  Giving back is never refused. */
hri_said hri_grants_spill(hri_grants *l, hri_grants_process *p, int device, uint64_t bytes);
/* What the live processes of the job have spilled on all devices. */
uint64_t hri_grants_job_spilled(const hri_grants *l, const hri_grants_job *job);

/* The newest waiting process that nobody can help any more, because everybody who holds memory it needs waits as well;
 * NULL when there is none. */
hri_grants_process *hri_grants_deadlock(hri_grants *l);

#endif
