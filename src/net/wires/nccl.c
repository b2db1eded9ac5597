/* NCCL between ranks that have a GPU each: sends and receives of bytes on the device, in the queue that computes.
 *
 * The star over TCP stays beside it: it finds the ranks, carries the id, shares small things, notices who has ended.  NCCL itself
 * says nothing when a peer is gone, and its kernel then waits for ever: only an abort ends that, and an abort may hang too.
 * So every wait looks at the star, the abort has a thread and a deadline of its own, and what does not come back is left.
 *
 * Everything goes into one queue in the order of the calls, so the last exchange stands for all before it.  Both sides must give
 * equal sizes: NCCL does not compare them, the plan does (hri_planned_agree).  A rank alone sends to itself, so that the library
 * can be tried with one GPU. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/number.h"
#include "device/device.h"
#include "net/nccl_min.h"
#include "net/wire.h"

enum { CTAS = 4, LAST_S = 10 };
static const uint64_t nap_ns = 50000, grace_ns = 1000000000;

typedef struct nccl_end {
    hri_net_wire_end star; /* ops NULL: one rank */
    hri_nccl nccl;
    hri_nccl_comm *comm;
    hri_gpu *gpu;
    hr_queue *queue;
    hr_event *begun, *over;
    uint32_t rank, size;
    uint64_t deadline_ns, meet_ns;
    uint64_t groups; /* that are over; the first is a trial */
    bool connected;  /* a step is over: later groups need nothing of the others to begin */
    uint64_t waited_ns;
    bool stuck;      /* an abort did not come back: its code still runs */
    bool ended;      /* of one rank */
    hri_net_end end; /* and why */
} nccl_end;

/* What each rank tells before anything is opened. */
typedef struct hello {
    int version;            /* 0: it has no NCCL */
    unsigned char uuid[16]; /* of its GPU; zeros: unknown */
    unsigned char several;  /* the user has told NCCL that ranks may share one */
    union {
        hri_nccl_id id;   /* rank 0's */
        char missing[96]; /* version 0: why */
    } is;
} hello;
_Static_assert(sizeof(hello) <= HRI_NET_SMALL_BYTES, "it is shared at once");

static void nap(void) {
    const struct timespec t = {.tv_nsec = (long)nap_ns};
    nanosleep(&t, NULL);
}

static bool nccl_cause(hri_net_wire_state *state, hri_net_end *out) {
    nccl_end *const s = state;
    if (s->star.ops) {
        return s->star.ops->cause(s->star.state, out);
    }
    if (s->ended) {
        *out = s->end;
    }
    return s->ended;
}

static void nccl_stop(hri_net_wire_state *state, const hri_net_end *end) {
    nccl_end *const s = state;
    if (s->star.ops) {
        s->star.ops->stop(s->star.state, end);
    } else if (!s->ended) {
        s->ended = true;
        s->end = *end;
    }
}

/* NCCL fails where another rank has failed: whose reason comes over the star is waited for. */
static bool others_failed(nccl_end *s, int result) {
    hri_net_end end;
    const uint64_t until = hri_clock_ns() + grace_ns;
    const bool maybe = result == HRI_NCCL_REMOTE || result == HRI_NCCL_SYSTEM;
    while (maybe && s->star.ops && !nccl_cause(s, &end) && hri_clock_ns() < until) {
        nap();
    }
    return nccl_cause(s, &end);
}

/* The group ends with what NCCL says. */
static hr_status failed(nccl_end *s, const char *call, int result) {
    if (others_failed(s, result)) {
        return HR_E_PEER;
    }
    hri_net_end end = {.rank = (int32_t)s->rank, .status = HR_E_DEVICE};
    const char *last = s->nccl.last_error ? s->nccl.last_error(s->comm) : NULL;
    snprintf(end.text, sizeof end.text, "rank %u: %s: %s%s%.120s", s->rank, call,
             s->nccl.error_text(result), last && *last ? ": " : "", last ? last : "");
    nccl_stop(s, &end);
    return HR_E_PEER;
}

static hr_status too_late(nccl_end *s, const char *call, uint64_t within_ns) {
    hri_net_end end = {.rank = (int32_t)s->rank, .status = HR_E_DEVICE};
    hri_snprintf(end.text, sizeof end.text, "rank %u: %s was not done within %.3g s", s->rank, call,
                 (double)within_ns / 1e9);
    nccl_stop(s, &end);
    return HR_E_PEER;
}

/* Calls return before they are done: until NCCL says so, or a rank has ended.  The context is current. */
static hr_status settle(nccl_end *s, const char *call, int result, uint64_t within_ns) {
    const uint64_t until_ns = hri_clock_ns() + within_ns;
    hri_net_end end;
    while (result == HRI_NCCL_IN_PROGRESS) {
        if (nccl_cause(s, &end)) {
            return HR_E_PEER;
        }
        if (hri_clock_ns() > until_ns) {
            return too_late(s, call, within_ns);
        }
        nap();
        const int asked = s->comm ? s->nccl.async_error(s->comm, &result) : HRI_NCCL_OK;
        result = asked == HRI_NCCL_OK ? result : asked;
    }
    return result == HRI_NCCL_OK ? HR_OK : failed(s, call, result);
}

/* ---- aborts ---- */

typedef struct aborting {
    int (*abort)(hri_nccl_comm *comm);
    hri_nccl_comm *comm;
} aborting;

static void *abort_comm(void *user) {
    aborting *a = user;
    (void)a->abort(a->comm);
    hri_free(a);
    return NULL;
}

/* True: it has come back. */
static bool abort_in_time(const nccl_end *s) {
    aborting *a = hri_calloc(1, sizeof *a);
    pthread_t thread;
    struct timespec until;
    if (!a) {
        return false;
    }
    *a = (aborting){s->nccl.abort, s->comm};
    if (pthread_create(&thread, NULL, abort_comm, a) != 0) {
        hri_free(a);
        return false;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LAST_S;
    if (pthread_timedjoin_np(thread, NULL, &until) == 0) {
        return true;
    }
    pthread_detach(thread);
    return false;
}

/* A rank is gone: kernels that wait for it end only by an abort, and whoever waits for the queue next would wait for ever. */
static hr_status give_up(nccl_end *s, hr_status status) {
    if (status == HR_E_PEER && s->comm) {
        s->stuck = !abort_in_time(s);
        s->comm = NULL;
    }
    return status;
}

/* ---- exchanges ---- */

static int put_all(nccl_end *s, const hri_net_range *to, const hri_net_range *from) {
    void *stream = hri_gpu_native(s->gpu, s->queue);
    int result = HRI_FAULT(SEND) ? HRI_NCCL_IN_PROGRESS - 4 : s->nccl.group_start();
    for (uint32_t i = 0; i < s->size && result == HRI_NCCL_OK; i++) {
        if (i == s->rank && s->size > 1) {
            continue;
        }
        if (to[i].bytes) {
            result = s->nccl.send(to[i].at, to[i].bytes, HRI_NCCL_BYTE, (int)i, s->comm, stream);
        }
        if (from[i].bytes && result == HRI_NCCL_OK) {
            result =
                s->nccl.recv(from[i].at, from[i].bytes, HRI_NCCL_BYTE, (int)i, s->comm, stream);
        }
    }
    const int ended = s->nccl.group_end();
    return result == HRI_NCCL_OK || result == HRI_NCCL_IN_PROGRESS ? ended : result;
}

static hr_status copy_own(nccl_end *s, hri_net_range mine, hri_net_range own) {
    return mine.bytes && own.bytes && mine.at != own.at
               ? hr_copy(s->queue, (hr_addr)(uintptr_t)own.at, (hr_addr)(uintptr_t)mine.at,
                         own.bytes)
               : HR_OK;
}

static hr_status nccl_exchange(hri_net_wire_state *state, const hri_net_range *to,
                               const hri_net_range *from, uint64_t ticket) {
    nccl_end *const s = state;
    int pushed;
    (void)ticket;
    hr_status status = hri_gpu_enter(s->gpu, &pushed);
    if (status != HR_OK) {
        return status;
    }
    hri_net_end end;
    status = nccl_cause(s, &end) ? HR_E_PEER : hr_event_mark(s->begun, s->queue);
    status = status == HR_OK && s->size > 1 ? copy_own(s, to[s->rank], from[s->rank]) : status;
    if (status == HR_OK) {
        status = settle(s, "ncclGroupEnd", put_all(s, to, from),
                        s->connected ? s->deadline_ns : s->meet_ns);
        s->groups += status == HR_OK;
    }
    status = status == HR_OK ? hr_event_mark(s->over, s->queue) : status;
    hri_gpu_leave(s->gpu, pushed);
    return give_up(s, status);
}

static hr_status nccl_wait(hri_net_wire_state *state, uint64_t ticket, uint64_t timeout_ns) {
    nccl_end *const s = state;
    const uint64_t begun = hri_clock_ns();
    hr_status status = HR_E_AGAIN;
    (void)ticket;
    while (status == HR_E_AGAIN) {
        hri_net_end end;
        uint64_t ns;
        int error = HRI_NCCL_OK;
        status = nccl_cause(s, &end) ? HR_E_PEER : hr_event_elapsed(s->begun, s->over, &ns);
        if (status == HR_E_AGAIN && s->nccl.async_error(s->comm, &error) == HRI_NCCL_OK &&
            error != HRI_NCCL_OK && error != HRI_NCCL_IN_PROGRESS) {
            status = failed(s, "ncclCommGetAsyncError", error);
        }
        if (status != HR_E_AGAIN || hri_clock_ns() - begun >= timeout_ns) {
            break;
        }
        nap();
    }
    s->waited_ns += hri_clock_ns() - begun;
    return give_up(s, status);
}

static hr_status nccl_share(hri_net_wire_state *state, const void *mine, uint32_t bytes,
                            void *all) {
    nccl_end *const s = state;
    s->connected = s->groups > 1; /* shared at the end of a step */
    if (s->star.ops) {
        return give_up(s, s->star.ops->share(s->star.state, mine, bytes, all));
    }
    memcpy(all, mine, bytes);
    return HR_OK;
}

static uint32_t nccl_slowest(hri_net_wire_state *state) {
    nccl_end *const s = state;
    return s->star.ops ? s->star.ops->slowest(s->star.state) : 0;
}

static const char *nccl_member(hri_net_wire_state *state, uint32_t rank) {
    nccl_end *const s = state;
    return s->star.ops ? s->star.ops->member(s->star.state, rank) : "rank 0";
}

static uint64_t nccl_waited(hri_net_wire_state *state, uint32_t rank) {
    const nccl_end *const s = state;
    return rank == s->rank ? 0 : s->waited_ns;
}

/* ---- ends ---- */

static bool end_comm(nccl_end *s) {
    hri_net_end end;
    int pushed;
    if (!s->comm) {
        return !s->stuck;
    }
    bool gone = false;
    if (!nccl_cause(s, &end) && hri_gpu_enter(s->gpu, &pushed) == HR_OK) {
        const uint64_t within_ns = LAST_S * UINT64_C(1000000000);
        gone = settle(s, "ncclCommFinalize", s->nccl.finalize(s->comm), within_ns) == HR_OK;
        gone = gone && s->nccl.destroy(s->comm) == HRI_NCCL_OK;
        hri_gpu_leave(s->gpu, pushed);
    }
    return gone || abort_in_time(s);
}

static void nccl_close(hri_net_wire_state *state) {
    nccl_end *const s = state;
    const bool gone = end_comm(s);
    hr_event_destroy(s->begun);
    hr_event_destroy(s->over);
    if (s->star.ops) {
        s->star.ops->close(s->star.state);
    }
    if (gone) { /* else its code still runs */
        hri_nccl_unload(&s->nccl);
    }
    hri_free(s);
}

static const hri_net_wire_ops nccl_ops = {
    .name = "nccl",
    .device_memory = true,
    .exchange = nccl_exchange,
    .wait = nccl_wait,
    .share = nccl_share,
    .stop = nccl_stop,
    .cause = nccl_cause,
    .slowest = nccl_slowest,
    .member = nccl_member,
    .waited_ns = nccl_waited,
    .close = nccl_close,
};

/* ---- opening ---- */

/* All of one version; all learn who lacks it, and why. */
static hr_status compare(const nccl_end *s, const hello *all, hri_prose *why) {
    for (uint32_t i = 0; i < s->size; i++) {
        char first[32], other[32];
        hri_nccl_version_text(all[0].version, first, sizeof first);
        hri_nccl_version_text(all[i].version, other, sizeof other);
        if (!all[i].version) {
            return hri_prose_set(why, HR_E_UNSUPPORTED, "rank %u cannot use NCCL: %.*s", i,
                                 (int)sizeof all[i].is.missing - 1, all[i].is.missing);
        }
        if (all[i].version != all[0].version) {
            return hri_prose_set(why, HR_E_UNSUPPORTED,
                                 "rank 0 has NCCL %s, rank %u has %s: all need the same", first, i,
                                 other);
        }
    }
    return HR_OK;
}

/* Two ranks on one GPU.  NCCL itself says it of a device number and only after a while. */
static hr_status compare_places(const nccl_end *s, const hello *all, hri_prose *why) {
    static const unsigned char unknown[16];
    for (uint32_t i = 1; i < s->size; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (memcmp(all[i].uuid, all[k].uuid, 16) || !memcmp(all[i].uuid, unknown, 16) ||
                (all[i].several && all[k].several)) {
                continue;
            }
            char version[32];
            hri_nccl_version_text(all[0].version, version, sizeof version);
            return hri_prose_set(
                why, HR_E_UNSUPPORTED,
                "ranks %u and %u are on the same GPU, which NCCL %s does not allow%s: give each "
                "rank its own GPU (--devices cuda:0,cuda:1), or drop --net for replicas on one GPU",
                k, i, version,
                all[0].version >= HRI_NCCL_SEVERAL ? " without NCCL_MULTI_RANK_GPU_ENABLE=1" : "");
        }
    }
    return HR_OK;
}

/* From 2.30 on by its variable; before, ranks that call themselves different hosts are not compared. */
static bool may_share_gpu(int version) {
    const char *on = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    return getenv("NCCL_HOSTID") || (version >= HRI_NCCL_SEVERAL && on && strcmp(on, "0") != 0);
}

static hr_status meet(nccl_end *s, hello *all, hri_prose *why) {
    hri_prose missing = {""};
    hello mine = {0};
    if (hri_nccl_load(&s->nccl, &missing) == HR_OK &&
        (s->rank || s->nccl.get_id(&mine.is.id) == HRI_NCCL_OK)) {
        mine.version = s->nccl.version;
        mine.several = may_share_gpu(s->nccl.version);
        if (!hri_device_uuid(hri_gpu_device(s->gpu), mine.uuid)) {
            memset(mine.uuid, 0, sizeof mine.uuid);
        }
    } else {
        snprintf(mine.is.missing, sizeof mine.is.missing, "%s",
                 missing.text[0] ? missing.text : "it gives no id");
    }
    const hr_status status = nccl_share(s, &mine, sizeof mine, all);
    if (status != HR_OK) {
        hri_net_end end = {.text = ""};
        return hri_prose_set(why, status, "the ranks could not agree on NCCL: %s",
                             nccl_cause(s, &end) ? end.text : hr_status_text(status));
    }
    const hr_status same = compare(s, all, why);
    return same == HR_OK ? compare_places(s, all, why) : same;
}

static hr_status init_comm(nccl_end *s, const hri_nccl_id *id, hri_prose *why) {
    hri_nccl_config config = HRI_NCCL_CONFIG;
    hri_net_end end = {.text = ""};
    int pushed;
    config.max_ctas =
        CTAS; /* each takes memory for every peer; sends have a variable of their own */
    char channels[16];
    snprintf(channels, sizeof channels, "%u", hri_nccl_channels());
    if (setenv(HRI_NCCL_CHANNELS, channels, 1) != 0) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "NCCL: out of memory");
    }
    hr_status status = hri_gpu_enter(s->gpu, &pushed);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "NCCL: %s", hr_status_text(status));
    }
    const int result = s->nccl.init(&s->comm, (int)s->size, *id, (int)s->rank, &config);
    status = settle(s, "ncclCommInitRankConfig", result, s->meet_ns);
    hri_gpu_leave(s->gpu, pushed);
    if (status != HR_OK) {
        (void)nccl_cause(s, &end);
        return hri_prose_set(why, status, "%s", end.text[0] ? end.text : "NCCL did not start");
    }
    return HR_OK;
}

hr_status hri_net_nccl_open(const hri_net_options *o, hri_net_wire_end *out, hri_prose *why) {
    if (!o->gpu || !o->queue) {
        return hri_prose_set(why, HR_E_UNSUPPORTED,
                             "nccl is for GPUs; without one use shm, tcp or mpi");
    }
    nccl_end *s = hri_calloc(1, sizeof *s);
    const uint32_t size = o->who.size ? o->who.size : 1;
    hello *all = hri_calloc(size, sizeof *all);
    hr_status status = s && all ? HR_OK : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        *s = (nccl_end){.gpu = o->gpu, .queue = o->queue, .rank = o->who.rank, .size = size};
        s->deadline_ns =
            o->deadline_ns ? o->deadline_ns : HRI_NET_DEADLINE_S * UINT64_C(1000000000);
        s->meet_ns = o->meet_ns ? o->meet_ns : HRI_NET_MEET_TIMES * s->deadline_ns;
        status = size > 1 ? hri_net_mesh_open(o, "tcp", &s->star, why) : HR_OK;
    }
    status = status == HR_OK ? hr_event_create(hri_gpu_device(s->gpu), &s->begun) : status;
    status = status == HR_OK ? hr_event_create(hri_gpu_device(s->gpu), &s->over) : status;
    status = status == HR_OK ? meet(s, all, why) : status;
    status = status == HR_OK ? init_comm(s, &all[0].is.id, why) : status;
    hri_free(all);
    if (status != HR_OK) {
        if (s) {
            hri_net_end none = {.rank = (int32_t)s->rank, .status = status};
            snprintf(none.text, sizeof none.text, "rank %u: %.230s", s->rank,
                     why && why->text[0] ? why->text : hr_status_text(status));
            nccl_stop(s, &none);
            nccl_close(s);
        }
        return status;
    }
    *out = (hri_net_wire_end){.ops = &nccl_ops, .state = s};
    return HR_OK;
}
