/* Threads against limits.  The number of operations follows HEADROOM_TEST_OPS (10^6 when unset; fewer under a
 * sanitizer, where each costs more). */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 8, SLOTS = 24, SLICES = 3 };

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { DEFAULT_OPS = 100000 };
#else
enum { DEFAULT_OPS = 1000000 };
#endif

static uint64_t op_count(void) {
    const char *text = getenv("HEADROOM_TEST_OPS");
    return text ? strtoull(text, NULL, 10) : DEFAULT_OPS;
}

typedef struct shared {
    fixture *f;
    hr_logical *slices[SLICES];
    uint64_t limits[SLICES];
    _Atomic int64_t tokens[SLICES]; /* pages nobody has claimed; for the case without refusals */
    _Atomic int stop;
    int touch; /* the memory can be written from here */
    uint64_t seed;
    uint64_t watched_max, watched_count;
    _Atomic uint64_t refusals;
} shared;

typedef struct worker {
    shared *s;
    uint64_t id;
} worker;

/* Mostly small, some large, now and then a good part of a slice. */
static uint64_t random_size(uint64_t *random, uint64_t limit) {
    const uint64_t kind = test_random(random) % 100;
    if (kind < 70) {
        return 1 + test_random(random) % (256 * KIB);
    }
    return kind < 97 ? 1 + test_random(random) % (4 * MIB) : 1 + test_random(random) % (limit / 2);
}

static void stamp(const shared *s, const hr_block *b, uint64_t value) {
    if (s->touch && b->bytes >= 16) {
        memcpy((void *)(uintptr_t)b->addr, &value, 8);
        memcpy((void *)(uintptr_t)(b->addr + b->bytes - 8), &value, 8);
    }
}

/* A block that overlaps another has lost its stamp. */
static void check_stamp(const shared *s, const hr_block *b, uint64_t value) {
    uint64_t low = value, high = value;
    if (s->touch && b->bytes >= 16) {
        memcpy(&low, (const void *)(uintptr_t)b->addr, 8);
        memcpy(&high, (const void *)(uintptr_t)(b->addr + b->bytes - 8), 8);
    }
    if (low != value || high != value) {
        test_fail(__FILE__, __LINE__, "a block was overwritten");
    }
}

static void *churn(void *arg) {
    const worker *w = arg;
    shared *s = w->s;
    uint64_t random = s->seed + w->id;
    struct {
        hr_block block;
        int slice; /* -1: empty */
        uint64_t value;
    } slots[SLOTS];
    for (int i = 0; i < SLOTS; i++) {
        slots[i].slice = -1;
    }
    for (uint64_t op = 0; op < op_count() / THREADS; op++) {
        const int at = (int)(test_random(&random) % SLOTS);
        if (slots[at].slice >= 0) {
            check_stamp(s, &slots[at].block, slots[at].value);
            CHECK_OK(hr_block_free(s->slices[slots[at].slice], &slots[at].block));
            slots[at].slice = -1;
            continue;
        }
        const int slice = (int)(test_random(&random) % SLICES);
        const hr_status status = hr_block_alloc(
            s->slices[slice], random_size(&random, s->limits[slice]),
            (hr_category)(test_random(&random) % HR_CATEGORY_COUNT), 0, &slots[at].block);
        if (status == HR_OK) {
            slots[at].slice = slice;
            slots[at].value = test_random(&random);
            stamp(s, &slots[at].block, slots[at].value);
        } else {
            CHECK_STATUS(status, HR_E_LIMIT);
            atomic_fetch_add(&s->refusals, 1);
        }
        if (op % 64 == 0) {
            hr_stats stats = {.size = sizeof stats};
            CHECK_OK(hr_logical_get_stats(s->slices[slice], &stats));
            CHECK_LE(stats.held_bytes, s->limits[slice]);
        }
        if (op % 20000 == 7) {
            fixture_check(s->slices[slice]);
            CHECK_OK(hr_logical_trim(s->slices[slice], NULL));
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i].slice >= 0) {
            check_stamp(s, &slots[i].block, slots[i].value);
            CHECK_OK(hr_block_free(s->slices[slots[i].slice], &slots[i].block));
        }
    }
    return NULL;
}

/* What the outside sees, all the while. */
static void *watch(void *arg) {
    shared *s = arg;
    while (!atomic_load(&s->stop)) {
        const uint64_t bytes = fixture_outside_bytes(s->f);
        s->watched_max = bytes > s->watched_max ? bytes : s->watched_max;
        s->watched_count++;
        const struct timespec nap = {.tv_nsec = 2 * 1000 * 1000};
        nanosleep(&nap, NULL);
    }
    return NULL;
}

static void run_threads(shared *s, void *(*work)(void *)) {
    pthread_t threads[THREADS], watcher;
    worker workers[THREADS];
    CHECK(pthread_create(&watcher, NULL, watch, s) == 0);
    for (uint64_t i = 0; i < THREADS; i++) {
        workers[i] = (worker){s, i};
        CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    atomic_store(&s->stop, 1);
    pthread_join(watcher, NULL);
}

static void open_slices(fixture *f, shared *s, const uint64_t limits[SLICES]) {
    static const char *const names[SLICES] = {"x", "y", "z"};
    memset(s, 0, sizeof *s);
    s->f = f;
    s->seed = test_seed();
    s->touch = !strcmp(f->info.backend, "host");
    for (int i = 0; i < SLICES; i++) {
        s->limits[i] = limits[i];
        s->slices[i] = fixture_slice(f, names[i], limits[i], HR_GROWTH_ON);
        atomic_store(&s->tokens[i], (int64_t)(limits[i] / f->info.page_bytes));
    }
}

static void close_slices(fixture *f, shared *s, uint64_t outside_before) {
    for (int i = 0; i < SLICES; i++) {
        hr_stats stats = {.size = sizeof stats};
        fixture_check(s->slices[i]);
        CHECK_OK(hr_logical_get_stats(s->slices[i], &stats));
        CHECK_EQ(stats.live_bytes, 0);
        CHECK_LE(stats.held_peak_bytes, s->limits[i]);
        CHECK_OK(hr_logical_trim(s->slices[i], NULL));
        CHECK_OK(hr_logical_get_stats(s->slices[i], &stats));
        CHECK_EQ(stats.held_bytes, 0);
        fixture_check(s->slices[i]);
    }
    const uint64_t outside = fixture_outside_bytes(f);
    printf("    outside: %.1f MiB before, %.1f MiB after, %.1f MiB at most in %llu looks\n",
           (double)outside_before / MIB, (double)outside / MIB, (double)s->watched_max / MIB,
           (unsigned long long)s->watched_count);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) /* their shadows grow */
    CHECK_LE(outside, outside_before + 2 * MIB);
    uint64_t limits = 0;
    for (int i = 0; i < SLICES; i++) {
        limits += s->limits[i];
    }
    /* the host's resident set has the threads' stacks in it; a GPU's bytes are all of our making */
    CHECK_LE(s->watched_max, outside_before + limits + (s->touch ? 4 * MIB : 0));
#endif
    for (int i = 0; i < SLICES; i++) {
        fixture_drop(s->slices[i]);
    }
    fixture_close(f);
}

/* HEADROOM_TEST_LIMIT sets the sum of the limits (224 MiB when unset). */
static void choose_limits(uint64_t limits[SLICES]) {
    uint64_t sum = 224 * MIB;
    const char *text = getenv("HEADROOM_TEST_LIMIT");
    if (text) {
        CHECK_OK(hr_bytes_parse(text, 0, &sum));
    }
    limits[0] = sum / 4;
    limits[1] = sum / 2 + 1; /* not a whole number of pages */
    limits[2] = sum / 4;
}

TEST_TIMEOUT(stress, eight_threads_never_exceed_the_limits, 300) {
    fixture f = fixture_open();
    shared s;
    uint64_t limits[SLICES];
    choose_limits(limits);
    open_slices(&f, &s, limits);
    const uint64_t before = fixture_outside_bytes(&f);
    run_threads(&s, churn);
    printf("    %llu operations, %llu refused\n", (unsigned long long)op_count(),
           (unsigned long long)atomic_load(&s.refusals));
    CHECK(atomic_load(&s.refusals) > 0); /* the limits were really in the way */
    close_slices(&f, &s, before);
}

/* Takes n tokens or none. */
static int claim(_Atomic int64_t *tokens, int64_t n) {
    int64_t have = atomic_load(tokens);
    while (have >= n) {
        if (atomic_compare_exchange_weak(tokens, &have, have - n)) {
            return 1;
        }
    }
    return 0;
}

/* Every thread asks only for pages that are certainly free: each refusal would be a false one. */
static void *claim_and_use(void *arg) {
    const worker *w = arg;
    shared *s = w->s;
    uint64_t random = s->seed + 99 * w->id;
    const uint64_t page = s->f->info.page_bytes;
    hr_block held[4];
    int64_t pages[4] = {0};
    int slice[4];
    for (uint64_t op = 0; op < op_count() / THREADS / 8; op++) {
        const int at = (int)(test_random(&random) % 4);
        if (pages[at] > 0) {
            CHECK_OK(hr_block_free(s->slices[slice[at]], &held[at]));
            atomic_fetch_add(&s->tokens[slice[at]], pages[at]);
            pages[at] = 0;
            continue;
        }
        slice[at] = (int)(test_random(&random) % SLICES);
        const int64_t n = 1 + (int64_t)(test_random(&random) % 12);
        if (claim(&s->tokens[slice[at]], n)) {
            CHECK_OK(hr_block_alloc(s->slices[slice[at]], (uint64_t)n * page, HR_CATEGORY_OTHER, 0,
                                    &held[at]));
            pages[at] = n;
        }
    }
    for (int at = 0; at < 4; at++) {
        if (pages[at] > 0) {
            CHECK_OK(hr_block_free(s->slices[slice[at]], &held[at]));
        }
    }
    return NULL;
}

TEST_TIMEOUT(stress, what_is_free_is_never_refused, 300) {
    fixture f = fixture_open();
    shared s;
    const uint64_t limits[SLICES] = {32 * MIB, 48 * MIB, 64 * MIB};
    open_slices(&f, &s, limits);
    const uint64_t before = fixture_outside_bytes(&f);
    run_threads(&s, claim_and_use);
    close_slices(&f, &s, before);
}

static void *make_and_remove(void *arg) {
    const worker *w = arg;
    uint64_t random = w->s->seed + 7 * w->id;
    for (int i = 0; i < 60; i++) {
        const hr_logical_options options = {.size = sizeof options,
                                            .limit_bytes = (1 + test_random(&random) % 8) * 2 * MIB,
                                            .growth = (hr_growth)(test_random(&random) % 2)};
        hr_logical *l;
        CHECK_OK(hr_logical_create(w->s->f->device, &options, &l));
        hr_block block = fixture_alloc(l, 2 * MIB);
        CHECK_OK(hr_logical_set_limit(l, options.limit_bytes + 4 * MIB));
        fixture_check(l);
        fixture_free(l, &block);
        fixture_drop(l);
    }
    return NULL;
}

TEST_TIMEOUT(stress, slices_come_and_go_under_threads, 120) {
    fixture f = fixture_open();
    shared s = {.f = &f, .seed = test_seed()};
    run_threads(&s, make_and_remove);
    fixture_close(&f);
}
