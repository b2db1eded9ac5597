/* The ledger against a naive one: random requests, sizes, holds, limits, entries and departures; every grant and refusal
 * is what adding up a list says, and the invariants hold after each. */
#include <stdio.h>
#include <string.h>

#include "memory/budget.h"
#include "test.h"

enum { LEASES = 12, ROUNDS = 4000 };

typedef struct entry {
    hr_lease *lease; /* NULL: none */
    int inner;       /* of the pool inside */
    int solid;
    uint64_t granted, held;
} entry;

typedef struct naive {
    entry of[LEASES];
    uint64_t host_limit, inner_limit, runtime;
    uint32_t entered;
} naive;

static uint64_t sum(const naive *n, int inner, int held) {
    uint64_t bytes = inner ? 0 : n->runtime;
    for (int i = 0; i < LEASES; i++) {
        const entry *e = &n->of[i];
        bytes += e->lease && (!inner || e->inner) ? (held ? e->held : e->granted) : 0;
    }
    return bytes;
}

static uint64_t left_of(uint64_t limit, uint64_t granted) {
    return limit > granted ? limit - granted : 0;
}

static uint64_t free_of(const naive *n, int inner) {
    const uint64_t host = left_of(n->host_limit, sum(n, 0, 0));
    const uint64_t own = left_of(n->inner_limit, sum(n, 1, 0));
    return inner && own < host ? own : host;
}

static uint64_t limit_of(const naive *n, int inner) {
    return inner && n->inner_limit < n->host_limit ? n->inner_limit : n->host_limit;
}

static hr_status refusal(const naive *n, int inner, uint64_t total, uint64_t more) {
    return total > limit_of(n, inner) ? HR_E_LIMIT : more > free_of(n, inner) ? HR_E_AGAIN : HR_OK;
}

static void request(hri_book *book, naive *n, entry *e, uint64_t *state) {
    const uint64_t wanted = 1 + test_random(state) % 600;
    const uint64_t least = test_random(state) % 2 ? 1 + test_random(state) % wanted : 0;
    const int inner = test_random(state) % 3 == 0;
    const hr_lease_options o = {.size = sizeof o,
                                .pool = inner ? "inner" : "host",
                                .name = "somebody",
                                .wanted_bytes = wanted,
                                .least_bytes = least};
    const uint64_t must = least ? least : wanted;
    const hr_status expected = refusal(n, inner, must, must);
    const uint64_t left = free_of(n, inner);
    hr_lease *l = NULL;
    CHECK_STATUS(hri_book_request(book, &o, &l, NULL), expected);
    if (expected == HR_OK) {
        *e = (entry){.lease = l, .inner = inner, .granted = left < wanted ? left : wanted};
        CHECK_EQ(hr_lease_granted(l), e->granted);
        e->solid = test_random(state) % 2;
        if (e->solid) {
            hri_lease_set_solid(l);
        }
    } else {
        CHECK(!l);
    }
}

static void resize(naive *n, entry *e, uint64_t *state) {
    const uint64_t to = test_random(state) % 700;
    const uint64_t more = to > e->granted ? to - e->granted : 0;
    const hr_status expected = to < e->held || !to ? HR_E_BUSY
                               : !more             ? HR_OK
                                                   : refusal(n, e->inner, to, more);
    CHECK_STATUS(hr_lease_resize(e->lease, to), expected);
    e->granted = expected == HR_OK ? to : e->granted;
}

static void hold(entry *e, uint64_t *state) {
    const uint64_t bytes = test_random(state) % (e->granted + e->granted / 4 + 1);
    const hr_status expected = bytes > e->granted ? HR_E_LIMIT : HR_OK;
    CHECK_STATUS(hr_lease_hold(e->lease, bytes), expected);
    e->held = expected == HR_OK ? bytes : e->held;
}

static void enter(hri_book *book, naive *n, uint64_t *state) {
    const uint64_t process = test_random(state) % 500;
    uint64_t solid = n->runtime;
    for (int i = 0; i < LEASES; i++) {
        solid += n->of[i].lease && n->of[i].solid ? n->of[i].held : 0;
    }
    const uint64_t more = process > solid ? process - solid : 0;
    const hr_status expected = more <= free_of(n, 0)               ? HR_OK
                               : n->runtime + more > n->host_limit ? HR_E_LIMIT
                                                                   : HR_E_AGAIN;
    CHECK_EQ(hri_book_uncovered(book, "host", process), more);
    CHECK_STATUS(hri_book_enter(book, "host", process, NULL), expected);
    if (expected == HR_OK) {
        n->runtime += more;
        n->entered++;
    }
}

static void leave(hri_book *book, naive *n) {
    hri_book_leave(book, "host");
    n->entered -= n->entered > 0;
    n->runtime = n->entered ? n->runtime : 0;
}

static void set_limit(hri_book *book, naive *n, uint64_t *state) {
    const int inner = test_random(state) % 2;
    uint64_t *limit = inner ? &n->inner_limit : &n->host_limit;
    *limit = 200 + test_random(state) % 1500;
    CHECK_STATUS(hri_book_set_limit(book, inner ? "inner" : "host", *limit),
                 sum(n, inner, 0) > *limit ? HR_E_AGAIN : HR_OK);
}

static void compare(hri_book *book, const naive *n) {
    for (int inner = 0; inner < 2; inner++) {
        hr_pool_info info = {.size = sizeof info};
        CHECK_OK(hri_book_get_pool(book, (size_t)inner, &info));
        CHECK_EQ(info.granted_bytes, sum(n, inner, 0));
        CHECK_EQ(info.held_bytes, sum(n, inner, 1));
        CHECK_EQ(info.free_bytes, free_of(n, inner));
    }
    CHECK_OK(hri_book_check(book));
}

TEST(ledger, adds_up_as_a_list_does) {
    uint64_t state = test_seed();
    for (int round = 0; round < 4; round++) {
        hri_book *book = NULL;
        naive n = {.host_limit = 1500, .inner_limit = 700};
        CHECK_OK(hri_book_create(&book));
        CHECK_OK(hri_book_add_pool(book, "host", NULL, n.host_limit));
        CHECK_OK(hri_book_add_pool(book, "inner", "host", n.inner_limit));
        for (int i = 0; i < ROUNDS; i++) {
            entry *e = &n.of[test_random(&state) % LEASES];
            const uint64_t what = test_random(&state) % 16;
            if (what == 0) {
                set_limit(book, &n, &state);
            } else if (what == 1) {
                enter(book, &n, &state);
            } else if (what == 2) {
                leave(book, &n);
            } else if (!e->lease) {
                request(book, &n, e, &state);
            } else if (what < 7) {
                resize(&n, e, &state);
            } else if (what < 11) {
                hold(e, &state);
            } else if (what < 13) {
                hr_lease_release(e->lease);
                *e = (entry){0};
            }
            compare(book, &n);
        }
        for (int i = 0; i < LEASES; i++) {
            hr_lease_release(n.of[i].lease);
        }
        while (n.entered) {
            leave(book, &n);
        }
        CHECK_OK(hri_book_destroy(book));
    }
}
