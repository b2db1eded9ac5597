/* Side by side through the steps of train.h; see together.h. */
#include "job/together.h"

#include <headroom/bytes.h>

#include "base/alloc.h"
#include "memory/resident.h"

/* ---- planning ---- */

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

/* The others use the device and the threads of the first. */
static void share_device(hri_together *t) {
    hri_plan_job *a = t->jobs[0].plan;
    for (uint32_t i = 1; i < t->count; i++) {
        hri_plan_job *b = t->jobs[i].plan;
        hri_threads_destroy(b->threads);
        hri_timing_close(b->timing);
        hri_engine_close(b->engine);
        hri_admission_close(b->admission); /* the first one's is for all */
        b->admission = NULL;
        b->timing = NULL;
        b->engine = b->job.engine = a->engine;
        b->job.machine.gpu = a->job.machine.gpu;
        b->job.time_ns = a->job.time_ns;
        b->job.time_user = a->job.time_user;
        b->device = a->device;
        b->threads = a->threads;
    }
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

/* What the plan leaves goes to the input pipelines; the process is one, so both count what both got, and its peak is the
 * larger one's. */
static void share_out(hri_together *t) {
    uint64_t given = 0, peak = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        given += hri_train_share_out(&t->jobs[i], t->left_bytes - given);
    }
    for (uint32_t i = 0; i < t->count; i++) {
        hri_train_count_input(&t->jobs[i], given);
        peak = t->jobs[i].row.peak_bytes > peak ? t->jobs[i].row.peak_bytes : peak;
    }
    for (uint32_t i = 0; i < t->count && !t->slices[0]; i++) {
        t->jobs[i].row.peak_bytes = peak;
    }
}

static void bind(hri_train_job *j, hr_plan *p) {
    j->plan = &p->job;
    j->answer = &p->answer;
    j->plans = &p->plans;
    j->road = &p->road;
}

static hr_status make(hri_together *t, hr_ctx *ctx, const hr_job_options *own) {
    static const char *const names[HRI_TOGETHER_MAX] = {"first", "second", "third",   "fourth",
                                                        "fifth", "sixth",  "seventh", "eighth"};
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < t->count && status == HR_OK; i++) {
        hri_train_job *j = &t->jobs[i];
        t->which = i;
        j->name = t->count > 1 ? names[i] : "";
        j->index = i;
        j->own_refusal = t->count > 1 || t->slices[0];
        status = hri_train_look(j, ctx, &own[i]);
        if (status == HR_OK && (own[i].replicas > 1 || j->plan->job.replicas > 1) &&
            (t->count > 1 || t->slices[0])) {
            status = hri_why_option(&j->why, HR_E_UNSUPPORTED, "replicas",
                                    " cannot be combined with runs that share an arena");
        }
    }
    for (uint32_t i = 0; i < t->count && status == HR_OK; i++) {
        t->which = i;
        t->jobs[i].beside = i ? t->jobs[0].folder : NULL;
        status = hri_train_size(&t->jobs[i]);
    }
    if (status != HR_OK) {
        return status;
    }
    t->which = 0;
    if (t->count > 1) {
        share_device(t);
    }
    hri_alloc_bound bound;
    hri_plan_job_bound(t->jobs[0].plan, true, &bound);
    status = t->slices[0] ? plan_slices(t) : t->count == 1 ? plan_one(t) : plan_all(t);
    hri_alloc_bound_close(&bound);
    if (status == HR_OK && hri_together_fits(t)) {
        share_out(t);
    } else if (status == HR_OK) {
        hri_plan_job_name_holders(t->jobs[0].plan);
    }
    return status;
}

hr_status hri_together_plan(hr_plan *plan, hr_ctx *ctx, const hr_job_options *own, size_t count,
                            const uint64_t *slices, hri_why *why) {
    hri_together *t = hri_calloc(1, sizeof *t);
    hri_train_job *jobs = hri_calloc(count, sizeof *jobs);
    if (!t || !jobs) {
        hri_free(t);
        hri_free(jobs);
        return hri_why_set(why, HR_CAUSE_MACHINE, HR_E_NOMEM_HOST, "out of memory for the job");
    }
    t->jobs = jobs;
    t->count = (uint32_t)count;
    plan->together = t;
    for (uint32_t i = 0; i < t->count; i++) {
        t->jobs[i].resume.file.fd = -1;
        t->slices[i] = slices ? slices[i] : 0;
    }
    bind(&t->jobs[0], plan);
    for (uint32_t i = 1; i < t->count; i++) {
        t->others[i] = hri_calloc(1, sizeof *t->others[i]);
        if (!t->others[i]) {
            return hri_why_set(why, HR_CAUSE_MACHINE, HR_E_NOMEM_HOST, "out of memory for the job");
        }
        t->others[i]->timed_graph = SIZE_MAX;
        bind(&t->jobs[i], t->others[i]);
    }
    const hr_status status = make(t, ctx, own);
    if (status != HR_OK) {
        *why = t->jobs[t->which].why;
    }
    return status;
}

bool hri_together_fits(const hri_together *t) {
    bool fits = true;
    for (uint32_t i = 0; i < t->count; i++) {
        fits = fits && t->jobs[i].answer->fits;
    }
    return fits;
}

void hri_together_least(const hri_together *t, uint64_t *floor_bytes, uint64_t *least_bytes) {
    const hri_train_job *j = &t->jobs[t->which];
    *floor_bytes = t->at_least ? t->least_bytes : j->plan->floor_bytes + t->taken_bytes[t->which];
    *least_bytes = t->least_bytes ? t->least_bytes : j->row.peak_bytes;
}

/* ---- starting ---- */

static hr_status open_runner(hri_together *t, hri_prose *why) {
    const hri_train_job *a = &t->jobs[0];
    hri_runner_options o = {.device = a->plan->device,
                            .threads = a->plan->threads,
                            .engine = a->plan->job.engine,
                            .grow = a->o.grow,
                            .runtime_bytes = a->row.runtime_bytes};
    for (uint32_t i = 0; i < t->count; i++) {
        hri_runner_options one = {0};
        hri_fit_runner(t->jobs[i].plans, &one);
        for (uint32_t k = 0; k < one.count; k++) {
            one.pieces[k].seed = t->jobs[i].seeds.dropout;
            one.pieces[k].init_mask = t->jobs[i].seeds.dropout ^ t->jobs[i].seeds.init;
            o.pieces[o.count++] = one.pieces[k];
        }
    }
    return hri_runner_open(&o, &t->runner, why);
}

static void log_of_planned(void *user, hr_log_level level, const char *line) {
    const hri_train_job *j = user;
    (void)level;
    hri_listener_warn(&j->listener, NULL, "%s", line);
}

static hr_status open_planned(hri_together *t, hri_prose *why) {
    static const char *const names[HRI_TOGETHER_MAX] = {"slice 0", "slice 1", "slice 2", "slice 3",
                                                        "slice 4", "slice 5", "slice 6", "slice 7"};
    hr_status status = t->count > 1 && !t->slices[0] ? open_runner(t, why) : HR_OK;
    uint32_t first = 0;
    for (uint32_t i = 0; i < t->count && status == HR_OK; i++) {
        hri_train_job *j = &t->jobs[i];
        const hri_planned_options o = {.device = j->plan->device,
                                       .plans = j->plans,
                                       .runner = t->runner,
                                       .first_piece = t->runner ? first : 0,
                                       .name = t->slices[i] ? names[i] : NULL,
                                       .limit_bytes = t->slices[i],
                                       .grow = t->jobs[0].o.grow,
                                       .job = &j->plan->job,
                                       .net = j->net,
                                       .engines = j->plan->engines,
                                       .engine_count =
                                           j->plan->engines ? 1 + j->plan->other_count : 0,
                                       .threads = j->plan->threads,
                                       .seed = j->seeds.dropout,
                                       .init_mask = j->seeds.dropout ^ j->seeds.init,
                                       .feed = hri_feeds_feed,
                                       .feed_user = &j->feeds,
                                       .log = log_of_planned,
                                       .log_user = j};
        first += j->plans->c->count;
        status = hri_planned_open(&o, &j->planned, why);
    }
    return status;
}

/* The last look before memory is taken: a plan that would break the promise does not run. */
static hr_status check_promise(const hri_together *t, hri_why *why) {
    const hri_train_job *j = &t->jobs[0];
    hri_measured m;
    uint64_t now;
    hri_planned_measure(j->planned, &m);
    if (j->plan->engine) {
        hri_engine_scratch_drop(j->plan->engine);
        now = hri_engine_runtime(j->plan->engine);
    } else {
        hri_resident_read(&now, NULL);
    }
    uint64_t needed = now + m.planned_bytes + j->plan->data_bytes;
    for (uint32_t i = 1; i < t->count && !t->runner; i++) {
        hri_planned_measure(t->jobs[i].planned, &m);
        needed += m.planned_bytes;
    }
    if (!j->plan->budget_bytes || t->slices[0] || needed <= j->plan->budget_bytes) {
        return HR_OK;
    }
    if (j->plan->holding.shared) {
        return HR_OK; /* others of this process may have grown: all that was leased is inside */
    }
    return hri_why_set(why, HR_CAUSE_MACHINE, HR_E_LIMIT,
                       "this process uses %llu bytes before the arena of %llu and the input's "
                       "%llu: over the budget of %llu, so nothing was run",
                       (unsigned long long)now, (unsigned long long)m.planned_bytes,
                       (unsigned long long)j->plan->data_bytes,
                       (unsigned long long)j->plan->budget_bytes);
}

/* Beside a GPU: what was taken of the host is inside its budget. */
static hr_status check_host(const hri_train_job *j, hri_why *why) {
    uint64_t now;
    hri_resident_read(&now, NULL);
    if (!j->plan->engine || !j->plan->host_budget_bytes || now <= j->plan->host_budget_bytes) {
        return HR_OK;
    }
    char has[32], budget[32];
    return hri_why_set(why, HR_CAUSE_MACHINE, HR_E_LIMIT,
                       "this process uses %s of host memory, over the host budget of %s; nothing "
                       "was run",
                       hr_bytes_print(now, has, sizeof has),
                       hr_bytes_print(j->plan->host_budget_bytes, budget, sizeof budget));
}

/* What the trainings take together, as planned. */
static uint64_t peak_of(const hri_together *t) {
    uint64_t peak = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const uint64_t own = t->jobs[i].row.peak_bytes;
        peak = t->slices[0] ? peak + own : own > peak ? own : peak;
    }
    return peak;
}

/* A budget may be larger than the machine; a plan that runs may not. */
static hr_status check_there(const hri_together *t, hri_why *why) {
    const hri_train_job *j = &t->jobs[0];
    const uint64_t there = hri_plan_job_there(j->plan);
    const uint64_t peak = peak_of(t);
    if (!j->plan->threads || peak / 4096 <= there / 4096) { /* limits are in whole pages */
        return HR_OK;
    }
    char takes[32], has[32];
    return hri_why_set(why, HR_CAUSE_NO_FIT, HR_E_LIMIT,
                       "the plan for this budget needs %s, but this machine has %s available; "
                       "use `budget=%lluMiB`",
                       hr_bytes_print(peak, takes, sizeof takes),
                       hr_bytes_print(there, has, sizeof has), (unsigned long long)(there >> 20));
}

/* What is beside the runtime, of all of them: one arena, or one each. */
static uint64_t own_bytes(const hri_together *t) {
    const hri_train_job *a = &t->jobs[0];
    uint64_t arenas = 0, leased = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const hri_plan_row *row = &t->jobs[i].row;
        const uint64_t arena = row->peak_bytes - row->runtime_bytes;
        arenas = t->slices[0] ? arenas + arena : arena > arenas ? arena : arenas;
        leased += a->plan->threads ? hri_train_leased_input(&t->jobs[i]) : 0;
    }
    const uint64_t all = a->row.runtime_bytes + arenas, not_ours = a->plan->base_bytes + leased;
    return all > not_ours ? all - not_ours : 1;
}

hr_status hri_together_lease(hri_together *t, hri_why *why) {
    return hri_plan_job_lease(t->jobs[0].plan, own_bytes(t), &t->jobs[0].row, why);
}

static hr_status take_memory(hri_together *t, hri_why *why) {
    hri_prose prose = {""};
    hr_status status = hri_planned_take(t->jobs[0].planned, &prose); /* of all, when shared */
    for (uint32_t i = 1; i < t->count && status == HR_OK && !t->runner; i++) {
        status = hri_planned_take(t->jobs[i].planned, &prose);
    }
    return status == HR_OK ? HR_OK : hri_why_prose(why, hri_cause_of(status), status, NULL, &prose);
}

static hr_status start_each(hri_together *t, hr_status (*step)(hri_train_job *), hri_why *why) {
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < t->count && status == HR_OK; i++) {
        status = step(&t->jobs[i]);
        *why = status == HR_OK ? *why : t->jobs[i].why;
    }
    return status;
}

static hri_net_options net_options(const hri_train_job *j) {
    return (hri_net_options){
        .wire = j->o.net,
        .who = j->who,
        .deadline_ns = j->o.net_deadline_ms * UINT64_C(1000000),
        .device = j->plan->device_name,
        .gpu = j->plan->engine ? hri_engine_gpu(j->plan->engine) : NULL,
        .queue = j->plan->engine ? hri_engine_queue(j->plan->engine, HRI_ENGINE_COMPUTE) : NULL};
}

/* All ranks are there, or one is named. */
static hr_status open_net(hri_train_job *j, hri_prose *why) {
    hri_engine *engine = j->plan->engine;
    hri_net_options o = net_options(j);
    if (j->who.size < 2) {
        return HR_OK;
    }
    if (engine) { /* plans say what goes on beside it */
        const hr_status status = hri_engine_need_net(engine);
        if (status != HR_OK) {
            return hri_prose_set(why, status, "a queue for exchanges: %s", hr_status_text(status));
        }
        o.queue = hri_engine_net_queue(engine);
    }
    return hri_net_open(&o, &j->net, why);
}

static void decline(const hri_train_job *j, const char *text) {
    const hri_net_options o = net_options(j);
    if (j->who.size > 1) {
        hri_net_decline(&o, text, HRI_NET_DEADLINE_S * UINT64_C(1000000000));
    }
}

static hr_status start(hri_together *t, hri_why *why) {
    hri_prose prose = {""};
    const hri_listener *listener = &t->jobs[0].listener;
    hr_status status = check_there(t, why);
    if (status != HR_OK) {
        decline(&t->jobs[0], why->prose.text);
        return status;
    }
    t->started = true;
    status = open_net(&t->jobs[0], &prose);
    if (status == HR_OK) {
        status = hri_train_same_plan(&t->jobs[0], &prose);
    }
    if (status == HR_OK) {
        status = open_planned(t, &prose);
    }
    if (status != HR_OK) {
        return hri_why_prose(why, hri_cause_of(status), status, NULL, &prose);
    }
    for (uint32_t i = 0; i < t->count; i++) {
        hri_train_release(&t->jobs[i]);
    }
    hri_trim(); /* pieces too small for pages of their own */
    status = check_promise(t, why);
    if (status == HR_OK) {
        status = hri_plan_job_reserve(t->jobs[0].plan, peak_of(t), why);
    }
    if (status == HR_OK) {
        status = start_each(t, hri_train_open_input, why);
    }
    if (status == HR_OK) {
        status = hri_listener_tick(listener, "allocating memory", 0, 0, why);
    }
    if (status == HR_OK) {
        status = take_memory(t, why);
    }
    if (status == HR_OK) {
        status = hri_listener_tick(listener, "starting", 0, 0, why);
    }
    if (status == HR_OK) {
        status = check_host(&t->jobs[0], why);
    }
    return status == HR_OK ? start_each(t, hri_train_start, why) : status;
}

hr_status hri_together_start(hri_together *t, hri_why *why) {
    const hr_status status = start(t, why);
    if (status != HR_OK) {
        hri_train_tell_ranks(&t->jobs[0], status,
                             why->prose.text[0] ? why->prose.text : hr_status_text(status));
    }
    return status;
}

void hri_together_close(hri_together *t) {
    if (!t) {
        return;
    }
    hri_plan_job *a = t->jobs[0].plan;
    for (uint32_t i = 1; i < t->count; i++) {
        hri_plan_job *p = t->jobs[i].plan;
        if (p) {
            p->threads = p->threads == a->threads ? NULL : p->threads; /* the first one's */
            p->engine = p->engine == a->engine ? NULL : p->engine;
        }
        hri_train_close(&t->jobs[i]); /* before the device goes */
    }
    hri_trainer_close(t->jobs[0].trainer);
    t->jobs[0].trainer = NULL;
    hri_planned_close(t->jobs[0].planned);
    t->jobs[0].planned = NULL;
    hri_runner_close(t->runner);
    hri_train_close(&t->jobs[0]);
    for (uint32_t i = 1; i < t->count; i++) {
        hr_plan_destroy(t->others[i]);
    }
    hri_free(t->jobs);
    hri_free(t);
}
