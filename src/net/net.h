/* Bytes between ranks: a group of equal members, each of which trains one replica.
 *
 *   hri_net_options o = {.wire = "auto", .who = who};            who: net/who.h, from the launcher's variables
 *   status = hri_net_cost(&o, &cost);                            before anything is opened: the plan counts it
 *   status = hri_net_open(&o, &net, &why);                       all ranks are there, or one is named
 *   status = hri_net_exchange(net, to, from, &ticket);           starts; every rank makes the same calls in one order
 *   status = hri_net_wait(net, ticket, timeout_ns);              done, or HR_E_PEER and hri_net_cause says who
 *   hri_net_close(net);
 *
 * Collectives move bytes: nothing here adds, and what arrives does not depend on who came first.  Nothing waits for ever: a
 * rank that ended is noticed at once, one that is silent within deadline_ns, and a failure of one rank (hri_net_stop)
 * reaches all.  After that every call returns HR_E_PEER; only hri_net_cause and hri_net_close are left.
 *
 * Threads: calls on one hri_net come from one thread at a time, but hri_net_stop and hri_net_cause from any. */
#ifndef HRI_NET_NET_H
#define HRI_NET_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <headroom/status.h>
#include "base/prose.h"
#include "device/gpu.h"
#include "net/who.h"

enum {
    HRI_NET_MOST_RANKS = 4096,
    HRI_NET_SMALL_BYTES = 256,      /* of hri_net_share, a rank */
    HRI_NET_DEADLINE_S = 15,        /* of silence */
    HRI_NET_MEET_TIMES = 8,         /* deadlines until all ranks are there: 120 s */
    HRI_NET_RING_BYTES = 256 << 10, /* shared memory, a pair and direction */
    HRI_NET_BAND_BYTES = 256 << 10, /* mpi, a pair and direction */
    HRI_NET_ALL = -1,               /* hri_net_cause: no rank in particular */
};

typedef struct hri_net hri_net;

/* Memory of one rank; `at` is a host address, or the device's for a wire with `device_memory`. */
typedef struct hri_net_range {
    void *at;
    uint64_t bytes;
} hri_net_range;

/* Copies between members of one process; for threads over several GPUs.  Called in the reader's thread. */
typedef hr_status hri_net_copy_fn(void *user, uint32_t to_rank, void *to, uint32_t from_rank,
                                  const void *from, uint64_t bytes);

/* Zero is the default in every field. */
typedef struct hri_net_options {
    const char *wire; /* "auto", "threads", "shm", "tcp", "mpi", "nccl" */
    hri_who who;
    uint64_t deadline_ns;  /* of silence */
    uint64_t meet_ns;      /* until all ranks are there; 0: HRI_NET_MEET_TIMES deadlines */
    uint64_t ring_bytes;   /* shm: at least 4096 */
    const char *device;    /* of this rank, for sentences: "cuda:1" */
    bool open;             /* a meeting that others can reach needs no token */
    hri_net_copy_fn *copy; /* threads: NULL is memcpy */
    void *copy_user;
    hri_gpu *gpu;    /* nccl: of this rank */
    hr_queue *queue; /* and where its work is put, between what is computed */
} hri_net_options;

/* What the wire itself takes on each rank, beside the ranges that the caller gives. */
typedef struct hri_net_cost_bytes {
    uint64_t host_bytes;             /* rings, bands, tables, the stack of its thread */
    uint64_t device_bytes;           /* NCCL: an estimate; measure after hri_net_warm */
    double latency_ns, bytes_per_ns; /* one message, one direction: for a plan; 0: unknown */
} hri_net_cost_bytes;

/* Why the group ended.  A text for users: "rank 3 (node7, cuda:1, process 812) ended in exchange 12". */
typedef struct hri_net_end {
    int32_t rank; /* HRI_NET_ALL: none in particular */
    hr_status status;
    char text[256];
} hri_net_end;

typedef struct hri_net_stats {
    uint64_t exchanges, sent_bytes, received_bytes;
    uint64_t waited_ns; /* in hri_net_wait */
    /* The rank that was waited for longest, and for how long.  Rank 0 adds how far a rank was behind the first in what was shared,
     * so that it may be the one itself. */
    uint32_t slowest;
    uint64_t slowest_ns;
} hri_net_stats;

/* Needs o->wire, o->who.size and o->ring_bytes alone: also for machines that are not there.  HR_E_INVALID: no such wire. */
HR_MUST_CHECK hr_status hri_net_cost(const hri_net_options *o, hri_net_cost_bytes *out,
                                     hri_prose *why);
/* What "auto" becomes for these ranks: "threads" is only ever asked for by name, "none" for one rank. */
const char *hri_net_wire_of(const hri_net_options *o);

/* Returns when all ranks are there and have agreed on size and wire.  HR_E_PEER: one did not come (named), HR_E_UNSUPPORTED: a
 * library is missing or too old, HR_E_INVALID: wrong use (no token for a meeting that others can reach).  A group of one
 * needs nothing and opens nothing. */
HR_MUST_CHECK hr_status hri_net_open(const hri_net_options *o, hri_net **out, hri_prose *why);
/* In place of hri_net_open, by a rank that has failed before it: the others, who wait or will come, learn why.  Returns when they
 * know, or after wait_ns. */
void hri_net_decline(const hri_net_options *o, const char *text, uint64_t wait_ns);
/* All members of one process, for threads: out[0..count).  Each is used, and closed, by its own thread. */
HR_MUST_CHECK hr_status hri_net_open_threads(const hri_net_options *o, uint32_t count,
                                             hri_net **out, hri_prose *why);
/* Leaves in order: waits (no longer than the deadline without a beat) until the others leave too.  After an end it does
 * not wait.  NULL is allowed. */
void hri_net_close(hri_net *net);

uint32_t hri_net_rank(const hri_net *net);
uint32_t hri_net_size(const hri_net *net);
const char *hri_net_wire(const hri_net *net);
/* "rank 3 (node7, cuda:1, process 812)"; lives as long as the group. */
const char *hri_net_member(const hri_net *net, uint32_t rank);
/* The ranges must be device memory, and not host memory. */
bool hri_net_device_memory(const hri_net *net);

/* Sends to[i] to rank i and fills from[i], size() of each; the own range is copied when both are given (equal addresses: left
 * alone).  0 bytes: nothing.  to[j] on rank i must have as many bytes as from[i] on rank j: otherwise the group ends, with both
 * numbers.  `to` stays unchanged and `from` untouched until the wait has returned; the two arrays are copied. */
HR_MUST_CHECK hr_status hri_net_exchange(hri_net *net, const hri_net_range *to,
                                         const hri_net_range *from, uint64_t *ticket);
/* Every rank's own range to all: from[i] gets what rank i gave.  All-gather of slices, broadcast (own.bytes 0 but on one). */
HR_MUST_CHECK hr_status hri_net_gather(hri_net *net, hri_net_range own, const hri_net_range *from,
                                       uint64_t *ticket);
HR_MUST_CHECK hr_status hri_net_test(hri_net *net, uint64_t ticket, bool *done);
/* HR_E_AGAIN: not done within timeout_ns (0: no bound but the deadline of silence); hri_net_slowest names whom it waits for.
 * Tickets end in the order in which they were given: waiting for one is waiting for those before it. */
HR_MUST_CHECK hr_status hri_net_wait(hri_net *net, uint64_t ticket, uint64_t timeout_ns);

/* Control: every rank gives `bytes` (the same number, at most HRI_NET_SMALL_BYTES) and gets all, rank after rank. */
HR_MUST_CHECK hr_status hri_net_share(hri_net *net, const void *mine, uint32_t bytes, void *all);
/* Rank 0's bytes to all, which know how many there are; host memory on every wire.  For what is too large to be shared, before the
 * first step. */
HR_MUST_CHECK hr_status hri_net_spread(hri_net *net, void *data, uint64_t bytes);
/* Nobody leaves before all have come. */
HR_MUST_CHECK hr_status hri_net_barrier(hri_net *net);
/* One trial exchange with every peer, so that what a library takes at its first message is taken before memory is measured. */
HR_MUST_CHECK hr_status hri_net_warm(hri_net *net);

/* Ends the group for all ranks, with this rank's reason.  The first reason of any rank is kept.  Any thread. */
void hri_net_stop(hri_net *net, hr_status status, const char *format, ...) HR_PRINTF(3, 4);
/* False while the group is whole.  Any thread. */
bool hri_net_cause(hri_net *net, hri_net_end *out);
/* The rank that has begun the fewest exchanges, as far as is known here. */
uint32_t hri_net_slowest(hri_net *net);
void hri_net_get_stats(hri_net *net, hri_net_stats *out);

#endif
