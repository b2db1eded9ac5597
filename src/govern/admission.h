/* A job of our own at the broker's door: `headroom train` and its sisters, and programs that use the library.
 *
 *   hri_admission_options o = {.device = device, .name = "resnet50", .budget = "6GiB", .wait_ms = 600000};
 *   hri_admission_open(&o, &a, &why);           before the device is opened: its context is inside the reservation
 *   hri_admission_resize(a, plan_peak, &why);   when the plan is made
 *   hri_admission_close(a);                     when the memory has gone back
 *
 * The one idea: what is planned is reserved first, as a whole, in the order of asking.  So two trainings that do not fit together
 * come one after the other, and neither meets a program under `headroom run`.  Planning takes device memory too (context,
 * libraries, trials of kernels), so the budget is reserved before it and shrunk to the plan's peak behind it.
 *
 * Without a broker there is no admission and work goes on as if alone: *out is NULL, which every call accepts.  So it is for devices
 * that no broker knows (the host), under `headroom run` (whose library leases for us), and with HEADROOM_BROKER=off.  A broker that
 * dies leaves the reservation in its ledger for as long as this process lives.
 *
 * Threads: one at a time. */
#ifndef HRI_GOVERN_ADMISSION_H
#define HRI_GOVERN_ADMISSION_H

#include <headroom/budget.h>
#include "base/prose.h"

typedef struct hr_device hr_device;
typedef struct hri_admission hri_admission;

/* While it waits, at least every 100 ms; any status but HR_OK ends the wait with that status.  `what` is one sentence: "waiting for
 * 3.2 GiB on cuda:0: held by resnet50 (job 3, 6 GiB for 12 min)". */
typedef hr_status hri_admission_wait_fn(void *user, const char *what, uint64_t waited_ms);

typedef struct hri_admission_options {
    hr_device *device;  /* need not be open */
    const char *name;   /* for everybody else who looks */
    const char *budget; /* as hr_job_options has it; NULL or nonsense: all that is free */
    uint64_t wait_ms; /* for the whole budget; 0: what is free of it now is taken, however little */
    hri_admission_wait_fn *on_wait; /* may be NULL */
    void *user;
} hri_admission_options;

/* HR_E_AGAIN: others hold the memory, and wait_ms have passed; *why has who they are.  HR_OK without an admission and with a
 * sentence in *why: the broker could not be had, though it should have been there. */
HR_MUST_CHECK hr_status hri_admission_open(const hri_admission_options *options,
                                           hri_admission **out, hri_prose *why);
/* What is reserved; UINT64_MAX without an admission. */
uint64_t hri_admission_bytes(const hri_admission *a);
/* Less, or more if it is there: HR_E_AGAIN with who holds it.  A broker that has gone is as good as none: HR_OK. */
HR_MUST_CHECK hr_status hri_admission_resize(hri_admission *a, uint64_t bytes, hri_prose *why);
/* NULL is allowed. */
void hri_admission_close(hri_admission *a);

#endif
