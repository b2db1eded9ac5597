/* One training, or several that take turns in one arena.
 *
 * Between two steps every activation is dead.  So several trainings in one process need the weights and states of all, but
 * activations only of the largest:
 *
 *   arena   | persistent of the first | persistent of the second | ... | activations of whoever runs |
 *
 * Each is planned with the others' persistent bytes reserved at the bottom of its arena; the plans then run over one
 * range.  With slices each has a logical device and an arena of its own instead.  Nothing of one can touch the other, so
 * each has the losses of its solo run, to the bit. */
#ifndef HRI_JOB_TOGETHER_H
#define HRI_JOB_TOGETHER_H

#include "job/plan_object.h"
#include "job/train.h"

enum { HRI_TOGETHER_MAX = 8 };

typedef struct hri_together {
    uint32_t count;
    hri_train_job *jobs;               /* [count] */
    hr_plan *others[HRI_TOGETHER_MAX]; /* of all but the first, owned */
    hri_runner *runner;                /* of several; a single one has its own */
    uint32_t which;                    /* the one that does not fit */
    uint64_t left_bytes;               /* of the budget, beside the plan */
    uint64_t separate_bytes;           /* as many processes would take so much */
    uint64_t least_bytes; /* of a refusal: the smallest budget that all of them were planned for */
    bool at_least;        /* the budget left no room to find it: it is least_bytes or more */
    uint64_t taken_bytes
        [HRI_TOGETHER_MAX]; /* of the budget, by the others: weights, states, records, input */
    uint64_t slices[HRI_TOGETHER_MAX]; /* limits of logical devices; 0: none were given */
    bool started;
} hri_together;

/* Plans them all into `plan`, whose options they are: own[0] are the first's.  slices may be NULL.  HR_OK whether they fit
 * or not: plan->answer.fits.  After a failure *why has it. */
HR_MUST_CHECK hr_status hri_together_plan(hr_plan *plan, hr_ctx *ctx, const hr_job_options *own,
                                          size_t count, const uint64_t *slices, hri_why *why);
/* hr_job_plan_together with slices (may be NULL): limits of logical devices, one for each job. */
HR_MUST_CHECK hr_status hri_job_plan_jobs(hr_ctx *ctx, const hr_job_options *const *jobs,
                                          size_t count, const uint64_t *slices, hr_plan **out,
                                          hr_error *error);
/* Do all of them fit? */
bool hri_together_fits(const hri_together *t);
/* Of several that do not: the floor of all, and a budget that they were planned for (but see at_least). */
void hri_together_least(const hri_together *t, uint64_t *floor_bytes, uint64_t *least_bytes);
/* Leases what the plan promises, before anything is given up for it.  HR_E_AGAIN, HR_E_LIMIT: the plan is as it was. */
HR_MUST_CHECK hr_status hri_together_lease(hri_together *t, hri_why *why);
/* Takes the memory and opens every trainer.  HR_E_NO_PLAN, HR_E_LIMIT ... with *why. */
HR_MUST_CHECK hr_status hri_together_start(hri_together *t, hri_why *why);
/* NULL is allowed. */
void hri_together_close(hri_together *t);

#endif
