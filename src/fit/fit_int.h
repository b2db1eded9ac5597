/* Between the files of fit.h: making and dropping a case, effort, sizes of parts. */
#ifndef HRI_FIT_FIT_INT_H
#define HRI_FIT_FIT_INT_H

#include "base/alloc.h"
#include "fit/fit.h"

/* A nominal case. */
HR_MUST_CHECK hr_status hri_fit_case_open(const hri_fit_job *job, int64_t part, hri_fit_case **out,
                                          hri_prose *why);
/* NULL is allowed. */
void hri_fit_case_close(hri_fit_case *c);
/* GPU: runtime as it is now, and the floor that follows. */
void hri_fit_case_measure(const hri_fit_job *job, hri_fit_case *c);
/* What the whole of it takes with an arena of that size. */
uint64_t hri_fit_peak(const hri_fit_job *job, const hri_fit_case *c, uint64_t arena_bytes);
/* Micro-batches that are asked for: replicas have one each where nobody says; 0: as many as is fastest. */
static inline int64_t hri_fit_parts(const hri_fit_job *job) {
    return job->parts == 0 && job->replicas > 1 ? (int64_t)job->replicas : job->parts;
}
/* Do replicas hold slices? */
static inline int hri_fit_shared(const hri_fit_job *job) {
    return job->replicas > 1;
}
static inline uint32_t hri_fit_arenas(const hri_fit_job *job) {
    return job->arenas ? job->arenas : 1;
}
static inline uint32_t hri_fit_threads(const hri_fit *f) {
    return f->job.machine.threads > 1 ? f->job.machine.threads : 1;
}
/* What is remembered of the case with parts of this size; NULL: it was never open. */
const hri_fit_fact *hri_fit_fact_of(const hri_fit *f, int64_t part);
/* In whole pages of the job. */
uint64_t hri_fit_pages(const hri_fit_job *job, uint64_t bytes);
/* Is the nominal machine the machine as it is, with all its threads? */
int hri_fit_is_nominal(const hri_fit_job *job);
/* GPU: times ops that go together in a step as they are launched, and, with `set`, gives the problem what was measured; without, it
 * is for what that loads.  HR_OK also where nothing can be measured. */
HR_MUST_CHECK hr_status hri_fit_company(const hri_fit_job *job, const hr_graph *g, hri_problem *p,
                                        int set);
void hri_fit_memos_deinit(hri_fit_memos *memos);

/* As hri_fit_case_plan, going on from what the memos hold. */
HR_MUST_CHECK hr_status hri_fit_case_plan_on(const hri_fit *f, hri_fit_case *c,
                                             uint64_t budget_bytes, uint64_t effort,
                                             hri_fit_memos *memos, hri_fit_plans *out,
                                             hri_prose *why);
/* The choices behind plans, lent; 0: one of them has none. */
int hri_fit_choices(const hri_fit_plans *plans, uint32_t count, hri_fit_memos *out);
/* Sums of the plans, from the case they are attached to. */
void hri_fit_add_up(const hri_fit_job *job, hri_fit_plans *plans);

/* Steps of search for this share of the job's effort. */
uint64_t hri_fit_effort(const hri_fit_job *job, uint32_t share);
/* Sizes of parts to try, the largest first: number `at`, or 0 when there are no more. */
int64_t hri_fit_part_at(const hri_fit *f, uint32_t at);
/* Of a case that a bound on memory keeps from being opened, beside that of the whole batch. */
void hri_fit_remember_unopened(hri_fit *f, int64_t part);
/* Did it fail because of a bound on memory, and not because there is none? */
static inline int hri_fit_bounded(hr_status status) {
    return status == HR_E_NOMEM_HOST && hri_alloc_bound_hit();
}
/* No budget under this is worth a look for the case. */
static inline uint64_t hri_fit_least_of(const hri_fit_fact *fact) {
    return fact->floor_bytes > fact->planning_bytes ? fact->floor_bytes : fact->planning_bytes;
}
/* Is so much memory enough to plan the case in?  0: no bound. */
static inline int hri_fit_may_plan(const hri_fit_fact *fact, uint64_t budget_bytes) {
    return !budget_bytes || fact->planning_bytes <= budget_bytes;
}

#endif
