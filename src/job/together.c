/* Side by side through the steps of train.h; see together.h. */
#include "job/together.h"

#include <headroom/bytes.h>

#include "base/alloc.h"
#include "job/together_plan.h"
#include "memory/resident.h"

/* ---- planning ---- */

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
        b->job.together_ns = a->job.together_ns;
        b->job.many_ns = a->job.many_ns;
        b->job.time_user = a->job.time_user;
        b->device = a->device;
        b->threads = a->threads;
    }
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
    status = hri_together_plan_jobs(t);
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
