/* The thread pool: atomic counters of tasks not yet taken, one of tasks not yet done.
 *
 * A run cuts its tasks into ranges, writes the job, then publishes how many are left of each (release).  Whoever lowers
 * one of those by one owns that task, and only then reads the job: a run cannot end before the tasks that were taken are
 * done, so the job a claim reads is always the job it claimed from, and a late worker needs no check of its own.
 *
 * A worker begins with a range of its own and helps with the others when that is done.  So one op after the other has the
 * same part of its data on the same core, in whose cache it lies; which worker does a task is no more fixed than before.
 *
 * Waiting is a short look at an atomic, then a futex sleep.  How long the look may take adapts: it doubles
 * when work came in time and halves when it did not, between 0 and 50 us, so a pool in a busy loop
 * answers in well under a microsecond and a pool that is idle, or on a machine that is busy with
 * others, costs next to nothing.  Pools with more threads than cores never look, they sleep.
 *
 * Left out on purpose: stealing, priorities, a queue of runs.  One run at a time is what a training step
 * is made of. */
#include "base/threads.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/fault.h"

enum { MOST_THREADS = 1024, MOST_LOOK_NS = 50000, LEAST_LOOK_NS = 500, MOST_RANGES = 8 };

typedef struct worker {
    hri_threads *pool;
    pthread_t thread;
    uint32_t number;
} worker;

typedef struct range {
    _Atomic uint32_t left; /* tasks not yet taken */
    char apart[60];
} range;

/* Words that different threads write lie 64 bytes apart. */
struct hri_threads {
    range ranges[MOST_RANGES];
    _Atomic uint32_t undone; /* tasks not yet done; the caller's futex */
    _Atomic bool caller_sleeps;
    char apart_2[56];
    _Atomic uint32_t round; /* counts runs; the workers' futex */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t keep; /* workers of this number and above end */
    char apart_3[52];
    /* The job: written by the caller between runs. */
    hri_task_fn *fn;
    void *arg;
    uint32_t task_count;
    uint32_t count;
    uint32_t range_count; /* never changes */
    uint32_t started;     /* workers that run: all but the caller */
    bool may_look;
    uint32_t caller_look_ns; /* under `turn` */
    pthread_mutex_t turn;    /* one run at a time */
    worker workers[];
};

/* Not state of the library but a fact about the thread: it is inside a task, so a run must not wait. */
static _Thread_local bool inside_task;

static void sleep_on(_Atomic uint32_t *word, uint32_t while_equal) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_equal, NULL, NULL, 0);
}

static void wake(_Atomic uint32_t *word, uint32_t how_many) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, how_many, NULL, NULL, 0);
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb");
#endif
}

/* Looks at `word` until it differs from (or, with `until`, equals) `value`, for *look_ns at most; true when
 * it came.  Adapts *look_ns. */
static bool look(_Atomic uint32_t *word, uint32_t value, bool until, uint32_t *look_ns) {
    const uint64_t start = hri_clock_ns();
    do {
        for (int i = 0; i < 16; i++) {
            if ((atomic_load_explicit(word, memory_order_acquire) == value) == until) {
                const uint32_t twice = *look_ns * 2;
                *look_ns = twice > MOST_LOOK_NS ? MOST_LOOK_NS : twice;
                return true;
            }
            relax();
        }
    } while (hri_clock_ns() - start < *look_ns);
    *look_ns = *look_ns / 2 < LEAST_LOOK_NS ? LEAST_LOOK_NS : *look_ns / 2;
    return false;
}

/* The first task of a range. */
static uint32_t range_begin(const hri_threads *pool, uint32_t i) {
    return (uint32_t)((uint64_t)pool->task_count * i / pool->range_count);
}

/* Takes tasks of one range until there are none. */
static void work_range(hri_threads *pool, uint32_t i, uint32_t number) {
    _Atomic uint32_t *const word = &pool->ranges[i].left;
    uint32_t left = atomic_load_explicit(word, memory_order_relaxed);
    while (left > 0) {
        if (!atomic_compare_exchange_weak_explicit(word, &left, left - 1, memory_order_acquire,
                                                   memory_order_relaxed)) {
            continue;
        }
        pool->fn(pool->arg, range_begin(pool, i + 1) - left, number);
        if (atomic_fetch_sub(&pool->undone, 1) == 1 && atomic_load(&pool->caller_sleeps)) {
            wake(&pool->undone, 1);
        }
        left = atomic_load_explicit(word, memory_order_relaxed);
    }
}

/* Takes tasks until there are none. */
static void work(hri_threads *pool, uint32_t number) {
    for (uint32_t i = 0; i < pool->range_count; i++) {
        work_range(pool, (number + i) % pool->range_count, number);
    }
}

static void *worker_main(void *arg) {
    worker *self = arg;
    hri_threads *pool = self->pool;
    uint32_t look_ns = MOST_LOOK_NS;
    uint32_t seen = 0;
    inside_task = true; /* a worker does nothing else */
    while (self->number < atomic_load(&pool->keep)) {
        work(pool, self->number);
        if (!pool->may_look || !look(&pool->round, seen, false, &look_ns)) {
            atomic_fetch_add(&pool->sleepers, 1);
            if (self->number < atomic_load(&pool->keep)) {
                sleep_on(&pool->round, seen);
            }
            atomic_fetch_sub(&pool->sleepers, 1);
        }
        seen = atomic_load(&pool->round);
    }
    return NULL;
}

/* Ends the workers from this number on; 0 and 1: all of them. */
static void stop_workers(hri_threads *pool, uint32_t from) {
    atomic_store(&pool->keep, from);
    atomic_fetch_add(&pool->round, 1);
    wake(&pool->round, INT_MAX);
    const uint32_t stay = from > 1 ? from - 1 : 0;
    while (pool->started > stay) {
        pthread_join(pool->workers[--pool->started].thread, NULL);
    }
}

static hr_status start_worker(hri_threads *pool) {
    worker *w = &pool->workers[pool->started];
    *w = (worker){.pool = pool, .number = pool->started + 1};
    if (HRI_FAULT(THREAD) || pthread_create(&w->thread, NULL, worker_main, w) != 0) {
        return HR_E_NOMEM_HOST;
    }
    char name[16];
    snprintf(name, sizeof name, "headroom-%u", w->number);
    pthread_setname_np(w->thread, name);
    pool->started++;
    return HR_OK;
}

hr_status hri_threads_create(uint32_t count, hri_threads **out) {
    const uint32_t cores = hri_cores_usable();
    count = count ? count : cores;
    if (count > MOST_THREADS) {
        return HR_E_RANGE;
    }
    hri_threads *pool = hri_calloc(1, sizeof *pool + (count - 1) * sizeof pool->workers[0]);
    if (!pool) {
        return HR_E_NOMEM_HOST;
    }
    pool->count = count;
    pool->range_count = count < MOST_RANGES ? count : MOST_RANGES;
    atomic_init(&pool->keep, count);
    pool->may_look = count <= cores;
    pool->caller_look_ns = MOST_LOOK_NS;
    pthread_mutex_init(&pool->turn, NULL);
    /* Signals are the program's: its threads take them, ours never do. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    hr_status status = HR_OK;
    while (status == HR_OK && pool->started < count - 1) {
        status = start_worker(pool);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status != HR_OK) {
        hri_threads_destroy(pool);
        return status;
    }
    *out = pool;
    return HR_OK;
}

void hri_threads_destroy(hri_threads *pool) {
    if (!pool) {
        return;
    }
    stop_workers(pool, 0);
    pthread_mutex_destroy(&pool->turn);
    hri_free(pool);
}

void hri_threads_shrink(hri_threads *pool, uint32_t count) {
    count = count ? count : 1;
    if (pool && count < pool->count) {
        stop_workers(pool, count);
        pool->count = count;
    }
}

uint32_t hri_threads_count(const hri_threads *pool) {
    return pool ? pool->count : 1;
}

static void publish(hri_threads *pool, uint32_t task_count, hri_task_fn *fn, void *arg) {
    pool->fn = fn;
    pool->arg = arg;
    pool->task_count = task_count;
    atomic_store_explicit(&pool->undone, task_count, memory_order_relaxed);
    for (uint32_t i = 0; i < pool->range_count; i++) {
        atomic_store_explicit(&pool->ranges[i].left,
                              range_begin(pool, i + 1) - range_begin(pool, i),
                              memory_order_release);
    }
    /* Sequentially consistent, as is the sleeper's count: either we see the sleeper, or its futex
     * sees the new round and does not sleep. */
    atomic_fetch_add(&pool->round, 1);
    const uint32_t sleepers = atomic_load(&pool->sleepers);
    if (sleepers) {
        wake(&pool->round, sleepers < task_count - 1 ? sleepers : task_count - 1);
    }
}

static void wait_until_done(hri_threads *pool) {
    while (atomic_load_explicit(&pool->undone, memory_order_acquire) != 0) {
        if (pool->may_look && look(&pool->undone, 0, true, &pool->caller_look_ns)) {
            return;
        }
        atomic_store(&pool->caller_sleeps, true);
        const uint32_t undone = atomic_load(&pool->undone);
        if (undone) {
            sleep_on(&pool->undone, undone);
        }
        atomic_store(&pool->caller_sleeps, false);
    }
}

void hri_threads_run(hri_threads *pool, uint32_t task_count, hri_task_fn *fn, void *arg) {
    if (!pool || pool->count == 1 || task_count <= 1 || inside_task) {
        for (uint32_t task = 0; task < task_count; task++) {
            fn(arg, task, 0);
        }
        return;
    }
    pthread_mutex_lock(&pool->turn);
    publish(pool, task_count, fn, arg);
    inside_task = true;
    work(pool, 0);
    inside_task = false;
    wait_until_done(pool);
    pthread_mutex_unlock(&pool->turn);
}

typedef struct range_job {
    uint64_t n, chunk_items;
    hri_range_fn *fn;
    void *arg;
} range_job;

static void run_chunk(void *arg, uint32_t task, uint32_t number) {
    const range_job *job = arg;
    uint64_t begin, end;
    hri_chunk(job->n, job->chunk_items, task, &begin, &end);
    job->fn(job->arg, begin, end, number);
}

void hri_threads_range(hri_threads *pool, uint64_t n, uint64_t chunk_items, hri_range_fn *fn,
                       void *arg) {
    range_job job = {n, chunk_items ? chunk_items : 1, fn, arg};
    while (hri_chunk_count(n, job.chunk_items) > INT32_MAX) {
        job.chunk_items *= 2;
    }
    hri_threads_run(pool, (uint32_t)hri_chunk_count(n, job.chunk_items), run_chunk, &job);
}

double hri_sum(const double *partials, size_t n) {
    if (n <= 8) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            sum += partials[i];
        }
        return sum;
    }
    return hri_sum(partials, n / 2) + hri_sum(partials + n / 2, n - n / 2);
}
