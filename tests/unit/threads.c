/* The thread pool: every task once, the same results for any number of threads, nothing waits for ever. */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/fault.h"
#include "base/random.h"
#include "base/threads.h"

typedef struct marks {
    uint32_t count;
    uint32_t threads;
    _Atomic uint32_t at[1000];
    _Atomic uint32_t busy[64]; /* tasks running now under each worker number */
} marks;

static void mark_task(void *arg, uint32_t task, uint32_t worker) {
    marks *m = arg;
    CHECK(task < m->count && worker < m->threads);
    CHECK_EQ(atomic_fetch_add(&m->busy[worker], 1), 0);
    atomic_fetch_add(&m->at[task], 1);
    atomic_fetch_sub(&m->busy[worker], 1);
}

TEST(threads, every_task_runs_once_and_workers_are_never_shared) {
    static marks m;
    for (uint32_t threads = 1; threads <= 9; threads += 2) {
        hri_threads *pool;
        CHECK_OK(hri_threads_create(threads, &pool));
        CHECK_EQ(hri_threads_count(pool), threads);
        for (uint32_t round = 0; round < 300; round++) {
            memset(&m, 0, sizeof m);
            m.count = round * 7 % 1000;
            m.threads = threads;
            hri_threads_run(pool, m.count, mark_task, &m);
            for (uint32_t i = 0; i < 1000; i++) {
                CHECK_EQ(m.at[i], i < m.count);
            }
        }
        hri_threads_destroy(pool);
    }
}

enum { SUM_ITEMS = 100003, SUM_CHUNK = 1000, SUM_CHUNKS = SUM_ITEMS / SUM_CHUNK + 1 };

static void sum_chunk(void *arg, uint32_t task, uint32_t worker) {
    (void)worker;
    uint64_t begin, end;
    hri_chunk(SUM_ITEMS, SUM_CHUNK, task, &begin, &end);
    double sum = 0;
    for (uint64_t i = begin; i < end; i++) {
        sum += 1.0 / (1.0 + hri_random_u32_of(1, 0, 0, 0, i));
    }
    ((double *)arg)[task] = sum;
}

TEST(threads, a_sum_is_the_same_bits_for_any_number_of_threads) {
    static double partials[SUM_CHUNKS];
    CHECK_EQ(hri_chunk_count(SUM_ITEMS, SUM_CHUNK), SUM_CHUNKS);
    hri_threads_run(NULL, SUM_CHUNKS, sum_chunk, partials);
    const double alone = hri_sum(partials, SUM_CHUNKS);
    CHECK(alone > 0);
    for (uint32_t threads = 2; threads <= 7; threads++) {
        hri_threads *pool;
        CHECK_OK(hri_threads_create(threads, &pool));
        memset(partials, 0, sizeof partials);
        hri_threads_run(pool, SUM_CHUNKS, sum_chunk, partials);
        const double together = hri_sum(partials, SUM_CHUNKS);
        CHECK(!memcmp(&alone, &together, sizeof alone));
        hri_threads_destroy(pool);
    }
}

static void count_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    (void)worker;
    CHECK(begin < end && end - begin <= 64);
    for (uint64_t i = begin; i < end; i++) {
        ((unsigned char *)arg)[i]++;
    }
}

TEST(threads, a_range_is_covered_once) {
    hri_threads *pool;
    CHECK_OK(hri_threads_create(3, &pool));
    for (uint64_t n = 0; n < 300; n += 13) {
        unsigned char seen[301] = {0};
        hri_threads_range(pool, n, 64, count_range, seen);
        for (uint64_t i = 0; i < 301; i++) {
            CHECK_EQ(seen[i], i < n);
        }
    }
    unsigned char one[3] = {0};
    hri_threads_range(pool, 3, 0, count_range, one);
    CHECK(one[0] == 1 && one[1] == 1 && one[2] == 1);
    hri_threads_destroy(pool);
}

typedef struct nest {
    hri_threads *pool;
    _Atomic uint32_t inner;
} nest;

static void inner_task(void *arg, uint32_t task, uint32_t worker) {
    (void)task;
    CHECK_EQ(worker, 0);
    atomic_fetch_add(&((nest *)arg)->inner, 1);
}

static void outer_task(void *arg, uint32_t task, uint32_t worker) {
    (void)task;
    (void)worker;
    hri_threads_run(((nest *)arg)->pool, 5, inner_task, arg);
}

TEST(threads, a_run_inside_a_task_is_done_inline) {
    nest n = {0};
    CHECK_OK(hri_threads_create(4, &n.pool));
    for (int i = 0; i < 100; i++) {
        hri_threads_run(n.pool, 20, outer_task, &n);
    }
    CHECK_EQ(n.inner, 100 * 20 * 5);
    hri_threads_destroy(n.pool);
}

static void add_one(void *arg, uint32_t task, uint32_t worker) {
    (void)task;
    (void)worker;
    atomic_fetch_add((_Atomic uint32_t *)arg, 1);
}

static void *run_many(void *arg) {
    _Atomic uint32_t sum = 0;
    for (int i = 0; i < 500; i++) {
        hri_threads_run(arg, 8, add_one, &sum);
    }
    CHECK_EQ(sum, 4000);
    return NULL;
}

TEST(threads, several_threads_take_turns_on_one_pool) {
    hri_threads *pool;
    CHECK_OK(hri_threads_create(3, &pool));
    pthread_t callers[4];
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(pthread_create(&callers[i], NULL, run_many, pool), 0);
    }
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(pthread_join(callers[i], NULL), 0);
    }
    hri_threads_destroy(pool);
}

/* Waiting must not burn: the time this process used while its pool had nothing to do. */
TEST(threads, an_idle_pool_uses_no_time) {
    hri_threads *pool;
    _Atomic uint32_t sum = 0;
    CHECK_OK(hri_threads_create(2, &pool));
    hri_threads_run(pool, 100, add_one, &sum);
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    usleep(300000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    const int64_t used_ns = (to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec;
    CHECK_LE(used_ns, 20000000);
    hri_threads_run(pool, 100, add_one, &sum);
    CHECK_EQ(sum, 200);
    hri_threads_destroy(pool);
}

TEST(threads, too_many_threads_are_refused) {
    hri_threads *pool = NULL;
    CHECK_STATUS(hri_threads_create(1025, &pool), HR_E_RANGE);
    CHECK(!pool);
    CHECK_OK(hri_threads_create(0, &pool));
    CHECK_EQ(hri_threads_count(pool), hri_cores_usable());
    hri_threads_destroy(pool);
    hri_threads_destroy(NULL);
}

#ifdef HEADROOM_FAULTS
TEST(threads, a_refused_thread_or_memory_leaves_nothing_behind) {
    for (uint64_t nth = 1; nth <= 4; nth++) {
        hri_threads *pool = NULL;
        hri_fault_set(HRI_FAULT_THREAD, nth, 0);
        CHECK_STATUS(hri_threads_create(4, &pool), nth <= 3 ? HR_E_NOMEM_HOST : HR_OK);
        hri_fault_set(HRI_FAULT_THREAD, 0, 0);
        CHECK_EQ(pool != NULL, nth > 3);
        hri_threads_destroy(pool);
        CHECK_EQ(hri_fault_live_allocs(), 0);
    }
    hri_threads *pool = NULL;
    hri_fault_set(HRI_FAULT_ALLOC, 1, 1);
    CHECK_STATUS(hri_threads_create(2, &pool), HR_E_NOMEM_HOST);
    CHECK(!pool && hri_fault_live_allocs() == 0);
}
#endif

static void mark(void *arg, uint32_t task, uint32_t worker) {
    (void)task;
    atomic_fetch_or((_Atomic uint32_t *)arg, 1u << worker);
}

TEST(threads, a_pool_that_shrinks_goes_on_with_the_threads_that_are_left) {
    hri_threads *pool;
    CHECK_OK(hri_threads_create(5, &pool));
    for (uint32_t left = 5; left >= 1; left--) {
        _Atomic uint32_t seen = 0;
        hri_threads_shrink(pool, left);
        CHECK_EQ(hri_threads_count(pool), left);
        for (int i = 0; i < 50; i++) {
            hri_threads_run(pool, 64, mark, &seen);
        }
        CHECK((atomic_load(&seen) >> left) == 0);
    }
    hri_threads_shrink(pool, 7); /* never more */
    CHECK_EQ(hri_threads_count(pool), 1);
    hri_threads_shrink(NULL, 1);
    hri_threads_destroy(pool);
}
