/* The book, its pools, what is listed and asked; see budget.h.  lease.c has the leases. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/grow.h"
#include "memory/book.h"

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
        hri_book_pool *next = book->pools->next;
        hri_free(book->pools);
        book->pools = next;
    }
    pthread_cond_destroy(&book->moved);
    pthread_mutex_destroy(&book->mutex);
    hri_free(book);
    return HR_OK;
}

/* ---- pools ---- */

hri_book_pool *hri_book_find(const hri_book *book, const char *name) {
    hri_book_pool *p = book->pools;
    while (p && strcmp(p->name, name) != 0) {
        p = p->next;
    }
    return p;
}

hr_status hri_book_add_pool(hri_book *book, const char *name, const char *outer,
                            uint64_t limit_bytes) {
    if (!*name || strlen(name) >= HRI_BOOK_NAME) {
        return HR_E_INVALID;
    }
    hr_status status = HR_OK;
    hri_book_pool *p = hri_calloc(1, sizeof *p);
    if (!p) {
        return HR_E_NOMEM_HOST;
    }
    pthread_mutex_lock(&book->mutex);
    p->outer = outer ? hri_book_find(book, outer) : NULL;
    if (outer && !p->outer) {
        status = HR_E_NOT_FOUND;
    } else if (!hri_book_find(book, name)) {
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
    const int has = hri_book_find(book, name) != NULL;
    pthread_mutex_unlock(&book->mutex);
    return has;
}

uint64_t hri_book_free(const hri_book_pool *p) {
    uint64_t left = HR_UNKNOWN;
    for (; p; p = p->outer) {
        const uint64_t own =
            p->limit_bytes > p->granted_bytes ? p->limit_bytes - p->granted_bytes : 0;
        left = own < left ? own : left;
    }
    return left;
}

/* The tightest limit on a single lease. */
uint64_t hri_book_limit(const hri_book_pool *p) {
    uint64_t limit = HR_UNKNOWN;
    for (; p; p = p->outer) {
        limit = p->limit_bytes < limit ? p->limit_bytes : limit;
    }
    return limit;
}

void hri_book_add_granted(hri_book_pool *p, uint64_t more, uint64_t less) {
    for (; p; p = p->outer) {
        p->granted_bytes += more - less;
    }
}

void hri_book_add_held(hri_book_pool *p, uint64_t more, uint64_t less) {
    for (; p; p = p->outer) {
        p->held_bytes += more - less;
        p->peak_bytes = p->held_bytes > p->peak_bytes ? p->held_bytes : p->peak_bytes;
    }
}

int hri_book_lies_in(const hri_book_pool *p, const hri_book_pool *outer) {
    while (p && p != outer) {
        p = p->outer;
    }
    return p != NULL;
}

/* What a lease could give when it is asked; 0: it was asked already, or is at its minimum. */
static uint64_t could_give(const hr_lease *l, const hri_book_pool *p, int at_once) {
    const int can = !l->since_ns && hri_book_lies_in(l->pool, p) && l->asked_bytes == HR_UNKNOWN &&
                    l->granted_bytes > l->least_bytes && (l->on_shrink || !at_once);
    return can ? l->granted_bytes - l->least_bytes : 0;
}

void hri_book_ask_for(hri_book *book, const hri_book_pool *p, uint64_t bytes, int at_once,
                      int all) {
    uint64_t sum = 0;
    for (const hr_lease *l = book->first; l; l = l->next) { /* what is asked for already counts */
        if (!l->since_ns && hri_book_lies_in(l->pool, p) && l->asked_bytes < l->granted_bytes) {
            const uint64_t coming = l->granted_bytes - l->asked_bytes;
            bytes = bytes > coming ? bytes - coming : 0;
        }
        sum += could_give(l, p, at_once);
    }
    while (bytes && (!all || sum >= bytes)) {
        hr_lease *most = NULL;
        for (hr_lease *l = book->first; l; l = l->next) {
            if (could_give(l, p, at_once) > (most ? could_give(most, p, at_once) : 0)) {
                most = l;
            }
        }
        if (!most) {
            return;
        }
        const uint64_t can = could_give(most, p, at_once), give = can < bytes ? can : bytes;
        __atomic_store_n(&most->asked_bytes, most->granted_bytes - give, __ATOMIC_RELAXED);
        most->told = 0;
        bytes -= give;
        sum -= can;
    }
}

void hri_book_tell(hri_book *book) {
    for (hr_lease *l = book->first; l;) {
        if (!l->on_shrink || l->told || l->calling || l->asked_bytes == HR_UNKNOWN) {
            l = l->next;
            continue;
        }
        const uint64_t bytes = l->asked_bytes;
        l->told = l->calling = 1; /* it cannot be released now */
        pthread_mutex_unlock(&book->mutex);
        l->on_shrink(l->shrink_user, l, bytes);
        pthread_mutex_lock(&book->mutex);
        l->calling = 0;
        pthread_cond_broadcast(&book->moved);
        l = book->first; /* the list may be another by now */
    }
}

hr_status hri_book_set_limit(hri_book *book, const char *name, uint64_t limit_bytes) {
    hr_status status = HR_E_NOT_FOUND;
    pthread_mutex_lock(&book->mutex);
    hri_book_pool *p = hri_book_find(book, name);
    if (p) {
        p->limit_bytes = limit_bytes;
        if (p->granted_bytes > limit_bytes) {
            hri_book_ask_for(book, p, p->granted_bytes - limit_bytes, 0, 0);
            hri_book_tell(book);
        }
        status = p->granted_bytes > p->limit_bytes ? HR_E_AGAIN : HR_OK;
        pthread_cond_broadcast(&book->moved);
    }
    pthread_mutex_unlock(&book->mutex);
    return status;
}

hr_status hri_book_get_pool(hri_book *book, size_t index, hr_pool_info *out) {
    pthread_mutex_lock(&book->mutex);
    const hri_book_pool *p = book->pools;
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
                             .free_bytes = hri_book_free(p)};
        for (const hr_lease *l = book->first; l; l = l->next) {
            info.lease_count += hri_book_lies_in(l->pool, p) && !l->since_ns;
            info.waiting_count += hri_book_lies_in(l->pool, p) && l->since_ns;
        }
        status = hri_give(out, &info, sizeof info);
    }
    pthread_mutex_unlock(&book->mutex);
    return status;
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
    const hri_book_pool *p = hri_book_find(book, name);
    hr_status status = p ? HR_E_EOF : HR_E_NOT_FOUND;
    for (int waiting = 0; waiting < 2 && p; waiting++) {
        for (const hr_lease *l = book->first; l && status == HR_E_EOF; l = l->next) {
            if ((l->since_ns != 0) == waiting && hri_book_lies_in(l->pool, p) && index-- == 0) {
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
    const hri_book_pool *p = hri_book_find(book, pool_name);
    for (hr_lease *l = book->first; p && l && status != HR_OK; l = l->next) {
        if (!l->since_ns && hri_book_lies_in(l->pool, p) && !strcmp(l->name, name)) {
            status = HR_OK;
            if (bytes < l->granted_bytes) {
                __atomic_store_n(&l->asked_bytes, bytes, __ATOMIC_RELAXED);
                l->told = 0;
            }
        }
    }
    hri_book_tell(book);
    pthread_mutex_unlock(&book->mutex);
    return status;
}

hr_status hri_book_check(hri_book *book) {
    hr_status status = HR_OK;
    pthread_mutex_lock(&book->mutex);
    for (const hri_book_pool *p = book->pools; p; p = p->next) {
        uint64_t granted = 0, held = 0;
        int asked = 0;
        for (const hr_lease *l = book->first; l; l = l->next) {
            granted += hri_book_lies_in(l->pool, p) ? l->granted_bytes : 0;
            held += hri_book_lies_in(l->pool, p) ? l->held_bytes : 0;
            asked |= hri_book_lies_in(l->pool, p) && l->granted_bytes >= l->least_bytes;
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
