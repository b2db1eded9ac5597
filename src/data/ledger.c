/* The ledger's arithmetic.  The head of ledger.h says why it cannot deadlock; here every function keeps the one
 * invariant, held + unfilled <= budget, and nothing else.  Prose is made by the callers. */
#include "data/ledger.h"

#include <stdio.h>
#include <time.h>
#include "base/alloc.h"

static uint64_t missing(const hri_account *a, uint64_t held) {
    return a->guarantee > held ? a->guarantee - held : 0;
}

hr_status hri_ledger_init(hri_ledger *l, uint64_t budget) {
    *l = (hri_ledger){.budget = budget, .most = budget};
    pthread_mutex_init(&l->mutex, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&l->freed, &attr);
    pthread_condattr_destroy(&attr);
    return HR_OK;
}

void hri_ledger_deinit(hri_ledger *l) {
    for (hri_account *a = l->accounts; a;) {
        hri_account *next = a->next;
        hri_free(a);
        a = next;
    }
    pthread_cond_destroy(&l->freed);
    pthread_mutex_destroy(&l->mutex);
}

uint64_t hri_ledger_shrink(hri_ledger *l, uint64_t bytes) {
    pthread_mutex_lock(&l->mutex);
    const uint64_t least = l->held + l->unfilled;
    const uint64_t to = bytes > least ? bytes : least;
    l->budget = to < l->budget ? to : l->budget;
    const uint64_t is = l->budget;
    pthread_mutex_unlock(&l->mutex);
    return is;
}

hr_status hri_ledger_open(hri_ledger *l, const char *name, uint32_t position, hri_account **out) {
    hri_account *a = hri_calloc(1, sizeof *a);
    if (!a) {
        return HR_E_NOMEM_HOST;
    }
    snprintf(a->name, sizeof a->name, "%s", name);
    a->ledger = l;
    a->position = position;
    pthread_mutex_lock(&l->mutex);
    hri_account **at = &l->accounts;
    while (*at) {
        at = &(*at)->next;
    }
    *at = a;
    pthread_mutex_unlock(&l->mutex);
    *out = a;
    return HR_OK;
}

hr_status hri_ledger_guarantee(hri_account *account, uint64_t bytes) {
    hri_ledger *l = account->ledger;
    hr_status status = HR_E_LIMIT;
    pthread_mutex_lock(&l->mutex);
    const uint64_t without = l->unfilled - missing(account, account->held);
    const uint64_t more = bytes > account->held ? bytes - account->held : 0;
    if (more <= l->budget && l->held + without <= l->budget - more) {
        l->guarantees = l->guarantees - account->guarantee + bytes;
        account->guarantee = bytes;
        l->unfilled = without + more;
        status = HR_OK;
    }
    pthread_mutex_unlock(&l->mutex);
    return status;
}

/* Under the mutex. */
static bool fits(const hri_account *a, uint64_t bytes) {
    const hri_ledger *l = a->ledger;
    const uint64_t own = missing(a, a->held);
    const uint64_t beyond = bytes > own ? bytes - own : 0;
    return beyond <= l->budget && l->held + l->unfilled <= l->budget - beyond;
}

static void charge(hri_account *a, uint64_t bytes) {
    hri_ledger *l = a->ledger;
    l->unfilled -= missing(a, a->held);
    a->held += bytes;
    l->held += bytes;
    l->unfilled += missing(a, a->held);
    a->peak = a->held > a->peak ? a->held : a->peak;
    l->peak = l->held > l->peak ? l->held : l->peak;
}

static void discharge(hri_account *a, uint64_t bytes) {
    hri_ledger *l = a->ledger;
    l->unfilled -= missing(a, a->held);
    a->held -= bytes;
    l->held -= bytes;
    l->unfilled += missing(a, a->held);
}

bool hri_ledger_try(hri_account *account, uint64_t bytes) {
    pthread_mutex_lock(&account->ledger->mutex);
    const bool yes = fits(account, bytes);
    if (yes) {
        charge(account, bytes);
    } else {
        account->refused++;
    }
    pthread_mutex_unlock(&account->ledger->mutex);
    return yes;
}

bool hri_ledger_could(hri_account *account, uint64_t bytes) {
    pthread_mutex_lock(&account->ledger->mutex);
    const bool yes = fits(account, bytes);
    pthread_mutex_unlock(&account->ledger->mutex);
    return yes;
}

void hri_ledger_release(hri_account *account, uint64_t bytes) {
    hri_ledger *l = account->ledger;
    pthread_mutex_lock(&l->mutex);
    discharge(account, bytes);
    if (l->waiting) {
        pthread_cond_broadcast(&l->freed);
    }
    pthread_mutex_unlock(&l->mutex);
}

bool hri_ledger_move(hri_account *from, hri_account *to, uint64_t bytes) {
    if (from == to) {
        return true;
    }
    hri_ledger *l = from->ledger;
    pthread_mutex_lock(&l->mutex);
    const uint64_t peak = l->peak;
    discharge(from, bytes);
    const bool yes = fits(to, bytes);
    if (yes) {
        charge(to, bytes);
        if (l->waiting) {
            pthread_cond_broadcast(&l->freed);
        }
    } else {
        charge(from, bytes);
    }
    l->peak = peak; /* a move holds nothing new */
    pthread_mutex_unlock(&l->mutex);
    return yes;
}

void hri_ledger_hand(hri_account *account, int64_t bytes) {
    hri_ledger *l = account->ledger;
    pthread_mutex_lock(&l->mutex);
    account->handed = (uint64_t)((int64_t)account->handed + bytes);
    pthread_mutex_unlock(&l->mutex);
}

/* Bytes that will not flow out while `asker` stands still: those further up, and the user's.  Promises count. */
static uint64_t stuck_bytes(const hri_account *asker, bool with_user) {
    uint64_t sum = 0;
    for (const hri_account *a = asker->ledger->accounts; a; a = a->next) {
        const uint64_t handed = with_user ? a->handed : 0;
        if (a == asker) {
            sum += handed;
            continue;
        }
        const bool user = a->position == UINT32_MAX;
        const bool stays = user ? with_user : a->position < asker->position;
        const uint64_t held = stays ? a->held : handed;
        sum += held > a->guarantee ? held : a->guarantee;
    }
    return sum;
}

uint64_t hri_ledger_room(hri_account *account, bool with_user) {
    hri_ledger *l = account->ledger;
    pthread_mutex_lock(&l->mutex);
    const uint64_t stuck = stuck_bytes(account, with_user);
    const uint64_t room = stuck < l->budget ? l->budget - stuck : 0;
    pthread_mutex_unlock(&l->mutex);
    return room;
}

hr_status hri_ledger_wait(hri_account *account, uint64_t bytes, uint64_t mine, unsigned wait_ms) {
    hri_ledger *l = account->ledger;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    until.tv_sec += (time_t)(wait_ms / 1000) + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    hr_status status = HR_OK;
    pthread_mutex_lock(&l->mutex);
    if (!fits(account, bytes)) {
        const uint64_t stuck = stuck_bytes(account, true);
        const uint64_t room = stuck < l->budget ? l->budget - stuck : 0;
        if (l->user_waiting && (mine > room || bytes > room - mine)) {
            status = HR_E_LIMIT;
        } else {
            l->waiting++;
            pthread_cond_timedwait(&l->freed, &l->mutex, &until);
            l->waiting--;
        }
    }
    pthread_mutex_unlock(&l->mutex);
    return status;
}

void hri_ledger_wake(hri_ledger *l) {
    pthread_mutex_lock(&l->mutex);
    pthread_cond_broadcast(&l->freed);
    pthread_mutex_unlock(&l->mutex);
}

void hri_ledger_set_user_waiting(hri_ledger *l, bool waiting) {
    pthread_mutex_lock(&l->mutex);
    l->user_waiting = waiting;
    if (waiting && l->waiting) {
        pthread_cond_broadcast(&l->freed);
    }
    pthread_mutex_unlock(&l->mutex);
}

hri_ledger_view hri_ledger_look(hri_ledger *l) {
    pthread_mutex_lock(&l->mutex);
    const hri_ledger_view v = {l->budget, l->held, l->peak, l->guarantees};
    pthread_mutex_unlock(&l->mutex);
    return v;
}

void hri_account_look(hri_account *account, uint64_t *held, uint64_t *peak, uint64_t *refused) {
    pthread_mutex_lock(&account->ledger->mutex);
    *held = account->held;
    *peak = account->peak;
    *refused = account->refused;
    pthread_mutex_unlock(&account->ledger->mutex);
}

hr_status hri_ledger_check(hri_ledger *l) {
    pthread_mutex_lock(&l->mutex);
    uint64_t held = 0, unfilled = 0, guarantees = 0;
    for (const hri_account *a = l->accounts; a; a = a->next) {
        held += a->held;
        unfilled += missing(a, a->held);
        guarantees += a->guarantee;
    }
    const bool good = held == l->held && unfilled == l->unfilled && guarantees == l->guarantees &&
                      held + unfilled <= l->budget && l->peak <= l->most;
    pthread_mutex_unlock(&l->mutex);
    return good ? HR_OK : HR_E_INTERNAL;
}
