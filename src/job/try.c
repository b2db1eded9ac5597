/* A few steps of a plan on made-up data, measured; and what has to happen before any plan runs; see plan_object.h. */
#include <headroom/job.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/grow.h"
#include "job/plan_object.h"
#include "memory/resident.h"
#include "fit/planned.h"

void hri_plan_give_back(hr_plan *p) {
    const hri_fit_case *c = p->plans.c;
    hri_plan_forget_times(p);
    hri_fit_plans_deinit(&p->plans);
    hri_fit_drop_others(&p->job.fit, c);
    hri_fit_release(&p->job.fit);
    hri_timing_close(p->job.timing);
    p->job.timing = NULL;
    p->used = true;
    hri_trim();
}

hr_status hri_plan_check_promise(hr_plan *p, hri_why *why) {
    uint64_t now;
    if (p->job.engine) {
        hri_engine_scratch_drop(p->job.engine);
        now = hri_engine_runtime(p->job.engine);
    } else {
        hri_resident_read(&now, NULL);
    }
    const uint64_t arena = p->answer.row.persistent_bytes + p->answer.row.arena_bytes;
    if (!p->job.budget_bytes || now + arena <= p->job.budget_bytes || p->job.holding.shared) {
        return HR_OK;
    }
    return hri_why_set(why, HR_CAUSE_MACHINE, HR_E_LIMIT,
                       "this process uses %llu bytes before the arena of %llu: over the budget "
                       "of %llu, so nothing was run",
                       (unsigned long long)now, (unsigned long long)arena,
                       (unsigned long long)p->job.budget_bytes);
}

static hr_status check(const hr_plan *p, hri_why *why) {
    if (p->used) {
        return hri_why_set(why, HR_CAUSE_USAGE, HR_E_BUSY, "the plan was already used");
    }
    if (!p->answer.fits) {
        return hri_why_set(why, HR_CAUSE_NO_FIT, HR_E_NO_PLAN, "%s does not fit its budget",
                           p->job.what);
    }
    if (!p->job.model || (!p->job.threads && !p->job.engine)) {
        return hri_why_set(why, HR_CAUSE_USAGE, HR_E_UNSUPPORTED,
                           "works for models, on the host or on a GPU that can run kernels");
    }
    return HR_OK;
}

static hr_status run_step(hri_planned *q, float *losses, const hri_try_watch *watch,
                          hr_try_result *r, hri_prose *prose) {
    hri_numbers numbers = {0};
    const uint64_t begin = hri_clock_ns();
    const hr_status status = hri_planned_step(q, &numbers, prose);
    if (losses) {
        losses[r->steps] = numbers.loss;
    }
    r->steps += status == HR_OK;
    if (status == HR_OK && watch && watch->step) {
        watch->step(watch->user, q, r->steps, numbers.loss, begin, hri_clock_ns());
    }
    return status;
}

static hr_status run_steps(hri_planned *q, uint64_t steps, float *losses,
                           const hri_try_watch *watch, hr_try_result *r, hri_prose *prose) {
    hri_measured m = {0};
    hr_status status = hri_planned_take(q, prose);
    if (status == HR_OK && watch && watch->taken) {
        watch->taken(watch->user, q);
    }
    const uint64_t begin = hri_clock_ns();
    while (r->steps < steps && status == HR_OK) {
        status = run_step(q, losses, watch, r, prose);
    }
    r->seconds = (double)(hri_clock_ns() - begin) / 1e9;
    hri_planned_measure(q, &m);
    r->planned_arena_bytes = m.planned_bytes;
    r->measured_arena_bytes = m.arena_bytes;
    r->measured_peak_bytes = m.peak_bytes;
    if (status == HR_OK && watch && watch->over) {
        watch->over(watch->user, q);
    }
    return status;
}

hr_status hri_plan_try(hr_plan *p, uint64_t steps, float *losses, const hri_try_watch *watch,
                       hr_try_result *r, hri_why *why) {
    hr_status status = check(p, why);
    if (status != HR_OK) {
        return status;
    }
    hri_plan_job_set_threads(&p->job, &p->plans);
    const hri_planned_options o = {.device = p->job.device,
                                   .plans = &p->plans,
                                   .job = &p->job.job,
                                   .threads = p->job.threads,
                                   .seed = p->job.o.seed,
                                   .grow = p->job.o.grow,
                                   .limit = (uint32_t)hr_model_classes(p->job.model)};
    hri_planned *q = NULL;
    hri_prose prose = {0};
    const hri_plan_row *row = &p->answer.row;
    status = hri_plan_job_lease(&p->job, row->peak_bytes - p->job.base_bytes, row, why);
    if (status != HR_OK) {
        return status;
    }
    status = hri_planned_open(&o, &q, &prose);
    if (status == HR_OK) {
        hri_plan_give_back(p);
        status = hri_plan_check_promise(p, why);
    }
    if (status == HR_OK) {
        status = hri_plan_job_reserve(&p->job, p->answer.row.peak_bytes, why);
    }
    if (status == HR_OK) {
        status = run_steps(q, steps, losses, watch, r, &prose);
    }
    hri_planned_close(q);
    hri_holding_give_leases(&p->job.holding);
    return status == HR_OK ? HR_OK : hri_why_prose(why, hri_cause_of(status), status, NULL, &prose);
}

hr_status hr_job_try(hr_plan *p, uint64_t steps, float *losses, hr_try_result *result,
                     hr_error *error) {
    hri_why why = {0};
    hr_try_result r = {.size = sizeof r, .planned_peak_bytes = p->answer.row.peak_bytes};
    hr_status status = hri_plan_try(p, steps, losses, NULL, &r, &why);
    if (status == HR_OK && result) {
        status = hri_give(result, &r, sizeof r);
    }
    if (status != HR_OK) {
        hri_why_give(&why, status, error);
    }
    return status;
}
