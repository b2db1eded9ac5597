/* Pools, leases and the queue of waiting requests; see budget.h. */
#include "memory/budget.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <headroom/bytes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/grow.h"

enum { NAME_MAX_BYTES = 48, TICK_MS = 100 };

typedef struct pool {
    char name[NAME_MAX_BYTES];
    struct pool *outer, *next;
    uint64_t limit_bytes, granted_bytes, held_bytes, peak_bytes; /* inner pools included */
} pool;

struct hr_lease {
    hri_book *book;
    pool *pool;
    hr_lease *prev, *next; /* of all leases, oldest first */
    char name[NAME_MAX_BYTES];
    uint64_t granted_bytes, held_bytes, least_bytes;
    uint64_t asked_bytes; /* HR_UNKNOWN: not asked */
    uint64_t since_ns;    /* > 0: it waits since then, and has nothing yet */
};

struct hri_book {
    pthread_mutex_t mutex;
    pthread_cond_t moved; /* something was given back, a limit rose, the queue moved on */
    pool *pools, *last_pool;
    hr_lease *first, *last; /* granted ones and, behind them in the order of asking, waiting ones */
};

hr_status hri_book_create(hri_book **out) {
    hri_book *book = hri_calloc(1, sizeof *book);
    if (!book) {
        return HR_E_NOMEM_HOST;
    }
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&book->mutex, NULL);
    pthread_cond_init(&book->moved, &attributes);
    pthread_condattr_destroy(&attributes);
    *out = book;
    return HR_OK;
}

hr_status hri_book_destroy(hri_book *book) {
    if (!book) {
        return HR_OK;
    }
    if (book->first) {
        return HR_E_BUSY;
    }
    while (book->pools) {
        pool *next = book->pools->next;
        hri_free(book->pools);
        book->pools = next;
    }
    pthread_cond_destroy(&book->moved);
    pthread_mutex_destroy(&book->mutex);
    hri_free(book);
    return HR_OK;
}

/* ---- pools ---- */

static pool *find_pool(const hri_book *book, const char *name) {
    pool *p = book->pools;
    while (p && strcmp(p->name, name) != 0) {
        p = p->next;
    }
    return p;
}

hr_status hri_book_add_pool(hri_book *book, const char *name, const char *outer,
                            uint64_t limit_bytes) {
    if (!*name || strlen(name) >= NAME_MAX_BYTES) {
        return HR_E_INVALID;
    }
    hr_status status = HR_OK;
    pool *p = hri_calloc(1, sizeof *p);
    if (!p) {
        return HR_E_NOMEM_HOST;
    }
    pthread_mutex_lock(&book->mutex);
    p->outer = outer ? find_pool(book, outer) : NULL;
    if (outer && !p->outer) {
        status = HR_E_NOT_FOUND;
    } else if (!find_pool(book, name)) {
        snprintf(p->name, sizeof p->name, "%s", name);
        p->limit_bytes = limit_bytes;
        *(book->last_pool ? &book->last_pool->next : &book->pools) = p;
        book->last_pool = p;
        p = NULL;
    }
    pthread_mutex_unlock(&book->mutex);
    hri_free(p);
    return status;
}

int hri_book_has_pool(hri_book *book, const char *name) {
    pthread_mutex_lock(&book->mutex);
    const int has = find_pool(book, name) != NULL;
    pthread_mutex_unlock(&book->mutex);
    return has;
}

static uint64_t free_of(const pool *p) {
    uint64_t left = HR_UNKNOWN;
    for (; p; p = p->outer) {
        const uint64_t own =
            p->limit_bytes > p->granted_bytes ? p->limit_bytes - p->granted_bytes : 0;
        left = own < left ? own : left;
    }
    return left;
}

/* The tightest limit on a single lease. */
static uint64_t limit_of(const pool *p) {
    uint64_t limit = HR_UNKNOWN;
    for (; p; p = p->outer) {
        limit = p->limit_bytes < limit ? p->limit_bytes : limit;
    }
    return limit;
}

static void add_granted(pool *p, uint64_t more, uint64_t less) {
    for (; p; p = p->outer) {
        p->granted_bytes += more - less;
    }
}

static void add_held(pool *p, uint64_t more, uint64_t less) {
    for (; p; p = p->outer) {
        p->held_bytes += more - less;
        p->peak_bytes = p->held_bytes > p->peak_bytes ? p->held_bytes : p->peak_bytes;
    }
}

static int lies_in(const pool *p, const pool *outer) {
    while (p && p != outer) {
        p = p->outer;
    }
    return p != NULL;
}

/* Asks holders of the pool, the one furthest above its minimum first, until what they would give is enough. */
static void ask_for(hri_book *book, const pool *p, uint64_t bytes) {
    for (const hr_lease *l = book->first; l; l = l->next) { /* what is asked for already counts */
        if (!l->since_ns && lies_in(l->pool, p) && l->asked_bytes < l->granted_bytes) {
            const uint64_t coming = l->granted_bytes - l->asked_bytes;
            bytes = bytes > coming ? bytes - coming : 0;
        }
    }
    while (bytes) {
        hr_lease *most = NULL;
        for (hr_lease *l = book->first; l; l = l->next) {
            if (!l->since_ns && lies_in(l->pool, p) && l->asked_bytes == HR_UNKNOWN &&
                l->granted_bytes > l->least_bytes &&
                (!most ||
                 l->granted_bytes - l->least_bytes > most->granted_bytes - most->least_bytes)) {
                most = l;
            }
        }
        if (!most) {
            return;
        }
        const uint64_t can = most->granted_bytes - most->least_bytes;
        const uint64_t give = can < bytes ? can : bytes;
        __atomic_store_n(&most->asked_bytes, most->granted_bytes - give, __ATOMIC_RELAXED);
        bytes -= give;
    }
}

hr_status hri_book_set_limit(hri_book *book, const char *name, uint64_t limit_bytes) {
    hr_status status = HR_E_NOT_FOUND;
    pthread_mutex_lock(&book->mutex);
    pool *p = find_pool(book, name);
    if (p) {
        p->limit_bytes = limit_bytes;
        status = p->granted_bytes > limit_bytes ? HR_E_AGAIN : HR_OK;
        if (status == HR_E_AGAIN) {
            ask_for(book, p, p->granted_bytes - limit_bytes);
        }
        pthread_cond_broadcast(&book->moved);
    }
    pthread_mutex_unlock(&book->mutex);
    return status;
}

hr_status hri_book_get_pool(hri_book *book, size_t index, hr_pool_info *out) {
    pthread_mutex_lock(&book->mutex);
    const pool *p = book->pools;
    while (p && index--) {
        p = p->next;
    }
    hr_status status = HR_E_EOF;
    if (p) {
        hr_pool_info info = {.size = sizeof info,
                             .name = p->name,
                             .limit_bytes = p->limit_bytes,
                             .granted_bytes = p->granted_bytes,
                             .held_bytes = p->held_bytes,
                             .peak_bytes = p->peak_bytes,
                             .free_bytes = free_of(p)};
        for (const hr_lease *l = book->first; l; l = l->next) {
            info.lease_count += lies_in(l->pool, p) && !l->since_ns;
            info.waiting_count += lies_in(l->pool, p) && l->since_ns;
        }
        status = hri_give(out, &info, sizeof info);
    }
    pthread_mutex_unlock(&book->mutex);
    return status;
}

/* ---- leases ---- */

static void link_last(hri_book *book, hr_lease *l) {
    l->prev = book->last;
    *(book->last ? &book->last->next : &book->first) = l;
    book->last = l;
}

static void unlink_lease(hri_book *book, hr_lease *l) {
    *(l->prev ? &l->prev->next : &book->first) = l->next;
    *(l->next ? &l->next->prev : &book->last) = l->prev;
    l->prev = l->next = NULL;
}

/* Is a request that came before `mine` (NULL: any) waiting for memory of this pool? */
static int must_queue(const hri_book *book, const pool *p, const hr_lease *mine) {
    for (const hr_lease *l = book->first; l && l != mine; l = l->next) {
        if (l->since_ns && (lies_in(l->pool, p) || lies_in(p, l->pool))) {
            return 1;
        }
    }
    return 0;
}

static void explain(const hri_book *book, const hr_lease *mine, uint64_t wanted, hr_status status,
                    hr_error *why) {
    if (!why) {
        return;
    }
    char want[32], left[32], limit[32], holds[32];
    *why = (hr_error){.code = status,
                      .wanted_bytes = wanted,
                      .limit_bytes = limit_of(mine->pool),
                      .held_bytes = mine->pool->held_bytes,
                      .free_bytes = free_of(mine->pool),
                      .device_free_bytes = HR_UNKNOWN};
    int used = snprintf(why->message, sizeof why->message,
                        "%s: %s of %s requested, %s free of a limit "
                        "of %s",
                        mine->name, hr_bytes_print(wanted, want, sizeof want), mine->pool->name,
                        hr_bytes_print(why->free_bytes, left, sizeof left),
                        hr_bytes_print(why->limit_bytes, limit, sizeof limit));
    for (const hr_lease *l = book->first; l; l = l->next) {
        if (l == mine || l->since_ns || !lies_in(l->pool, mine->pool) ||
            why->holder_count == HR_ERROR_HOLDERS) {
            continue;
        }
        hr_holder *h = &why->holders[why->holder_count++];
        snprintf(h->owner, sizeof h->owner, "%s", l->name);
        snprintf(h->category, sizeof h->category, "%.15s", l->pool->name);
        h->bytes = l->granted_bytes;
        if (used > 0 && (size_t)used < sizeof why->message) {
            used += snprintf(why->message + used, sizeof why->message - (size_t)used, "%s%s %s",
                             why->holder_count == 1 ? "; held by " : ", ", l->name,
                             hr_bytes_print(l->granted_bytes, holds, sizeof holds));
        }
    }
}

/* Waits until it is our turn and there is enough, or the time is over.  Called and left with the lock held. */
static hr_status wait_for(hri_book *book, hr_lease *l, const hr_lease_options *o) {
    const uint64_t start = hri_clock_ns(), most_ns = o->wait_ms * 1000000;
    uint64_t next_tick = start;
    l->since_ns = start ? start : 1;
    for (;;) {
        if (l->least_bytes > limit_of(l->pool)) {
            return HR_E_LIMIT; /* the limit may have been lowered meanwhile */
        }
        if (!must_queue(book, l->pool, l) && free_of(l->pool) >= l->least_bytes) {
            return HR_OK;
        }
        const uint64_t now = hri_clock_ns(), waited = now - start;
        if (waited >= most_ns) {
            return HR_E_AGAIN;
        }
        if (o->on_wait && now >= next_tick) {
            pthread_mutex_unlock(&book->mutex);
            const hr_status status = o->on_wait(o->user, waited / 1000000);
            pthread_mutex_lock(&book->mutex);
            next_tick = now + (uint64_t)TICK_MS * 1000000;
            if (status != HR_OK) {
                return status;
            }
            continue; /* things may have moved meanwhile */
        }
        const uint64_t left = most_ns - waited, tick = (uint64_t)TICK_MS * 1000000;
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        const uint64_t nap = (uint64_t)until.tv_nsec + (left < tick ? left : tick);
        until.tv_sec += (time_t)(nap / 1000000000);
        until.tv_nsec = (long)(nap % 1000000000);
        pthread_cond_timedwait(&book->moved, &book->mutex, &until);
    }
}

hr_status hri_book_request(hri_book *book, const hr_lease_options *options, hr_lease **out,
                           hr_error *why) {
    hr_lease_options o;
    hr_status status = hri_take(&o, sizeof o, options);
    const uint64_t least = o.least_bytes ? o.least_bytes : o.wanted_bytes;
    if (status == HR_OK && (!o.name || !*o.name || strlen(o.name) >= NAME_MAX_BYTES ||
                            !o.wanted_bytes || least > o.wanted_bytes)) {
        status = HR_E_INVALID;
    }
    hr_lease *l = status == HR_OK ? hri_calloc(1, sizeof *l) : NULL;
    if (!l) {
        return status == HR_OK ? HR_E_NOMEM_HOST : status;
    }
    pthread_mutex_lock(&book->mutex);
    *l = (hr_lease){.book = book,
                    .pool = find_pool(book, o.pool ? o.pool : "host"),
                    .least_bytes = least,
                    .asked_bytes = HR_UNKNOWN};
    snprintf(l->name, sizeof l->name, "%s", o.name);
    status = l->pool ? HR_OK : HR_E_NOT_FOUND;
    if (status == HR_OK) {
        link_last(book, l);
        status = wait_for(book, l, &o);
        l->since_ns = 0;
        if (status == HR_OK) {
            const uint64_t left = free_of(l->pool);
            l->granted_bytes = left < o.wanted_bytes ? left : o.wanted_bytes;
            add_granted(l->pool, l->granted_bytes, 0);
        } else {
            explain(book, l, least, status, why);
            unlink_lease(book, l);
        }
        pthread_cond_broadcast(&book->moved); /* the next one is at the head now */
    }
    pthread_mutex_unlock(&book->mutex);
    if (status != HR_OK) {
        hri_free(l);
        return status;
    }
    *out = l;
    return HR_OK;
}

hr_status hr_lease_resize(hr_lease *l, uint64_t bytes) {
    hri_book *book = l->book;
    hr_status status = HR_OK;
    pthread_mutex_lock(&book->mutex);
    const uint64_t more = bytes > l->granted_bytes ? bytes - l->granted_bytes : 0;
    if (bytes < l->held_bytes || !bytes) {
        status = HR_E_BUSY;
    } else if (more && bytes > limit_of(l->pool)) {
        status = HR_E_LIMIT;
    } else if (more && (more > free_of(l->pool) || must_queue(book, l->pool, NULL))) {
        status = HR_E_AGAIN;
    } else {
        add_granted(l->pool, bytes, l->granted_bytes);
        l->granted_bytes = bytes;
        if (bytes <= l->asked_bytes) {
            __atomic_store_n(&l->asked_bytes, HR_UNKNOWN, __ATOMIC_RELAXED);
        }
        pthread_cond_broadcast(&book->moved);
    }
    pthread_mutex_unlock(&book->mutex);
    return status;
}

hr_status hr_lease_hold(hr_lease *l, uint64_t held_bytes) {
    hri_book *book = l->book;
    pthread_mutex_lock(&book->mutex);
    const hr_status status = held_bytes > l->granted_bytes ? HR_E_LIMIT : HR_OK;
    if (status == HR_OK) {
        add_held(l->pool, held_bytes, l->held_bytes);
        l->held_bytes = held_bytes;
    }
    pthread_mutex_unlock(&book->mutex);
    return status;
}

void hr_lease_release(hr_lease *l) {
    if (!l) {
        return;
    }
    hri_book *book = l->book;
    pthread_mutex_lock(&book->mutex);
    add_held(l->pool, 0, l->held_bytes);
    add_granted(l->pool, 0, l->granted_bytes);
    unlink_lease(book, l);
    pthread_cond_broadcast(&book->moved);
    pthread_mutex_unlock(&book->mutex);
    hri_free(l);
}

uint64_t hr_lease_granted(const hr_lease *l) {
    pthread_mutex_lock(&l->book->mutex);
    const uint64_t granted = l->granted_bytes;
    pthread_mutex_unlock(&l->book->mutex);
    return granted;
}

uint64_t hr_lease_asked(const hr_lease *l) {
    return __atomic_load_n(&l->asked_bytes, __ATOMIC_RELAXED);
}

void hr_lease_decline(hr_lease *l, uint64_t least_bytes) {
    pthread_mutex_lock(&l->book->mutex);
    l->least_bytes = least_bytes;
    __atomic_store_n(&l->asked_bytes, HR_UNKNOWN, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&l->book->mutex);
}

/* ---- looking and asking ---- */

static hr_status give_lease(const hr_lease *l, hr_lease_info *out) {
    hr_lease_info info = {.size = sizeof info,
                          .granted_bytes = l->granted_bytes,
                          .held_bytes = l->held_bytes,
                          .least_bytes = l->least_bytes,
                          .asked_bytes = l->asked_bytes};
    snprintf(info.pool, sizeof info.pool, "%s", l->pool->name);
    snprintf(info.name, sizeof info.name, "%s", l->name);
    if (l->since_ns) {
        info.waiting_ms = (hri_clock_ns() - l->since_ns) / 1000000 + 1;
    }
    return hri_give(out, &info, sizeof info);
}

hr_status hri_book_get_lease(hri_book *book, const char *name, size_t index, hr_lease_info *out) {
    pthread_mutex_lock(&book->mutex);
    const pool *p = find_pool(book, name);
    hr_status status = p ? HR_E_EOF : HR_E_NOT_FOUND;
    for (int waiting = 0; waiting < 2 && p; waiting++) {
        for (const hr_lease *l = book->first; l && status == HR_E_EOF; l = l->next) {
            if ((l->since_ns != 0) == waiting && lies_in(l->pool, p) && index-- == 0) {
                status = give_lease(l, out);
            }
        }
    }
    pthread_mutex_unlock(&book->mutex);
    return status;
}

hr_status hri_book_ask(hri_book *book, const char *pool_name, const char *name, uint64_t bytes) {
    hr_status status = HR_E_NOT_FOUND;
    pthread_mutex_lock(&book->mutex);
    const pool *p = find_pool(book, pool_name);
    for (hr_lease *l = book->first; p && l && status != HR_OK; l = l->next) {
        if (!l->since_ns && lies_in(l->pool, p) && !strcmp(l->name, name)) {
            status = HR_OK;
            if (bytes < l->granted_bytes) {
                __atomic_store_n(&l->asked_bytes, bytes, __ATOMIC_RELAXED);
            }
        }
    }
    pthread_mutex_unlock(&book->mutex);
    return status;
}

hr_status hri_book_check(hri_book *book) {
    hr_status status = HR_OK;
    pthread_mutex_lock(&book->mutex);
    for (const pool *p = book->pools; p; p = p->next) {
        uint64_t granted = 0, held = 0;
        int asked = 0;
        for (const hr_lease *l = book->first; l; l = l->next) {
            granted += lies_in(l->pool, p) ? l->granted_bytes : 0;
            held += lies_in(l->pool, p) ? l->held_bytes : 0;
            asked |= lies_in(l->pool, p) && l->granted_bytes >= l->least_bytes;
            status = l->held_bytes > l->granted_bytes || (l->since_ns && l->granted_bytes)
                         ? HR_E_INTERNAL
                         : status;
        }
        if (granted != p->granted_bytes || held != p->held_bytes || held > p->peak_bytes ||
            (granted > p->limit_bytes && !asked)) {
            status = HR_E_INTERNAL;
        }
    }
    pthread_mutex_unlock(&book->mutex);
    return status;
}
