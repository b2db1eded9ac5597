/* Members of one process: the reader copies straight from the sender's range, so the wire takes no memory.
 *
 * Each member has a table of what it gives, one exchange at a time: `posted` counts those it has begun, `done[i]` those that
 * reader i has taken.  A member begins the next one when all have taken the last, and copies in its own wait: two copies
 * never share a byte, since a reader writes into its own ranges only.  One mutex and one condition serve the group;
 * copying happens outside the mutex.  So beginning an exchange waits for the end of the one before it. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "net/wire.h"

typedef struct shared_group shared_group;

typedef struct thread_end {
    shared_group *group;
    uint32_t rank;
    uint64_t posted, taken; /* exchanges begun, and finished as a reader */
    uint32_t readers_left;  /* of exchange `posted`: who has not yet taken from us */
    uint32_t copying; /* readers that copy from our ranges now: we may not return to their owner */
    hri_net_range *to, *from; /* of exchange `posted` */
    uint64_t shares;          /* begun */
    unsigned char small[HRI_NET_SMALL_BYTES];
    uint32_t small_bytes, small_left;
    uint64_t *waited_ns;
    char name[32];
    bool closed;
} thread_end;

struct shared_group {
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    uint32_t count, open;
    bool ended;
    hri_net_end end;
    hri_net_copy_fn *copy;
    void *copy_user;
    thread_end *members;
};

static void group_destroy(shared_group *g) {
    for (uint32_t i = 0; g->members && i < g->count; i++) {
        hri_free(g->members[i].to);
        hri_free(g->members[i].from);
        hri_free(g->members[i].waited_ns);
    }
    hri_free(g->members);
    pthread_cond_destroy(&g->moved);
    pthread_mutex_destroy(&g->mutex);
    hri_free(g);
}

/* With the mutex held.  HR_E_AGAIN: the time is over. */
static hr_status sleep_until(shared_group *g, uint64_t until_ns) {
    if (until_ns == UINT64_MAX) {
        pthread_cond_wait(&g->moved, &g->mutex);
        return HR_OK;
    }
    const struct timespec t = {.tv_sec = (time_t)(until_ns / 1000000000u),
                               .tv_nsec = (long)(until_ns % 1000000000u)};
    return pthread_cond_timedwait(&g->moved, &g->mutex, &t) == ETIMEDOUT ? HR_E_AGAIN : HR_OK;
}

static void end_locked(shared_group *g, const hri_net_end *end) {
    if (!g->ended) {
        g->ended = true;
        g->end = *end;
    }
    pthread_cond_broadcast(&g->moved);
}

static hr_status left(shared_group *g, const thread_end *peer) {
    hri_net_end end = {.rank = (int32_t)peer->rank, .status = HR_E_PEER};
    snprintf(end.text, sizeof end.text, "%s has left the run", peer->name);
    end_locked(g, &end);
    return HR_E_PEER;
}

static hr_status copy_from(thread_end *s, thread_end *peer) {
    shared_group *g = s->group;
    const hri_net_range give = peer->to[s->rank], take = s->from[peer->rank];
    if (give.bytes != take.bytes) {
        hri_net_end end = {.rank = (int32_t)peer->rank, .status = HR_E_SHAPE};
        snprintf(end.text, sizeof end.text,
                 "%s sends %llu bytes where %s expects %llu in exchange %llu", peer->name,
                 (unsigned long long)give.bytes, s->name, (unsigned long long)take.bytes,
                 (unsigned long long)s->posted);
        end_locked(g, &end);
        return HR_E_PEER;
    }
    if (give.bytes == 0 || give.at == take.at) {
        return HR_OK;
    }
    hr_status status = HRI_FAULT(RECEIVE) ? HR_E_IO : HR_OK;
    peer->copying++;
    pthread_mutex_unlock(&g->mutex);
    if (status != HR_OK) {
        /* as if the copy had failed */
    } else if (g->copy) {
        status = g->copy(g->copy_user, s->rank, take.at, peer->rank, give.at, give.bytes);
    } else {
        memcpy(take.at, give.at, give.bytes);
    }
    pthread_mutex_lock(&g->mutex);
    peer->copying--;
    if (status != HR_OK) {
        hri_net_end end = {.rank = (int32_t)s->rank, .status = status};
        snprintf(end.text, sizeof end.text, "%s: copying from %s failed", s->name, peer->name);
        end_locked(g, &end);
        status = HR_E_PEER;
    }
    if (g->ended) {
        pthread_cond_broadcast(&g->moved);
    }
    return status;
}

/* Takes what each peer gives in exchange `posted`, then waits until all have taken ours.  Mutex held. */
static hr_status finish(thread_end *s, uint64_t until_ns) {
    shared_group *g = s->group;
    hr_status status = HR_OK;
    while (s->taken < s->posted * g->count && status == HR_OK) {
        thread_end *peer = &g->members[(s->rank + s->taken) % g->count];
        const uint64_t begun = hri_clock_ns();
        while (peer->posted < s->posted && !g->ended && status == HR_OK) {
            status = peer->closed ? left(g, peer) : sleep_until(g, until_ns);
        }
        s->waited_ns[peer->rank] += hri_clock_ns() - begun;
        status = g->ended ? HR_E_PEER : status;
        status = status == HR_OK ? copy_from(s, peer) : status;
        if (status == HR_OK) {
            s->taken++;
            peer->readers_left--;
            pthread_cond_broadcast(&g->moved);
        }
    }
    while (status == HR_OK && s->readers_left) {
        status = g->ended ? HR_E_PEER : sleep_until(g, until_ns);
    }
    while (status != HR_E_AGAIN && s->copying) {
        pthread_cond_wait(&g->moved, &g->mutex);
    }
    return status;
}

static hr_status threads_wait(hri_net_wire_state *state, uint64_t ticket, uint64_t timeout_ns) {
    thread_end *const s = state;
    shared_group *g = s->group;
    const uint64_t now = hri_clock_ns();
    pthread_mutex_lock(&g->mutex);
    hr_status status = HR_OK;
    if (g->ended || ticket == s->posted) {
        status = finish(s, timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns);
        status = g->ended ? HR_E_PEER : status;
    }
    pthread_mutex_unlock(&g->mutex);
    return status;
}

static hr_status threads_exchange(hri_net_wire_state *state, const hri_net_range *to,
                                  const hri_net_range *from, uint64_t ticket) {
    thread_end *const s = state;
    shared_group *g = s->group;
    pthread_mutex_lock(&g->mutex);
    hr_status status = finish(s, UINT64_MAX); /* the one before it */
    if (status == HR_OK) {
        memcpy(s->to, to, g->count * sizeof *to);
        memcpy(s->from, from, g->count * sizeof *from);
        if (to[s->rank].bytes == 0 || from[s->rank].bytes == 0) {
            s->to[s->rank] = s->from[s->rank] = (hri_net_range){0};
        }
        s->posted = ticket;
        s->readers_left = g->count;
        pthread_cond_broadcast(&g->moved);
    }
    pthread_mutex_unlock(&g->mutex);
    return status;
}

/* With the mutex held: waits until nobody needs what `s` shared last. */
static hr_status small_free(thread_end *s) {
    hr_status status = HR_OK;
    while (status == HR_OK && s->small_left) {
        status = s->group->ended ? HR_E_PEER : sleep_until(s->group, UINT64_MAX);
    }
    return status;
}

static hr_status threads_share(hri_net_wire_state *state, const void *mine, uint32_t bytes,
                               void *all) {
    thread_end *const s = state;
    shared_group *g = s->group;
    pthread_mutex_lock(&g->mutex);
    hr_status status = small_free(s);
    if (status == HR_OK) {
        memcpy(s->small, mine, bytes);
        s->small_bytes = bytes;
        s->small_left = g->count;
        s->shares++;
        pthread_cond_broadcast(&g->moved);
    }
    for (uint32_t i = 0; i < g->count && status == HR_OK; i++) {
        thread_end *peer = &g->members[i];
        while (peer->shares < s->shares && !g->ended && status == HR_OK) {
            status = peer->closed ? left(g, peer) : sleep_until(g, UINT64_MAX);
        }
        status = g->ended ? HR_E_PEER : status;
        if (status == HR_OK && peer->small_bytes != bytes) {
            hri_net_end end = {.rank = (int32_t)i, .status = HR_E_SHAPE};
            snprintf(end.text, sizeof end.text, "%s shares %u bytes, %s %u", peer->name,
                     peer->small_bytes, s->name, bytes);
            end_locked(g, &end);
            status = HR_E_PEER;
        }
        if (status == HR_OK) {
            memcpy((unsigned char *)all + (size_t)i * bytes, peer->small, bytes);
            peer->small_left--;
            pthread_cond_broadcast(&g->moved);
        }
    }
    pthread_mutex_unlock(&g->mutex);
    return status;
}

static void threads_stop(hri_net_wire_state *state, const hri_net_end *end) {
    thread_end *const s = state;
    pthread_mutex_lock(&s->group->mutex);
    end_locked(s->group, end);
    pthread_mutex_unlock(&s->group->mutex);
}

static bool threads_cause(hri_net_wire_state *state, hri_net_end *out) {
    thread_end *const s = state;
    pthread_mutex_lock(&s->group->mutex);
    const bool ended = s->group->ended;
    if (ended) {
        *out = s->group->end;
    }
    pthread_mutex_unlock(&s->group->mutex);
    return ended;
}

static uint32_t threads_slowest(hri_net_wire_state *state) {
    thread_end *const s = state;
    shared_group *g = s->group;
    uint32_t slowest = 0;
    pthread_mutex_lock(&g->mutex);
    for (uint32_t i = 1; i < g->count; i++) {
        slowest = g->members[i].posted < g->members[slowest].posted ? i : slowest;
    }
    pthread_mutex_unlock(&g->mutex);
    return slowest;
}

static const char *threads_member(hri_net_wire_state *state, uint32_t rank) {
    thread_end *const s = state;
    return s->group->members[rank].name;
}

static uint64_t threads_waited(hri_net_wire_state *state, uint32_t rank) {
    thread_end *const s = state;
    return rank == s->rank ? 0 : s->waited_ns[rank];
}

static void threads_close(hri_net_wire_state *state) {
    thread_end *const s = state;
    shared_group *g = s->group;
    pthread_mutex_lock(&g->mutex);
    (void)!finish(s, UINT64_MAX); /* others still copy from our ranges */
    (void)!small_free(s);
    s->closed = true;
    const bool last = --g->open == 0;
    pthread_cond_broadcast(&g->moved);
    pthread_mutex_unlock(&g->mutex);
    if (last) {
        group_destroy(g);
    }
}

static const hri_net_wire_ops threads_ops = {
    .name = "threads",
    .exchange = threads_exchange,
    .wait = threads_wait,
    .share = threads_share,
    .stop = threads_stop,
    .cause = threads_cause,
    .slowest = threads_slowest,
    .member = threads_member,
    .waited_ns = threads_waited,
    .close = threads_close,
};

hr_status hri_net_threads_open(const hri_net_options *o, uint32_t count, hri_net_wire_end *out,
                               hri_prose *why) {
    shared_group *g = hri_calloc(1, sizeof *g);
    if (!g) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for %u replicas", count);
    }
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&g->mutex, NULL);
    pthread_cond_init(&g->moved, &clock);
    pthread_condattr_destroy(&clock);
    g->count = g->open = count;
    g->copy = o->copy;
    g->copy_user = o->copy_user;
    g->members = hri_calloc(count, sizeof *g->members);
    bool good = g->members != NULL;
    for (uint32_t i = 0; good && i < count; i++) {
        thread_end *s = &g->members[i];
        s->group = g;
        s->rank = i;
        s->to = hri_calloc(count, sizeof *s->to);
        s->from = hri_calloc(count, sizeof *s->from);
        s->waited_ns = hri_calloc(count, sizeof *s->waited_ns);
        snprintf(s->name, sizeof s->name, "rank %u", i);
        good = s->to && s->from && s->waited_ns;
    }
    if (!good) {
        group_destroy(g);
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for %u replicas", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        out[i] = (hri_net_wire_end){.ops = &threads_ops, .state = &g->members[i]};
    }
    return HR_OK;
}
