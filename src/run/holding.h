/* What one job holds of a budget: everything that its plan promised, in all memories, from one ledger.
 *
 *   hri_holding_enter(&h, budget, device, process_bytes, &why);     while planning: what is there already is accounted for
 *   most = base + hri_holding_free(&h);                             the budget to plan for
 *   hri_holding_take(&h, &ask, &why);                               before anything is taken: all of it, or nothing
 *   hri_holding_give(&h);
 *
 * The one place where trainings, evaluations, predictors and hr_run ask for memory.  Without a budget of the caller's it is
 * the context's own, which bounds nothing and knows who holds what.
 *
 * Threads: one at a time; the budget may be shared. */
#ifndef HRI_RUN_HOLDING_H
#define HRI_RUN_HOLDING_H

#include <headroom/budget.h>
#include <headroom/device.h>

enum { HRI_HOLDING_LEASES = 3 };

typedef struct hri_holding {
    hr_budget *budget; /* NULL: it has not entered */
    int shared;        /* the caller's: it bounds */
    hr_device *device;
    const char *pool;                     /* of the device */
    hr_lease *leases[HRI_HOLDING_LEASES]; /* device, pinned, host */
} hri_holding;

/* budget NULL: the context's.  process_bytes: what this process has of the device now, as the plan will count it.
 * HR_E_LIMIT, HR_E_AGAIN: not even that is inside the budget. */
HR_MUST_CHECK hr_status hri_holding_enter(hri_holding *h, hr_budget *budget, hr_device *device,
                                          uint64_t process_bytes, hr_error *why);
/* What could be taken of the device now; HR_UNKNOWN: nobody bounds it. */
uint64_t hri_holding_free(const hri_holding *h);
/* The same; where nobody bounds it, what the device has free. */
uint64_t hri_holding_there(const hri_holding *h);
/* What the lease "runtime" of the pool covers: of what is there, the part that is no other job's. */
uint64_t hri_holding_runtime(const hri_holding *h);
/* The pool's limit; HR_UNKNOWN: none. */
uint64_t hri_holding_limit(const hri_holding *h);

typedef struct hri_holding_ask {
    const char *name;      /* of the holder; cut to what a lease's name may have */
    uint64_t device_bytes; /* beside what was there when it entered */
    uint64_t pinned_bytes; /* host memory that a GPU copies from and to; 0: none */
    uint64_t host_bytes;   /* of a GPU's job: other host memory; 0: none */
    uint64_t device_least; /* the least that it could do with; 0: device_bytes */
    uint64_t wait_ms;
    hr_wait_fn *on_wait;
    void *user;
} hri_holding_ask;

/* All of it is held from then on.  HR_E_AGAIN: others hold it and wait_ms have passed.  HR_E_LIMIT. */
HR_MUST_CHECK hr_status hri_holding_take(hri_holding *h, const hri_holding_ask *ask, hr_error *why);
/* The device's lease is asked to shrink to so much; HR_UNKNOWN: it is not. */
uint64_t hri_holding_asked(const hri_holding *h);
/* Another size of it, or "not below". */
HR_MUST_CHECK hr_status hri_holding_resize(hri_holding *h, uint64_t device_bytes);
void hri_holding_decline(hri_holding *h, uint64_t least_bytes);
uint64_t hri_holding_device_bytes(const hri_holding *h);
/* Gives the leases back and stays entered; then all of it.  Zeroed ones are allowed. */
void hri_holding_give_leases(hri_holding *h);
void hri_holding_give(hri_holding *h);

#endif
