/* The budget: one ledger for all memory, wherever it is.
 *
 *   hr_budget *budget;
 *   hr_budget_create(ctx, "cuda:0=6GiB,host=2GiB", &budget, &why);
 *   hr_lease_request(budget, &(hr_lease_options){.size = sizeof(hr_lease_options), .name = "tokenizer",
 *                                                .wanted_bytes = 64 << 20}, &lease, &why);
 *
 * A budget consists of pools.  A pool is one memory with a limit: "host" (resident memory of this process) or a device
 * ("cuda:0": what NVML reports for it).  Two pools are part of the host's: "pinned" (host memory for device copies) and
 * "input" (input pipelines); their bytes count in both.  A lease promises bytes of one pool to one holder.  Two
 * invariants hold in every pool at all times, for any number of threads:
 *
 *   sum of granted <= limit         except right after a limit was lowered, until holders have shrunk
 *   held <= granted                 for each lease; held is what the holder has physically taken
 *
 * What the process has before any tensor (code, libraries, a GPU's context) is a lease named "runtime", taken once however
 * many jobs there are, while a job holds memory of that pool.
 *
 * Shrinking is requested, never forced: when a limit is lowered, and when a request is short of memory that others could
 * do without.  The holder sees the request when it polls (hr_lease_asked) and answers by resizing its lease, or declines
 * and states its minimum.  A holder that can answer from any thread, such as a cache, has on_shrink called instead.
 *
 * Threads: any thread may call anything here; one lease is used by one thread at a time. */
#ifndef HEADROOM_BUDGET_H
#define HEADROOM_BUDGET_H

#include <headroom/context.h>

HR_BEGIN_DECLS

typedef struct hr_budget hr_budget;
typedef struct hr_lease hr_lease;

/* "SIZE" (of the host) or "POOL=SIZE,...".  Sizes as in bytes.h; percentages are of the memory's total.  A pool that is
 * not mentioned is limited by what its memory has free when it is first asked for; NULL or "" mentions none.
 * HR_E_INVALID, HR_E_NOT_FOUND (no such device) or HR_E_RANGE (more than the memory has), with the reason in *why (may
 * be NULL). */
HR_API HR_MUST_CHECK hr_status hr_budget_create(hr_ctx *ctx, const char *text, hr_budget **out,
                                                hr_error *why);
/* HR_E_BUSY while there are leases.  NULL is allowed. */
HR_API HR_MUST_CHECK hr_status hr_budget_destroy(hr_budget *budget);

/* Takes effect at once for new leases.  When more than the new limit is granted, holders are asked to shrink, the one
 * furthest above its minimum first, and HR_E_AGAIN is returned. */
HR_API HR_MUST_CHECK hr_status hr_budget_set_limit(hr_budget *budget, const char *pool,
                                                   uint64_t limit_bytes);

typedef struct hr_pool_info {
    size_t size;      /* set by the caller to sizeof(hr_pool_info) */
    const char *name; /* valid as long as the budget */
    uint64_t limit_bytes, granted_bytes, held_bytes;
    uint64_t peak_bytes; /* the most that was held */
    uint64_t free_bytes; /* a request for this much would be granted now */
    uint32_t lease_count, waiting_count;
} hr_pool_info;

/* Pool 0, 1, ... until HR_E_EOF.  Pools appear when they are first used. */
HR_API HR_MUST_CHECK hr_status hr_budget_get_pool(hr_budget *budget, size_t index,
                                                  hr_pool_info *out);

/* ---- leases ---- */

/* Called at least every 100 ms while a request waits; any status but HR_OK ends the wait with that status. */
typedef hr_status hr_wait_fn(void *user, uint64_t waited_ms);

/* The lease is asked to shrink to `bytes`.  Runs on the thread that asks, which is somebody else's; may answer at once
 * (hr_lease_hold, _resize, _decline) or leave it to a later poll.  It may not release the lease, and must not wait for a
 * thread that does. */
typedef void hr_shrink_fn(void *user, hr_lease *lease, uint64_t bytes);

/* Zero is the default in every field but name and wanted_bytes.  Set size to sizeof(hr_lease_options). */
typedef struct hr_lease_options {
    size_t size;
    const char *pool; /* NULL: "host" */
    const char *name; /* of the holder, for errors and listings; 1 to 47 bytes, copied */
    uint64_t wanted_bytes;
    uint64_t least_bytes; /* less would be useless; 0: wanted_bytes */
    uint64_t wait_ms;     /* how long to wait for memory that others hold; 0: not at all */
    hr_wait_fn *on_wait;  /* may be NULL */
    void *user;
    hr_shrink_fn *on_shrink; /* NULL: the holder polls */
    void *shrink_user;
} hr_lease_options;

/* Grants between least_bytes and wanted_bytes.  HR_E_LIMIT: above the pool's own limit, waiting cannot help.
 * HR_E_AGAIN: others hold the memory and wait_ms have passed; requests are served in order.  Where what others hold above
 * their minimum is enough, they are asked to shrink: with wait_ms 0 only those with on_shrink.  *why (may be NULL) has the
 * numbers and the holders. */
HR_API HR_MUST_CHECK hr_status hr_lease_request(hr_budget *budget, const hr_lease_options *options,
                                                hr_lease **out, hr_error *why);
/* Grows without waiting (HR_E_LIMIT, HR_E_AGAIN as above), or shrinks, but not below what is held (HR_E_BUSY). */
HR_API HR_MUST_CHECK hr_status hr_lease_resize(hr_lease *lease, uint64_t bytes);
/* Reports how many bytes are physically taken: before taking more, and after giving back.  HR_E_LIMIT above granted. */
HR_API HR_MUST_CHECK hr_status hr_lease_hold(hr_lease *lease, uint64_t held_bytes);
/* NULL is allowed. */
HR_API void hr_lease_release(hr_lease *lease);
HR_API uint64_t hr_lease_granted(const hr_lease *lease);

/* The size that the holder is asked to shrink to, or HR_UNKNOWN.  Cheap: call it once per step or batch. */
HR_API uint64_t hr_lease_asked(const hr_lease *lease);
/* Answers a request with "not below least_bytes" and ends it. */
HR_API void hr_lease_decline(hr_lease *lease, uint64_t least_bytes);

typedef struct hr_lease_info {
    size_t size; /* set by the caller to sizeof(hr_lease_info) */
    char pool[48], name[48];
    uint64_t granted_bytes, held_bytes;
    uint64_t least_bytes; /* the holder's minimum, as far as it is known */
    uint64_t asked_bytes; /* HR_UNKNOWN: not asked to shrink */
    uint64_t waiting_ms;  /* 0: not waiting */
} hr_lease_info;

/* All leases of a pool, oldest first, then waiting requests, until HR_E_EOF.  HR_E_NOT_FOUND: no such pool. */
HR_API HR_MUST_CHECK hr_status hr_budget_get_lease(hr_budget *budget, const char *pool,
                                                   size_t index, hr_lease_info *out);
/* Asks the oldest holder of that name to shrink to `bytes`; 0: as far as it can.  HR_E_NOT_FOUND. */
HR_API HR_MUST_CHECK hr_status hr_budget_ask(hr_budget *budget, const char *pool, const char *name,
                                             uint64_t bytes);

/* Walks all invariants: HR_E_INTERNAL when one does not hold. */
HR_API HR_MUST_CHECK hr_status hr_budget_check(hr_budget *budget);

HR_END_DECLS
#endif
