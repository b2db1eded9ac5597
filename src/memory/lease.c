/* Leases and the queue of waiting requests; see budget.h. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <headroom/bytes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/grow.h"
#include "memory/book.h"

enum { TICK_MS = 100 };

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
static int must_queue(const hri_book *book, const hri_book_pool *p, const hr_lease *mine) {
    for (const hr_lease *l = book->first; l && l != mine; l = l->next) {
        if (l->since_ns && (hri_book_lies_in(l->pool, p) || hri_book_lies_in(p, l->pool))) {
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
                      .limit_bytes = hri_book_limit(mine->pool),
                      .held_bytes = mine->pool->held_bytes,
                      .free_bytes = hri_book_free(mine->pool),
                      .device_free_bytes = HR_UNKNOWN};
    int used = snprintf(why->message, sizeof why->message,
                        "%s: %s of %s requested, %s free of a limit "
                        "of %s",
                        mine->name, hr_bytes_print(wanted, want, sizeof want), mine->pool->name,
                        hr_bytes_print(why->free_bytes, left, sizeof left),
                        hr_bytes_print(why->limit_bytes, limit, sizeof limit));
    for (const hr_lease *l = book->first; l; l = l->next) {
        if (l == mine || l->since_ns || !hri_book_lies_in(l->pool, mine->pool) ||
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

static int may_have(const hri_book *book, const hr_lease *l) {
    return !must_queue(book, l->pool, l) && hri_book_free(l->pool) >= l->least_bytes;
}

/* Others shrink for it, where that is enough.  Lets the lock go meanwhile. */
static void ask_others(hri_book *book, const hr_lease *l, int at_once) {
    for (const hri_book_pool *p = l->pool; p && !must_queue(book, l->pool, l); p = p->outer) {
        const uint64_t left =
            p->limit_bytes > p->granted_bytes ? p->limit_bytes - p->granted_bytes : 0;
        if (left < l->least_bytes) {
            hri_book_ask_for(book, p, l->least_bytes - left, at_once, 1);
        }
    }
    hri_book_tell(book);
}

/* Waits until it is our turn and there is enough, or the time is over.  Called and left with the lock held. */
static hr_status wait_for(hri_book *book, hr_lease *l, const hr_lease_options *o) {
    const uint64_t start = hri_clock_ns(), most_ns = o->wait_ms * 1000000;
    uint64_t next_tick = start;
    l->since_ns = start ? start : 1;
    for (;;) {
        if (l->least_bytes > hri_book_limit(l->pool)) {
            return HR_E_LIMIT; /* the limit may have been lowered meanwhile */
        }
        if (may_have(book, l)) {
            return HR_OK;
        }
        ask_others(book, l, !o->wait_ms);
        if (may_have(book, l)) {
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
    if (status == HR_OK && (!o.name || !*o.name || strlen(o.name) >= HRI_BOOK_NAME ||
                            !o.wanted_bytes || least > o.wanted_bytes)) {
        status = HR_E_INVALID;
    }
    hr_lease *l = status == HR_OK ? hri_calloc(1, sizeof *l) : NULL;
    if (!l) {
        return status == HR_OK ? HR_E_NOMEM_HOST : status;
    }
    pthread_mutex_lock(&book->mutex);
    *l = (hr_lease){.book = book,
                    .pool = hri_book_find(book, o.pool ? o.pool : "host"),
                    .least_bytes = least,
                    .asked_bytes = HR_UNKNOWN,
                    .on_shrink = o.on_shrink,
                    .shrink_user = o.shrink_user};
    snprintf(l->name, sizeof l->name, "%s", o.name);
    status = l->pool ? HR_OK : HR_E_NOT_FOUND;
    if (status == HR_OK) {
        link_last(book, l);
        status = wait_for(book, l, &o);
        l->since_ns = 0;
        if (status == HR_OK) {
            const uint64_t left = hri_book_free(l->pool);
            l->granted_bytes = left < o.wanted_bytes ? left : o.wanted_bytes;
            hri_book_add_granted(l->pool, l->granted_bytes, 0);
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
    } else if (more && bytes > hri_book_limit(l->pool)) {
        status = HR_E_LIMIT;
    } else if (more && (more > hri_book_free(l->pool) || must_queue(book, l->pool, NULL))) {
        status = HR_E_AGAIN;
    } else {
        hri_book_add_granted(l->pool, bytes, l->granted_bytes);
        l->granted_bytes = bytes;
        l->least_bytes = bytes < l->least_bytes ? bytes : l->least_bytes;
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
        hri_book_add_held(l->pool, held_bytes, l->held_bytes);
        l->held_bytes = held_bytes;
    }
    pthread_mutex_unlock(&book->mutex);
    return status;
}

static void drop(hri_book *book, hr_lease *l) {
    hri_book_add_held(l->pool, 0, l->held_bytes);
    hri_book_add_granted(l->pool, 0, l->granted_bytes);
    unlink_lease(book, l);
    pthread_cond_broadcast(&book->moved);
}

void hr_lease_release(hr_lease *l) {
    if (!l) {
        return;
    }
    hri_book *book = l->book;
    pthread_mutex_lock(&book->mutex);
    while (l->calling) {
        pthread_cond_wait(&book->moved, &book->mutex);
    }
    drop(book, l);
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
    l->least_bytes = least_bytes < l->granted_bytes ? least_bytes : l->granted_bytes;
    __atomic_store_n(&l->asked_bytes, HR_UNKNOWN, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&l->book->mutex);
}

/* ---- the runtime ---- */

void hri_lease_set_solid(hr_lease *l) {
    pthread_mutex_lock(&l->book->mutex);
    l->solid = 1;
    pthread_mutex_unlock(&l->book->mutex);
}

/* What nobody's lease covers yet of what the process has. */
static uint64_t uncovered(const hri_book *book, const hri_book_pool *p, uint64_t process_bytes) {
    uint64_t solid = 0;
    for (const hr_lease *l = book->first; l; l = l->next) {
        solid += hri_book_lies_in(l->pool, p) && (l->solid || l == p->runtime) ? l->held_bytes : 0;
    }
    return process_bytes > solid ? process_bytes - solid : 0;
}

uint64_t hri_book_runtime(hri_book *book, const char *pool) {
    pthread_mutex_lock(&book->mutex);
    const hri_book_pool *p = hri_book_find(book, pool);
    const uint64_t bytes = p && p->runtime ? p->runtime->granted_bytes : 0;
    pthread_mutex_unlock(&book->mutex);
    return bytes;
}

uint64_t hri_book_uncovered(hri_book *book, const char *pool, uint64_t process_bytes) {
    pthread_mutex_lock(&book->mutex);
    const hri_book_pool *p = hri_book_find(book, pool);
    const uint64_t bytes = p ? uncovered(book, p, process_bytes) : process_bytes;
    pthread_mutex_unlock(&book->mutex);
    return bytes;
}

static void grow_runtime(hri_book_pool *p, uint64_t bytes) {
    hri_book_add_granted(p, bytes, 0);
    hri_book_add_held(p, bytes, 0);
    p->runtime->granted_bytes += bytes;
    p->runtime->held_bytes = p->runtime->least_bytes = p->runtime->granted_bytes;
}

hr_status hri_book_enter(hri_book *book, const char *pool, uint64_t process_bytes, hr_error *why) {
    hr_status status = HR_OK;
    hr_lease *fresh = hri_calloc(1, sizeof *fresh), *l = fresh;
    if (!fresh) {
        return HR_E_NOMEM_HOST;
    }
    pthread_mutex_lock(&book->mutex);
    hri_book_pool *p = hri_book_find(book, pool);
    *fresh = (hr_lease){.book = book, .pool = p, .asked_bytes = HR_UNKNOWN};
    snprintf(fresh->name, sizeof fresh->name, "runtime");
    const uint64_t more = p ? uncovered(book, p, process_bytes) : 0;
    if (!p) {
        status = HR_E_NOT_FOUND;
    } else if (more > hri_book_free(p)) {
        l = p->runtime ? p->runtime : fresh;
        status = l->granted_bytes + more > hri_book_limit(p) ? HR_E_LIMIT : HR_E_AGAIN;
        explain(book, l, more, status, why);
    } else {
        if (!p->runtime) {
            p->runtime = fresh;
            link_last(book, fresh);
            fresh = NULL;
        }
        grow_runtime(p, more);
        p->entered++;
    }
    pthread_mutex_unlock(&book->mutex);
    hri_free(fresh);
    return status;
}

void hri_book_leave(hri_book *book, const char *pool) {
    hr_lease *gone = NULL;
    pthread_mutex_lock(&book->mutex);
    hri_book_pool *p = hri_book_find(book, pool);
    if (p && p->entered && --p->entered == 0) {
        gone = p->runtime;
        p->runtime = NULL;
        drop(book, gone);
    }
    pthread_mutex_unlock(&book->mutex);
    hri_free(gone);
}
