/* Plans of one training, of several over one arena, and of several in slices; see together_plan.h. */
#include "job/together_plan.h"

#include "base/alloc.h"

static hr_status fit(hri_train_job *j) {
    const hr_status status = hri_plan_job_fit(j->plan);
    j->why = status == HR_OK ? j->why : j->plan->why;
    return status;
}

/* One after the other, and the memory that it took goes back: what is asked next opens one at a time.  *too_large: the
 * budget leaves no room to plan one of them. */
static hr_status fit_each(hri_together *t, bool *too_large) {
    hr_status status = HR_OK;
    *too_large = false;
    for (uint32_t i = 0; i < t->count && status == HR_OK; i++) {
        status = fit(&t->jobs[i]);
        hri_fit_rest(&t->jobs[i].plan->fit);
        *too_large |= t->jobs[i].plan->fit.too_large != 0;
    }
    return status;
}

/* Plans a job anew with what is now known of the others. */
static hr_status plan_again(hri_together *t, uint32_t i, uint64_t below, uint64_t above,
                            uint64_t runtime) {
    hri_train_job *j = &t->jobs[i];
    const uint64_t parts = j->plans->c->parts;
    hri_fit_plans_deinit(j->plans);
    hri_fit_close(&j->plan->fit);
    j->plan->job.below_bytes = below;
    j->plan->job.above_bytes = above;
    j->plan->job.runtime_bytes = runtime;
    j->plan->job.parts = (int64_t)parts;
    hri_prose why = {""};
    hr_status status = hri_fit_open(&j->plan->job, &j->plan->fit, &why);
    const hri_fit_fact *floor = NULL;
    if (status == HR_OK) {
        status = hri_fit_floor(&j->plan->fit, &floor, &why);
    }
    if (status != HR_OK) {
        return hri_why_prose(&j->why, hri_cause_of(status), status, NULL, &why);
    }
    j->plan->floor_bytes = floor->floor_bytes;
    t->taken_bytes[i] = 0; /* the others are in the job now */
    return hri_train_plan(j);
}

/* What a case takes of the runtime for its records. */
static uint64_t records_of(const hri_train_job *j, uint64_t runtime_bytes) {
    return runtime_bytes > j->plan->job.runtime_bytes ? runtime_bytes - j->plan->job.runtime_bytes
                                                      : 0;
}

/* What the others take of the budget, as far as it is known before they are planned; never a matter of the budget. */
static uint64_t taken_from(const hri_together *t, uint32_t i, uint64_t runtime) {
    uint64_t taken = runtime - t->jobs[i].plan->job.runtime_bytes;
    for (uint32_t k = 0; k < t->count; k++) {
        const hri_fit_fact *other = &t->jobs[k].plan->fit.facts[0];
        taken += k == i ? 0 : other->own_bytes + records_of(&t->jobs[k], other->runtime_bytes);
    }
    return taken;
}

/* What each takes once it is cut: persistent bytes, records of its case, and all of it alone. */
typedef struct found {
    uint64_t own[HRI_TOGETHER_MAX], records[HRI_TOGETHER_MAX], alone[HRI_TOGETHER_MAX];
} found;

/* How each is cut, with the others' weights in the way.  When one does not fit, the rest are asked all the same. */
static hr_status plan_each(hri_together *t, uint64_t runtime, found *f) {
    const uint64_t budget = t->jobs[0].plan->budget_bytes;
    uint64_t most = 0;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < t->count && status == HR_OK; i++) {
        hri_train_job *j = &t->jobs[i];
        const uint64_t taken = taken_from(t, i, runtime);
        t->taken_bytes[i] = taken;
        j->plan->budget_bytes = budget > taken ? budget - taken : 1;
        status = hri_train_plan(j);
        j->plan->budget_bytes = budget;
        if (status == HR_OK && j->answer->fits) {
            f->own[i] = j->plans->c->own_bytes;
            f->records[i] = records_of(j, j->plans->c->runtime_bytes);
            f->alone[i] = j->row.peak_bytes;
        } else if (status == HR_OK) {
            const uint64_t least = j->row.peak_bytes + taken;
            t->which = least > most ? i : t->which;
            most = least > most ? least : most;
        } else {
            t->which = i;
        }
    }
    return status;
}

/* The runtime was measured for each; the process is one, its pipelines are many. */
static uint64_t common_runtime(const hri_together *t) {
    uint32_t largest = 0;
    for (uint32_t i = 1; i < t->count; i++) {
        if (t->jobs[i].plan->job.runtime_bytes >= t->jobs[largest].plan->job.runtime_bytes) {
            largest = i;
        }
    }
    uint64_t runtime = t->jobs[largest].plan->job.runtime_bytes;
    for (uint32_t i = 0; i < t->count; i++) {
        runtime += i == largest ? 0 : t->jobs[i].plan->data_bytes + t->jobs[i].own_bytes;
    }
    return runtime;
}

/* Plans that were made one by one, over one arena. */
static hr_status plan_over(hri_together *t, uint64_t runtime, const found *f) {
    uint64_t data = 0, own = 0, records = 0, below = 0, peak = 0;
    hr_status status = HR_OK;
    t->separate_bytes = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        t->separate_bytes += f->alone[i];
        data += t->jobs[i].train_bytes + t->jobs[i].val_bytes;
        own += f->own[i];
        records += f->records[i];
    }
    for (uint32_t i = 0; i < t->count && status == HR_OK && hri_together_fits(t); i++) {
        hri_train_job *j = &t->jobs[i];
        t->which = i;
        j->plan->data_bytes = j->plan->threads ? data : 0;
        status =
            plan_again(t, i, below, own - below - f->own[i], runtime + records - f->records[i]);
        below += f->own[i];
        peak = j->row.peak_bytes > peak ? j->row.peak_bytes : peak;
    }
    const uint64_t budget = t->jobs[0].plan->budget_bytes;
    t->left_bytes = budget > peak ? budget - peak : 0;
    return status;
}

/* Did the bound on planning (plan_job.h) end it? */
static bool is_bounded(hr_status status) {
    return status == HR_E_NOMEM_HOST && hri_alloc_bound_hit();
}

static hr_status plan_for_budget(hri_together *t, bool *too_large) {
    found f = {{0}, {0}, {0}};
    const uint64_t runtime = common_runtime(t);
    hr_status status = fit_each(t, too_large);
    if (status == HR_OK && !*too_large) {
        status = plan_each(t, runtime, &f);
    }
    if (status == HR_OK && !*too_large && hri_together_fits(t)) {
        status = plan_over(t, runtime, &f);
    }
    *too_large |= is_bounded(status);
    for (uint32_t i = 0; i < t->count; i++) {
        *too_large |= t->jobs[i].answer->at_least_bytes != 0;
    }
    return *too_large ? HR_OK : status;
}

/* ---- the smallest budget of all of them ---- */

/* A job as it was before it was planned. */
typedef struct before {
    uint64_t runtime_bytes, data_bytes;
    int64_t parts;
    hri_plan_answer answer; /* the refusal, for its words */
    hri_plan_row row;
    uint64_t floor_bytes, taken_bytes;
    hri_listener listener;
} before;

static void remember(const hri_together *t, before *of) {
    for (uint32_t i = 0; i < t->count; i++) {
        const hri_plan_job *p = t->jobs[i].plan;
        of[i].runtime_bytes = p->job.runtime_bytes;
        of[i].data_bytes = p->data_bytes;
        of[i].parts = p->job.parts;
    }
}

/* Everything that planning has set, back to where it was; the budget is another. */
static void begin_again(hri_together *t, const before *of, uint64_t budget) {
    for (uint32_t i = 0; i < t->count; i++) {
        hri_train_job *j = &t->jobs[i];
        hri_plan_job *p = j->plan;
        hri_fit_plans_deinit(j->plans);
        hri_fit_close(&p->fit);
        hri_timing_close(p->timing);
        p->timing = NULL;
        p->job.time_ns = NULL;
        p->job.time_user = NULL;
        p->job.runtime_bytes = of[i].runtime_bytes;
        p->job.below_bytes = p->job.above_bytes = 0;
        p->job.parts = of[i].parts;
        p->data_bytes = of[i].data_bytes;
        p->budget_bytes = budget;
        p->smallest = (hri_plan_row){0};
        hri_train_set_comfort(j);
    }
}

/* Where the search for it begins: what each needs by itself, and what the others take.  No matter of the budget. */
static hr_status estimate(hri_together *t, uint64_t *out, bool *too_large) {
    const uint64_t runtime = common_runtime(t);
    *out = 0;
    hr_status status = fit_each(t, too_large);
    for (uint32_t i = 0; i < t->count && status == HR_OK && !*too_large; i++) {
        hri_train_job *j = &t->jobs[i];
        hri_plan_row row = {0};
        hri_prose why = {""};
        status = hri_plan_job_smallest(j->plan, &row, &why);
        *too_large = status == HR_E_NO_PLAN || j->plan->fit.least_open || is_bounded(status);
        if (*too_large) {
            return HR_OK;
        }
        if (status != HR_OK) {
            return hri_train_failed(j, status, &why);
        }
        const uint64_t least = row.peak_bytes + taken_from(t, i, runtime);
        *out = least > *out ? least : *out;
    }
    return status;
}

/* Plans for growing budgets until one does: the smallest that is named is one that was planned for.  Jobs are left as they
 * were planned for it. */
static hr_status find_least(hri_together *t, const before *of, uint64_t *out, bool *too_large) {
    enum { ROUNDS = 16, PAGE_BYTES = 256 << 10 };
    uint64_t least = 0;
    begin_again(t, of, 0);
    hr_status status = estimate(t, &least, too_large);
    for (int i = 0; i < ROUNDS && status == HR_OK && !*too_large; i++) {
        least = (least + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
        begin_again(t, of, least);
        status = plan_for_budget(t, too_large);
        if (status != HR_OK || hri_together_fits(t)) {
            break;
        }
        least += least / 16;
    }
    *out = least;
    return status;
}

/* No room to find it: persistent values of all, beside what the process takes, is the least that is known. */
static void set_bound(hri_together *t) {
    const uint64_t budget = t->jobs[0].plan->budget_bytes;
    uint64_t least = common_runtime(t);
    for (uint32_t i = 0; i < t->count; i++) {
        least += hri_plan_job_persistent(t->jobs[i].plan);
        t->jobs[i].answer->fits = false;
    }
    t->at_least = true;
    t->least_bytes = least > budget ? least : budget + 1;
}

/* One refused, all the others with it, unless the smallest plan of all of them is small enough: so whatever is above the
 * budget that is named is never refused. */
static hr_status plan_smallest(hri_together *t, before *of) {
    const uint64_t budget = t->jobs[0].plan->budget_bytes;
    const uint32_t which = t->which;
    uint64_t least = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        of[i].answer = *t->jobs[i].answer;
        of[i].row = t->jobs[i].row;
        of[i].floor_bytes = t->jobs[i].plan->floor_bytes;
        of[i].taken_bytes = t->taken_bytes[i];
    }
    for (uint32_t i = 0; i < t->count; i++) { /* what is tried on the way is nobody's warning */
        of[i].listener = t->jobs[i].listener;
        t->jobs[i].listener = (hri_listener){0};
    }
    bool too_large = false;
    const hr_status status = find_least(t, of, &least, &too_large);
    for (uint32_t i = 0; i < t->count; i++) {
        t->jobs[i].listener = of[i].listener;
    }
    if (status != HR_OK) {
        return status;
    }
    const bool fits = !too_large && hri_together_fits(t) && least <= budget;
    for (uint32_t i = 0; i < t->count; i++) {
        t->jobs[i].plan->budget_bytes = budget;
        t->jobs[i].row.budget_bytes = budget;
    }
    if (fits) {
        t->left_bytes += budget - least;
        return HR_OK;
    }
    t->which = which;
    t->least_bytes = least;
    if (too_large) {
        begin_again(t, of, budget);
        set_bound(t);
    }
    for (uint32_t i = 0; i < t->count; i++) {
        hri_fit_plans_deinit(t->jobs[i].plans);
        *t->jobs[i].answer = of[i].answer;
        t->jobs[i].row = of[i].row;
        t->jobs[i].plan->floor_bytes = of[i].floor_bytes;
        t->taken_bytes[i] = of[i].taken_bytes;
    }
    return HR_OK;
}

static hr_status plan_all(hri_together *t) {
    before *of = hri_calloc(t->count, sizeof *of);
    if (!of) {
        return HR_E_NOMEM_HOST;
    }
    remember(t, of);
    bool too_large = false;
    hr_status status = plan_for_budget(t, &too_large);
    if (status == HR_OK && too_large) {
        begin_again(t, of, t->jobs[0].plan->budget_bytes);
        set_bound(t);
        t->jobs[t->which].plan->floor_bytes = t->least_bytes;
    } else if (status == HR_OK && !hri_together_fits(t)) {
        status = plan_smallest(t, of);
    }
    hri_free(of);
    return status;
}

/* Each in its slice: the arena must fit there, and all of it the budget. */
static hr_status plan_slices(hri_together *t) {
    const uint64_t budget = t->jobs[0].plan->budget_bytes;
    uint64_t data = 0, sum = 0;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < t->count; i++) {
        data += t->jobs[i].plan->data_bytes;
        sum += t->slices[i];
        t->jobs[i].plan->comfort_bytes = 0; /* a slice is no budget of the process */
    }
    for (uint32_t i = 0; i < t->count && status == HR_OK; i++) {
        hri_train_job *j = &t->jobs[i];
        j->plan->job.runtime_bytes += data - j->plan->data_bytes;
        j->plan->data_bytes = data;
        status = fit(j);
        if (status != HR_OK) {
            break;
        }
        const uint64_t runtime = j->plan->fit.facts[0].runtime_bytes;
        if (budget && runtime + sum > budget) {
            return hri_why_set(&j->why, HR_CAUSE_USAGE, HR_E_INVALID,
                               "`logical_devices`: %llu bytes of logical devices and %llu bytes "
                               "of the process exceed the budget of %llu",
                               (unsigned long long)sum, (unsigned long long)runtime,
                               (unsigned long long)budget);
        }
        t->left_bytes = budget ? budget - runtime - sum : 0;
        j->plan->budget_bytes = runtime + t->slices[i];
        j->process_bytes = runtime + sum; /* what is measured is all of them */
        t->which = i;
        status = hri_train_plan(j);
        t->separate_bytes += j->row.peak_bytes;
        if (status == HR_OK && !j->answer->fits) {
            break;
        }
    }
    return status;
}

static hr_status plan_one(hri_together *t) {
    hri_train_job *j = &t->jobs[0];
    hr_status status = fit(j);
    if (status == HR_OK) {
        status = hri_train_plan(j);
    }
    const uint64_t budget = j->plan->budget_bytes, peak = j->row.peak_bytes;
    t->left_bytes = budget > peak ? budget - peak : 0;
    return status;
}

hr_status hri_together_plan_jobs(hri_together *t) {
    return t->slices[0] ? plan_slices(t) : t->count == 1 ? plan_one(t) : plan_all(t);
}
