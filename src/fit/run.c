/* The public door to plans: graphs in, one arena, runs out; see headroom/run.h.
 *
 * The thin case of fit.h: one case whose graphs were given.  Problems and plans are freed once they are bound, and only
 * then is the arena taken, so that what planning needed is not resident beside it. */
#include <headroom/run.h>

#include <stdio.h>
#include <string.h>
#include <headroom/budget.h>
#include <headroom/bytes.h>

#include "base/alloc.h"
#include "base/bytes_up.h"
#include "base/cores.h"
#include "base/grow.h"
#include "device/device.h"
#include "graph/graph.h"
#include "fit/fit_int.h"
#include "fit/run_int.h"
#include "memory/resident.h"
#include "run/holding.h"
#include "run/runner.h"
#include "run/trial.h"

struct hr_run {
    hr_device *device;
    hri_threads *threads;
    hri_engine *engine; /* of a GPU */
    hri_runner *runner;
    const hr_graph *graphs[HR_RUN_GRAPHS];
    unsigned char *fed; /* by value: inputs of graph `fed_graph` that were put since the last run */
    uint32_t fed_graph, fed_room;
    uint32_t count, step, first_sample;
    hr_run_report report;
    hr_budget *budget; /* NULL: the context's */
    hri_holding holding;
    uint64_t base_bytes, process_bytes; /* what was there before: as planned, and all of it */
    uint64_t minimum_bytes;             /* of a refusal, with those beside */
    uint64_t asked_bytes, beside_bytes; /* the whole budget; what of it is for something else */
    hr_error error;
};

/* ---- setting up ---- */

/* On a GPU every kernel is tried once, so that it knows its work space and what is loaded is there when runtime is
 * measured.  One that is too large for the budget is loaded later, and the budget checked then. */
typedef struct trial {
    hri_engine *engine;
    uint64_t most_bytes;
} trial;

static double try_kernel(void *user, const hri_sig *sig, uint32_t variant) {
    const trial *t = user;
    (void)!(hri_trial_time(t->engine, sig, variant, t->most_bytes, 1) < 0);
    return -1; /* times stay analytic: the same plan on every machine */
}

static hr_status look_at_device(hr_run *r, hri_fit_job *job, trial *t, hri_prose *why) {
    hr_device_info info = {.size = sizeof info};
    hr_status status = hr_device_get_info(r->device, &info);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "the device does not respond: %s",
                             hr_status_text(status));
    }
    const uint32_t can = hri_device_can(r->device);
    *job = (hri_fit_job){.given = r->graphs,
                         .given_count = r->count,
                         .batch = 1,
                         .page_bytes = info.page_bytes ? info.page_bytes : 1,
                         .no_offload = 1,
                         .no_stage = 1};
    job->machine.threads = hri_threads_count(r->threads);
    job->machine.kernels = hri_device_kernels(r->device);
    r->process_bytes = r->base_bytes = info.runtime_bytes;
    if (can & HRI_CAN_QUEUE) {
        status = hri_engine_open(r->device, NULL, &r->engine, why);
        if (status != HR_OK) {
            return status;
        }
        r->base_bytes = hri_engine_runtime(r->engine);
        r->process_bytes = hri_engine_process(r->engine);
        job->engine = r->engine;
        job->machine.gpu = hri_engine_gpu(r->engine);
        job->time_ns = try_kernel;
        job->time_user = t;
        t->engine = r->engine;
    } else if (can & HRI_CAN_POINT) {
        r->base_bytes = r->process_bytes = hri_resident_runtime();
        job->thread_bytes = HRI_RESIDENT_THREAD;
    }
    job->runtime_bytes = r->base_bytes + job->thread_bytes;
    return HR_OK;
}

/* Without a number of its own, the run may have what the ledger leaves of its device. */
static hr_status look_at_budget(hr_run *r, const hr_run_options *o, trial *t, hri_prose *why) {
    hr_error error = {.code = HR_OK};
    hr_status status =
        hri_holding_enter(&r->holding, r->budget, r->device, r->process_bytes, &error);
    const uint64_t left = status == HR_OK ? hri_holding_free(&r->holding) : 0;
    if (status == HR_OK && !left) {
        status =
            hri_prose_set(why, HR_E_AGAIN, "the budget has nothing free on %s", r->device->name);
    } else if (status != HR_OK) {
        status = hri_prose_set(why, status, "%s", error.message);
    }
    uint64_t *budget_bytes = &r->report.budget_bytes;
    if (status == HR_OK && left != HR_UNKNOWN &&
        (!*budget_bytes || (*budget_bytes > r->base_bytes + left && !o->wait_ms))) {
        *budget_bytes = r->base_bytes + left;
    }
    if (status == HR_OK && r->engine) {
        const uint64_t budget =
            r->report.budget_bytes ? r->report.budget_bytes : hri_holding_there(&r->holding) / 2;
        t->most_bytes = budget > r->base_bytes ? (budget - r->base_bytes) / 4 * 3 : 0;
    }
    return status;
}

/* The minimum that is named is a budget that was planned for, so it is accepted when it is typed. */
static hr_status refuse(hr_run *r, hri_fit *f, hri_prose *why) {
    const hri_fit_fact *fact = &f->facts[0]; /* of the nominal machine, or of the GPU */
    const uint64_t beside = r->beside_bytes, budget_bytes = r->report.budget_bytes;
    uint64_t least = fact->floor_bytes;
    char budget[32], minimum[32], missing[32], floor[32], below[96] = "";
    const hr_status status = r->engine ? HR_OK : hri_fit_smallest(f, &least, NULL, why);
    if (status != HR_OK) {
        return status;
    }
    least = least > budget_bytes ? least : budget_bytes + 1;
    r->minimum_bytes = least + beside;
    if (least > fact->floor_bytes) {
        snprintf(below, sizeof below, "; no plan can need less than %s",
                 hr_bytes_print(fact->floor_bytes + beside, floor, sizeof floor));
    }
    return hri_prose_set(
        why, HR_E_NO_PLAN, "a budget of %s is %s below the minimum of %s%s, set by %s",
        hr_bytes_print(r->asked_bytes, budget, sizeof budget),
        hri_bytes_print_up(least + beside - r->asked_bytes, missing, sizeof missing),
        hri_bytes_print_up(least + beside, minimum, sizeof minimum), below,
        fact->floor_op[0] ? fact->floor_op : "inputs and persistent values");
}

static void report_plans(hr_run *r, const hri_fit_job *job, const hri_fit_plans *plans) {
    hr_run_report *t = &r->report;
    uint64_t plain = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        const uint64_t bytes = plans->plans[i]->unplanned_bytes;
        plain = bytes > plain ? bytes : plain;
    }
    t->recomputed_ops = plans->again_count;
    t->time_ratio = plans->base_time_ns > 0 ? plans->time_ns / plans->base_time_ns : 1.0;
    t->runtime_bytes = plans->runtime_bytes;
    t->persistent_bytes = plans->bottom_bytes;
    t->arena_bytes = plans->arena_bytes - plans->bottom_bytes;
    t->peak_bytes = plans->peak_bytes;
    t->unplanned_bytes = t->runtime_bytes + hri_fit_pages(job, plain);
}

/* All that the run takes on its device, from now until it is closed. */
static hr_status take_lease(hr_run *r, const hr_run_options *o, hri_prose *why) {
    hr_error refusal = {.code = HR_OK};
    const hri_holding_ask ask = {.name = o->name ? o->name : "run",
                                 .device_bytes = r->report.peak_bytes - r->base_bytes,
                                 .wait_ms = o->wait_ms};
    const hr_status status = hri_holding_take(&r->holding, &ask, &refusal);
    return status == HR_OK ? HR_OK : hri_prose_set(why, status, "%s", refusal.message);
}

static hr_status bind(hr_run *r, const hri_fit_plans *plans, uint64_t seed, hri_prose *why) {
    hri_runner_options o = {
        .device = r->device, .engine = r->engine, .threads = r->threads, .seed = seed};
    if (r->engine && r->report.budget_bytes) {
        o.runtime_bytes = r->report.budget_bytes - plans->arena_bytes;
    }
    hri_fit_runner(plans, &o);
    return hri_runner_open(&o, &r->runner, why);
}

/* All threads first, as a matter of speed; where that does not fit, as a training is fitted (fit.h): fewer threads, a
 * longer search, the smallest plan there is. */
static hr_status plan(hr_run *r, hri_fit *f, hri_fit_plans *out, hri_prose *why) {
    const uint64_t budget = r->report.budget_bytes;
    hri_fit_case *c = NULL;
    hr_status status = hri_fit_case_get(f, 1, &c, why);
    if (status == HR_OK) {
        r->report.floor_bytes = c->floor_bytes;
        status = hri_fit_case_set_threads(f, c, f->job.machine.threads, why);
    }
    if (status == HR_OK && r->engine) {
        hri_engine_scratch_drop(r->engine);
        hri_fit_case_measure(&f->job, c);
        r->report.floor_bytes = f->facts[0].floor_bytes = c->floor_bytes;
    }
    if (status == HR_OK) {
        status = budget && c->floor_bytes > budget ? HR_E_NO_PLAN
                                                   : hri_fit_case_plan(f, c, budget, 0, out, why);
    }
    if (status == HR_E_NO_PLAN && !r->engine) {
        status = hri_fit_search(f, budget, HRI_FIT_LOOK, out, why);
    }
    return status == HR_E_NO_PLAN ? refuse(r, f, why) : status;
}

static hr_status plan_and_bind(hr_run *r, hri_fit *f, const hr_run_options *o, hri_prose *why) {
    hri_fit_plans plans = {0};
    hr_status status = plan(r, f, &plans, why);
    if (status == HR_OK) {
        if (!r->engine) {
            hri_threads_shrink(r->threads, plans.threads ? plans.threads : 1);
        }
        report_plans(r, &f->job, &plans);
        status = take_lease(r, o, why);
    }
    if (status == HR_OK) {
        status = bind(r, &plans, o->seed, why);
    }
    hri_fit_plans_deinit(&plans);
    return status;
}

static hr_status set_up(hr_run *r, const hr_run_options *o, hri_prose *why) {
    trial t = {0};
    hri_fit *f = hri_calloc(1, sizeof *f);
    if (!f) {
        return HR_E_NOMEM_HOST;
    }
    hr_status status = look_at_device(r, &f->job, &t, why);
    if (status == HR_OK) {
        status = look_at_budget(r, o, &t, why);
    }
    if (status == HR_OK) {
        status = plan_and_bind(r, f, o, why);
    }
    hri_fit_close(f);
    hri_free(f);
    hri_trim();
    return status == HR_OK ? hri_runner_take(r->runner, why) : status;
}

static void explain(hr_error *to, hr_status status, const hri_prose *why) {
    const char *text = why->text[0] ? why->text : hr_status_text(status);
    *to = (hr_error){.code = status};
    memcpy(to->message, text, strlen(text) + 1);
}

/* Inputs lie where other graphs, and later ops of their own, put other things: they are there for one run. */
static hr_status make_fed(hr_run *r) {
    for (uint32_t i = 0; i < r->count; i++) {
        r->fed_room =
            r->graphs[i]->value_count > r->fed_room ? r->graphs[i]->value_count : r->fed_room;
    }
    r->fed = hri_calloc(r->fed_room + 1, sizeof *r->fed);
    return r->fed ? HR_OK : HR_E_NOMEM_HOST;
}

hr_status hr_run_open(const hr_run_options *theirs, hr_run **out, hr_error *why) {
    return hri_run_open_beside(theirs, 0, out, why);
}

hr_status hri_run_open_beside(const hr_run_options *theirs, uint64_t beside_bytes, hr_run **out,
                              hr_error *why) {
    hri_prose prose = {{0}};
    hr_run_options own = {0};
    const hr_run_options *options = &own;
    hr_status status = hri_take(&own, sizeof own, theirs);
    hr_run *r = NULL;
    if (status != HR_OK) {
        status =
            hri_prose_set(&prose, status, "hr_run_options: %s",
                          status == HR_E_INVALID ? "size is not set"
                                                 : "an option that this version does not know");
    } else if (!options->device || options->graph_count == 0 ||
               options->graph_count > HR_RUN_GRAPHS) {
        status = hri_prose_set(&prose, HR_E_INVALID, "a device runs 1 to %d graphs", HR_RUN_GRAPHS);
    } else if (!(r = hri_calloc(1, sizeof *r))) {
        status = HR_E_NOMEM_HOST;
    }
    if (status == HR_OK) {
        r->device = options->device;
        r->count = (uint32_t)options->graph_count;
        memcpy(r->graphs, options->graphs, r->count * sizeof r->graphs[0]);
        r->asked_bytes = options->budget_bytes;
        r->beside_bytes = beside_bytes;
        r->report.budget_bytes = !r->asked_bytes                 ? 0
                                 : r->asked_bytes > beside_bytes ? r->asked_bytes - beside_bytes
                                                                 : 1; /* 0 would mean none */
        r->budget = options->budget;
        status = hri_threads_create(options->threads ? options->threads : hri_cores_usable(),
                                    &r->threads);
    }
    if (status == HR_OK) {
        status = make_fed(r);
    }
    if (status == HR_OK) {
        status = set_up(r, options, &prose);
    }
    if (status != HR_OK) {
        const uint64_t minimum = r ? r->minimum_bytes : 0;
        hr_run_close(r);
        if (why) {
            explain(why, status, &prose);
            why->wanted_bytes = minimum;
        }
        return status;
    }
    *out = r;
    return HR_OK;
}

void hr_run_close(hr_run *run) {
    if (run) {
        hri_runner_close(run->runner);
        hri_engine_close(run->engine);
        hri_threads_destroy(run->threads);
        hri_holding_give(&run->holding);
        hri_free(run->fed);
        hri_free(run);
    }
}

static hr_status fail(hr_run *r, hr_status status, const char *name) {
    hri_prose why = {{0}};
    (void)!hri_prose_set(&why, status, "%s: %s", name, hr_status_text(status));
    explain(&r->error, status, &why);
    return status;
}

/* The value of that name and size, or HR_NONE with *status. */
static hr_value find(const hr_run *r, size_t graph, const char *name, uint64_t bytes,
                     hr_status *status) {
    const hr_value v = graph < r->count ? hr_graph_find(r->graphs[graph], name) : HR_NONE;
    if (v == HR_NONE || !hri_exec_holds(hri_runner_exec(r->runner, (uint32_t)graph), v)) {
        *status = HR_E_NOT_FOUND;
        return HR_NONE;
    }
    const hr_meta meta = hr_graph_meta(r->graphs[graph], v);
    *status = hr_meta_bytes(&meta) == bytes ? HR_OK : HR_E_SHAPE;
    return *status == HR_OK ? v : HR_NONE;
}

static void forget_inputs(hr_run *r) {
    memset(r->fed, 0, r->fed_room);
}

static void mark_input(hr_run *r, uint32_t graph, hr_value v) {
    if (r->graphs[graph]->values[v].kind != HR_VALUE_INPUT) {
        return;
    }
    if (r->fed_graph != graph) { /* over those of the other */
        forget_inputs(r);
        r->fed_graph = graph;
    }
    r->fed[v] = 1;
}

hr_status hr_run_put(hr_run *run, size_t graph, const char *name, const void *from,
                     uint64_t bytes) {
    hr_status status;
    const hr_value v = find(run, graph, name, bytes, &status);
    if (status == HR_OK) {
        status = hri_exec_put(hri_runner_exec(run->runner, (uint32_t)graph), v, 0, from, bytes);
    }
    if (status == HR_OK) {
        mark_input(run, (uint32_t)graph, v);
    }
    return status == HR_OK ? HR_OK : fail(run, status, name);
}

hr_status hr_run_get(hr_run *run, size_t graph, const char *name, void *to, uint64_t bytes) {
    hr_status status;
    const hr_value v = find(run, graph, name, bytes, &status);
    if (status == HR_OK) {
        status = hri_exec_get(hri_runner_exec(run->runner, (uint32_t)graph), v, 0, to, bytes);
    }
    return status == HR_OK ? HR_OK : fail(run, status, name);
}

void hr_run_at(hr_run *run, uint32_t step, uint32_t first_sample) {
    run->step = step;
    run->first_sample = first_sample;
}

/* The first input that nobody put since the last run; HR_NONE: all were. */
static hr_value missing_input(const hr_run *r, uint32_t graph, const hri_exec *e) {
    const hr_graph *g = r->graphs[graph];
    for (hr_value v = 1; v < g->value_count; v++) {
        if (g->values[v].kind == HR_VALUE_INPUT && hri_exec_holds(e, v) &&
            !(r->fed_graph == graph && r->fed[v])) {
            return v;
        }
    }
    return HR_NONE;
}

hr_status hr_run_step(hr_run *run, size_t graph) {
    hri_exec *e = graph < run->count ? hri_runner_exec(run->runner, (uint32_t)graph) : NULL;
    if (!e) {
        return fail(run, HR_E_NOT_FOUND, "no such graph");
    }
    const hr_value missing = missing_input(run, (uint32_t)graph, e);
    if (missing != HR_NONE) {
        hri_prose why = {{0}};
        (void)!hri_prose_set(&why, HR_E_INVALID,
                             "the input \"%s\" was not set since the last run (hr_run_put)",
                             run->graphs[graph]->values[missing].name);
        explain(&run->error, HR_E_INVALID, &why);
        return HR_E_INVALID;
    }
    forget_inputs(run);
    return hri_run_fed(run, graph);
}

hr_status hri_run_fed(hr_run *run, size_t graph) {
    hri_exec *e = hri_runner_exec(run->runner, (uint32_t)graph);
    uint32_t node = 0;
    hri_exec_sample(e, run->first_sample);
    const hr_status status = hri_exec_run(e, run->step, &node);
    return status == HR_OK ? HR_OK : fail(run, status, run->graphs[graph]->nodes[node].name);
}

void hr_run_error(const hr_run *run, hr_error *out) {
    *out = run->error;
}

hr_status hr_run_get_report(const hr_run *run, hr_run_report *out) {
    hri_measured measured;
    hri_runner_measure(run->runner, &measured);
    hr_run_report report = run->report;
    report.measured_bytes = measured.arena_bytes;
    report.resident_bytes = measured.peak_bytes;
    return hri_give(out, &report, sizeof report);
}

hri_exec *hri_run_exec(hr_run *run, size_t graph) {
    return graph < run->count ? hri_runner_exec(run->runner, (uint32_t)graph) : NULL;
}
