/* The ledger: exact under threads, guarantees kept, impossible requests told from those that may wait. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include "data/ledger.h"
#include "data/pool.h"
#include "test.h"

TEST(ledger, grants_within_the_guarantee_always) {
    hri_ledger l;
    CHECK_OK(hri_ledger_init(&l, 100));
    hri_account *a, *b;
    CHECK_OK(hri_ledger_open(&l, "a", 0, &a));
    CHECK_OK(hri_ledger_open(&l, "b", 1, &b));
    CHECK_OK(hri_ledger_guarantee(a, 40));
    CHECK_OK(hri_ledger_guarantee(b, 30));
    CHECK(hri_ledger_try(b, 60)); /* 30 promised and 30 of what nobody was promised */
    CHECK(!hri_ledger_try(b, 1)); /* a's 40 are a's */
    CHECK(hri_ledger_try(a, 40));
    CHECK(!hri_ledger_try(a, 1));
    CHECK_OK(hri_ledger_check(&l));
    hri_ledger_release(b, 60);
    CHECK(hri_ledger_try(a, 30));
    CHECK(!hri_ledger_try(a, 1));
    CHECK_EQ(hri_ledger_look(&l).peak, 100);
    hri_ledger_release(a, 70);
    CHECK_OK(hri_ledger_check(&l));
    hri_ledger_deinit(&l);
}

TEST(ledger, refuses_guarantees_over_the_budget) {
    hri_ledger l;
    CHECK_OK(hri_ledger_init(&l, 100));
    hri_account *a, *b;
    CHECK_OK(hri_ledger_open(&l, "a", 0, &a));
    CHECK_OK(hri_ledger_open(&l, "b", 1, &b));
    CHECK_OK(hri_ledger_guarantee(a, 60));
    CHECK_STATUS(hri_ledger_guarantee(b, 41), HR_E_LIMIT);
    CHECK_STATUS(hri_ledger_guarantee(b, UINT64_MAX), HR_E_LIMIT);
    CHECK_OK(hri_ledger_guarantee(b, 40));
    CHECK_OK(hri_ledger_check(&l));
    hri_ledger_deinit(&l);
}

TEST(ledger, says_limit_only_when_what_is_stuck_leaves_no_room) {
    hri_ledger l;
    CHECK_OK(hri_ledger_init(&l, 100));
    hri_account *up, *me, *down, *user;
    CHECK_OK(hri_ledger_open(&l, "up", 0, &up));
    CHECK_OK(hri_ledger_open(&l, "me", 1, &me));
    CHECK_OK(hri_ledger_open(&l, "down", 2, &down));
    CHECK_OK(hri_ledger_open(&l, "user", UINT32_MAX, &user));
    CHECK(hri_ledger_try(up, 20));
    CHECK(hri_ledger_try(down, 70));
    hri_ledger_set_user_waiting(&l, true);
    CHECK_OK(hri_ledger_wait(me, 80, 0, 1)); /* down flows out by itself: 80 may come */
    CHECK_STATUS(hri_ledger_wait(me, 81, 0, 1), HR_E_LIMIT);
    CHECK_STATUS(hri_ledger_wait(me, 80, 1, 1), HR_E_LIMIT);
    CHECK(hri_ledger_move(down, user, 70));
    CHECK_STATUS(hri_ledger_wait(me, 11, 0, 1), HR_E_LIMIT); /* the user keeps what he has */
    CHECK_EQ(hri_ledger_room(me, true), 10);
    CHECK_EQ(hri_ledger_room(me, false), 80);
    hri_ledger_set_user_waiting(&l, false);
    CHECK_OK(hri_ledger_wait(me, 81, 0, 1)); /* nobody needs it now */
    hri_ledger_release(up, 20);
    hri_ledger_release(user, 70);
    CHECK_OK(hri_ledger_check(&l));
    hri_ledger_deinit(&l);
}

enum { THREADS = 8, ROUNDS = 20000, BUDGET = 1 << 20 };

typedef struct worker {
    hri_account *account;
    hri_ledger *ledger;
    _Atomic uint64_t *outside; /* what the threads together believe to hold */
    uint64_t seed;
    int over;
} worker;

static void *worker_main(void *arg) {
    worker *w = arg;
    uint64_t mine = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t bytes = 1 + test_random(&w->seed) % (BUDGET / 4);
        if (mine == 0 && hri_ledger_try(w->account, bytes)) {
            mine = bytes;
            w->over += atomic_fetch_add(w->outside, bytes) + bytes > BUDGET;
        } else if (mine > 0) {
            atomic_fetch_sub(w->outside, mine);
            hri_ledger_release(w->account, mine);
            mine = 0;
        }
    }
    if (mine > 0) {
        atomic_fetch_sub(w->outside, mine);
        hri_ledger_release(w->account, mine);
    }
    return NULL;
}

TEST(ledger, eight_threads_never_exceed_it) {
    hri_ledger l;
    CHECK_OK(hri_ledger_init(&l, BUDGET));
    _Atomic uint64_t outside = 0;
    worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.ledger = &l, .outside = &outside, .seed = test_seed() + (uint64_t)i};
        CHECK_OK(hri_ledger_open(&l, "worker", (uint32_t)i, &workers[i].account));
        CHECK_OK(hri_ledger_guarantee(workers[i].account, BUDGET / 16));
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, worker_main, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(workers[i].over, 0);
    }
    CHECK_OK(hri_ledger_check(&l));
    CHECK_EQ(hri_ledger_look(&l).held, 0);
    CHECK_LE(hri_ledger_look(&l).peak, BUDGET);
    hri_ledger_deinit(&l);
}

TEST(pool, idle_and_live_pages_stay_within_the_budget) {
    enum { BYTES = 8 << 20 };
    hri_buffer_pool *pool;
    CHECK_OK(hri_pool_create(BYTES, &pool));
    hri_account *a;
    CHECK_OK(hri_ledger_open(hri_pool_ledger(pool), "a", 0, &a));
    uint64_t seed = test_seed();
    hri_buffer *held[16] = {0};
    for (int i = 0; i < 5000; i++) {
        hri_buffer **b = &held[test_random(&seed) % 16];
        hri_buffer_unref(*b);
        *b = NULL;
        const uint64_t bytes = 1 + test_random(&seed) % (2 << 20);
        const hr_status status = hri_buffer_create(pool, a, bytes, b);
        if (status == HR_OK) {
            memset((*b)->data, i, bytes);
            CHECK_LE(bytes, (*b)->bytes);
            CHECK_LE((*b)->bytes, bytes + bytes / 8 + 64);
        } else {
            CHECK_STATUS(status, HR_E_LIMIT);
        }
        CHECK_LE(hri_pool_mapped_bytes(pool), BYTES);
        CHECK_LE(hri_ledger_look(hri_pool_ledger(pool)).held, BYTES);
    }
    for (int i = 0; i < 16; i++) {
        hri_buffer_unref(held[i]);
    }
    CHECK_EQ(hri_ledger_look(hri_pool_ledger(pool)).held, 0);
    hri_pool_trim(pool);
    CHECK_EQ(hri_pool_mapped_bytes(pool), 0);
    hri_pool_unref(pool);
}
