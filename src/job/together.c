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

/* The second one uses the device and the threads of the first. */
static void share_device(hri_together *t) {
    hri_plan_job *a = t->jobs[0].plan, *b = t->jobs[1].plan;
    hri_threads_destroy(b->threads);
    hri_timing_close(b->timing);
    hri_engine_close(b->engine);
    hri_admission_close(b->admission); /* the first one's is for both */
    b->admission = NULL;
    b->timing = NULL;
    b->engine = b->job.engine = a->engine;
    b->job.machine.gpu = a->job.machine.gpu;
    b->job.time_ns = a->job.time_ns;
    b->job.time_user = a->job.time_user;
    b->device = a->device;
    b->threads = a->threads;
}

/* Plans a job anew with what is now known of the other. */
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
    t->taken_bytes[i] = 0; /* the other one is in the job now */
    return hri_train_plan(j);
}

/* What a case takes of the runtime for its records. */
static uint64_t records_of(const hri_train_job *j, uint64_t runtime_bytes) {
    return runtime_bytes > j->plan->job.runtime_bytes ? runtime_bytes - j->plan->job.runtime_bytes
                                                      : 0;
}

/* How each is cut, with the other's weights in the way.  When one does not fit, the other is asked all the same: the budget
 * that is named must do for both. */
static hr_status plan_each(hri_together *t, uint64_t runtime, uint64_t *own, uint64_t *records,
                           uint64_t *alone) {
    const uint64_t budget = t->jobs[0].plan->budget_bytes;
    uint64_t most = 0;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < 2 && status == HR_OK; i++) {
        hri_train_job *j = &t->jobs[i];
        const hri_fit_fact *other = &t->jobs[1 - i].plan->fit.facts[0];
        const uint64_t taken = other->own_bytes + (runtime - j->plan->job.runtime_bytes) +
                               records_of(&t->jobs[1 - i], other->runtime_bytes);
        t->taken_bytes[i] = taken;
        j->plan->budget_bytes = budget > taken ? budget - taken : 1;
        status = hri_train_plan(j);
        j->plan->budget_bytes = budget;
        if (status == HR_OK && j->answer->fits) {
            own[i] = j->plans->c->own_bytes;
            records[i] = records_of(j, j->plans->c->runtime_bytes);
            alone[i] = j->row.peak_bytes;
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

static hr_status plan_two(hri_together *t) {
    hri_train_job *a = &t->jobs[0], *b = &t->jobs[1];
    uint64_t own[2] = {0}, records[2] = {0}, alone[2] = {0};
    /* The runtime was measured for each; the process is one, its pipelines are two. */
    const uint64_t extra = b->plan->job.runtime_bytes > a->plan->job.runtime_bytes
                               ? b->plan->job.runtime_bytes
                               : a->plan->job.runtime_bytes;
    const hri_train_job *other_one = extra == b->plan->job.runtime_bytes ? a : b;
    const uint64_t runtime = extra + other_one->plan->data_bytes + other_one->own_bytes;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < 2 && status == HR_OK; i++) {
        status = fit(&t->jobs[i]);
    }
    if (status == HR_OK) {
        status = plan_each(t, runtime, own, records, alone);
    }
    if (status != HR_OK || !hri_together_fits(t)) {
        return status;
    }
    t->separate_bytes = alone[0] + alone[1];
    for (uint32_t i = 0; i < 2 && status == HR_OK && hri_together_fits(t); i++) {
        t->which = i;
        t->jobs[i].plan->data_bytes = !t->jobs[i].plan->threads ? 0
                                                                : a->train_bytes + a->val_bytes +
                                                                      b->train_bytes + b->val_bytes;
        status =
            plan_again(t, i, i == 0 ? 0 : own[0], i == 0 ? own[1] : 0, runtime + records[1 - i]);
    }
    const uint64_t budget = a->plan->budget_bytes;
    const uint64_t peak =
        a->row.peak_bytes > b->row.peak_bytes ? a->row.peak_bytes : b->row.peak_bytes;
    t->left_bytes = budget > peak ? budget - peak : 0;
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
                               "--logical-devices: %llu bytes of logical devices and %llu bytes "
                               "of the process exceed the budget of %llu",
                               (unsigned long long)sum, (unsigned long long)runtime,
                               (unsigned long long)budget);
        }
        t->left_bytes = budget ? budget - runtime - sum : 0;
        j->plan->budget_bytes = runtime + t->slices[i];
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
    static const char *const names[] = {"first", "second"};
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < t->count && status == HR_OK; i++) {
        hri_train_job *j = &t->jobs[i];
        t->which = i;
        j->name = t->count > 1 ? names[i] : "";
        j->index = i;
        j->own_refusal = t->count > 1 || t->slices[0];
        status = hri_train_look(j, ctx, &own[i]);
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
    status = t->slices[0] ? plan_slices(t) : t->count == 1 ? plan_one(t) : plan_two(t);
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
    if (!t || count > HRI_TOGETHER_MAX) {
        hri_free(t);
        return hri_why_set(why, t ? HR_CAUSE_USAGE : HR_CAUSE_MACHINE,
                           t ? HR_E_UNSUPPORTED : HR_E_NOMEM_HOST,
                           t ? "at most two jobs share an arena" : "out of memory for the job");
    }
    t->count = (uint32_t)count;
    plan->together = t;
    for (uint32_t i = 0; i < t->count; i++) {
        t->jobs[i].resume.file.fd = -1;
        t->slices[i] = slices ? slices[i] : 0;
    }
    bind(&t->jobs[0], plan);
    if (count > 1) {
        t->second = hri_calloc(1, sizeof *t->second);
        if (!t->second) {
            return HR_E_NOMEM_HOST;
        }
        t->second->timed_graph = SIZE_MAX;
        bind(&t->jobs[1], t->second);
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
    enum { PAGE_BYTES = 256 << 10 };
    const hri_train_job *j = &t->jobs[t->which];
    /* What each needs was found with an estimate of the other: a little more is sure to do. */
    const uint64_t found = j->row.peak_bytes + t->taken_bytes[t->which];
    *floor_bytes = j->plan->floor_bytes + t->taken_bytes[t->which];
    *least_bytes = (found + found / 10 + PAGE_BYTES) / PAGE_BYTES * PAGE_BYTES;
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
            one.pieces[k].seed = t->jobs[i].o.seed;
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
    static const char *const names[] = {"slice 0", "slice 1"};
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
                                       .threads = j->plan->threads,
                                       .seed = j->o.seed,
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
    if (!t->runner && t->count > 1) {
        hri_planned_measure(t->jobs[1].planned, &m);
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
                       "use --budget %lluMiB",
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
    hr_status status = hri_planned_take(t->jobs[0].planned, &prose); /* of both, when shared */
    if (status == HR_OK && t->count > 1 && !t->runner) {
        status = hri_planned_take(t->jobs[1].planned, &prose);
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

hr_status hri_together_start(hri_together *t, hri_why *why) {
    hri_prose prose = {""};
    const hri_listener *listener = &t->jobs[0].listener;
    hr_status status = check_there(t, why);
    if (status != HR_OK) {
        return status;
    }
    t->started = true;
    status = open_planned(t, &prose);
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

void hri_together_close(hri_together *t) {
    if (!t) {
        return;
    }
    if (t->second) {
        hri_plan_job *a = t->jobs[0].plan, *b = t->jobs[1].plan;
        b->threads = b->threads == a->threads ? NULL : b->threads; /* the first one's */
        b->engine = b->engine == a->engine ? NULL : b->engine;
        hri_train_close(&t->jobs[1]); /* before the device goes */
    }
    hri_trainer_close(t->jobs[0].trainer);
    t->jobs[0].trainer = NULL;
    hri_planned_close(t->jobs[0].planned);
    t->jobs[0].planned = NULL;
    hri_runner_close(t->runner);
    hri_train_close(&t->jobs[0]);
    hr_plan_destroy(t->second);
    hri_free(t);
}
