/* The object behind hr_plan: a job, its answer, and the plans while nothing runs yet. */
#ifndef HRI_JOB_PLAN_OBJECT_H
#define HRI_JOB_PLAN_OBJECT_H

#include "base/arena.h"
#include "job/answer.h"
#include "job/ways.h"

struct hr_plan {
    hri_arena texts; /* of the options */
    hri_plan_job job;
    hri_plan_road road;
    hri_plan_answer answer;
    hri_fit_plans plans;           /* of a model; without a case: the details were given back */
    hri_plan *plan;                /* of a problem */
    bool used;                     /* it was tried, or a trainer was opened */
    struct hri_together *together; /* the trainings (together.h); NULL: planned without data */
    /* Of the graph whose actions were last asked for: when each begins and ends, and what is alive then. */
    double *begin_ns, *end_ns;
    uint64_t *live_bytes;
    size_t timed_graph; /* SIZE_MAX: none */
};

/* The problem and plan of graph i; NULL at the end, and when the details are gone. */
const hri_plan *hri_plan_of(const hr_plan *plan, size_t graph, const hri_problem **problem);
/* Times of actions that were worked out are no longer those of the plan. */
void hri_plan_forget_times(hr_plan *plan);
/* What planning took goes back before an arena comes, or it would count twice. */
void hri_plan_give_back(hr_plan *plan);
/* The last look before memory is taken: HR_E_LIMIT when the process has grown over what the plan leaves it. */
HR_MUST_CHECK hr_status hri_plan_check_promise(hr_plan *plan, hri_why *why);

struct hri_planned;   /* fit/planned.h */
struct hr_try_result; /* job.h */
/* Looks on while a plan is tried.  Every function may be NULL. */
typedef struct hri_try_watch {
    void *user;
    void (*taken)(void *user, struct hri_planned *planned);              /* before the first step */
    void (*step)(void *user, struct hri_planned *planned, uint64_t done, /* steps that are over */
                 float loss, uint64_t begin_ns, uint64_t end_ns);
    void (*over)(void *user, struct hri_planned *planned); /* what was measured is still there */
} hri_try_watch;
/* hr_job_try, with somebody who looks on (watch may be NULL). */
HR_MUST_CHECK hr_status hri_plan_try(hr_plan *plan, uint64_t steps, float *losses,
                                     const hri_try_watch *watch, struct hr_try_result *out,
                                     hri_why *why);

#endif
