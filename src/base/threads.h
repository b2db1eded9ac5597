/* A pool of threads for numbered tasks.
 *
 *   hri_threads_run(pool, n, fn, arg);     fn(arg, 0, w) ... fn(arg, n-1, w), in any order, in parallel
 *
 * The rule that makes results the same for any number of threads: what a task computes depends on its
 * number alone, and a task writes only its own output.  So cut work into chunks whose size does not
 * depend on the number of threads (hri_chunk_count, hri_chunk), and reduce like this:
 *
 *   1. task t sums chunk t, in order, into partial[t];
 *   2. after the run the caller adds up the partials with hri_sum, in the order of the chunks.
 *
 * `worker` only picks scratch memory: it is below hri_threads_count(), and no two tasks of one run that
 * execute at the same time have the same.  Results must not depend on it.
 *
 * The caller takes part; a run from inside a task of any pool is done inline, with worker 0.  Tasks must
 * not wait for one another.  Idle workers look out for a few microseconds, for as long as that has paid
 * of late, and then sleep. */
#ifndef HRI_BASE_THREADS_H
#define HRI_BASE_THREADS_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/status.h>

typedef struct hri_threads hri_threads;
typedef void hri_task_fn(void *arg, uint32_t task, uint32_t worker);
typedef void hri_range_fn(void *arg, uint64_t begin, uint64_t end, uint32_t worker);

/* A pool of `count` threads, the caller of run among them (count 1 starts none).  0: as many as
 * hri_cores_usable().  HR_E_RANGE above 1024; HR_E_NOMEM_HOST when memory or a thread is refused. */
HR_MUST_CHECK hr_status hri_threads_create(uint32_t count, hri_threads **out);
/* No run may be under way.  NULL is allowed. */
void hri_threads_destroy(hri_threads *pool);
/* Ends threads until `count` (at least 1) are left; the pool stays where it is, for all who use it.  No run may be under
 * way.  NULL is allowed. */
void hri_threads_shrink(hri_threads *pool, uint32_t count);
/* 1 for NULL. */
uint32_t hri_threads_count(const hri_threads *pool);

/* Returns when all tasks are done; what they wrote is visible then.  pool NULL: inline, in order.  Any
 * thread; runs of several threads on one pool take turns.  It cannot fail. */
void hri_threads_run(hri_threads *pool, uint32_t task_count, hri_task_fn *fn, void *arg);
/* The same over the items [0, n) in chunks of chunk_items (0 counts as 1): fn gets [begin, end).  Chunks
 * grow by doubling when there would be more than 2^31 of them, which again depends on n alone. */
void hri_threads_range(hri_threads *pool, uint64_t n, uint64_t chunk_items, hri_range_fn *fn,
                       void *arg);

/* n items in chunks of chunk_items (> 0): how many, and which items chunk `at` has. */
static inline uint64_t hri_chunk_count(uint64_t n, uint64_t chunk_items) {
    return n / chunk_items + (n % chunk_items != 0);
}
static inline void hri_chunk(uint64_t n, uint64_t chunk_items, uint64_t at, uint64_t *begin,
                             uint64_t *end) {
    *begin = at * chunk_items;
    *end = n - *begin < chunk_items ? n : *begin + chunk_items;
}

/* Sum of partials by halves: the order depends on n alone, and the error grows with log n. */
double hri_sum(const double *partials, size_t n);

#endif
