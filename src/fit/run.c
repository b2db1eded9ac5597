/* The public door to plans: graphs in, one arena, runs out; see headroom/run.h.
 *
 * Set-up makes a problem and a plan for each graph over one bottom of persistent values, binds them, frees problems and
 * plans, and only then takes the arena, so that what planning needed is not resident beside it. */
#include <headroom/run.h>

#include <string.h>
#include <headroom/budget.h>
#include <headroom/bytes.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "base/grow.h"
#include "device/device.h"
#include "graph/graph.h"
#include "plan/from_graph.h"
#include "plan/share.h"
#include "memory/resident.h"
#include "fit/run_int.h"
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
    hr_budget *budget; /* NULL: none */
    hr_lease *lease;
    hr_error error;
};

/* What planning needs and running does not. */
typedef struct making {
    hri_graph_problem x[HR_RUN_GRAPHS];
    uint64_t *offsets[HR_RUN_GRAPHS];
    hri_plan *plans[HR_RUN_GRAPHS];
    uint32_t count;
    uint64_t bottom_bytes, page_bytes;
    uint64_t top_bytes; /* GPU: behind what is planned */
} making;

static void making_deinit(making *m) {
    for (uint32_t i = 0; i < m->count; i++) {
        hri_plan_destroy(m->plans[i]);
        hri_free(m->offsets[i]);
        hri_graph_problem_deinit(&m->x[i]);
    }
    *m = (making){.count = 0};
}

static uint64_t whole_pages(const making *m, uint64_t bytes) {
    return (bytes + m->page_bytes - 1) / m->page_bytes * m->page_bytes;
}

static hr_status make_problems(hr_run *r, making *m, hri_prose *why) {
    const hri_machine machine = {.threads = hri_threads_count(r->threads),
                                 .gpu = r->engine ? hri_engine_gpu(r->engine) : NULL,
                                 .kernels = hri_device_kernels(r->device)};
    const hri_problem *problems[HR_RUN_GRAPHS];
    for (uint32_t i = 0; i < r->count; i++) {
        const hr_status status = hri_problem_from_graph(r->graphs[i], &machine, &m->x[i], why);
        if (status != HR_OK) {
            return status;
        }
        m->count = i + 1;
        m->offsets[i] = hri_calloc(m->x[i].problem.value_count + 1, sizeof *m->offsets[i]);
        if (!m->offsets[i]) {
            return HR_E_NOMEM_HOST;
        }
        problems[i] = &m->x[i].problem;
    }
    return hri_problem_share(problems, m->offsets, r->count, &m->bottom_bytes, why);
}

/* On a GPU every kernel is tried once, so that it knows its work space and what is loaded is there when runtime is
 * measured.  One that is too large for the budget is loaded later, and the budget checked then. */
static void try_kernels(hr_run *r, making *m) {
    hri_lane_sizes sizes = {0};
    uint64_t nodes = 0;
    const uint64_t taken = hri_engine_runtime(r->engine);
    hr_device_info info = {.free_bytes = 0};
    (void)!hr_device_get_info(r->device, &info);
    const uint64_t budget = r->report.budget_bytes ? r->report.budget_bytes : info.free_bytes / 2;
    const uint64_t most = budget > taken ? (budget - taken) / 4 * 3 : 0;
    for (uint32_t i = 0; i < r->count; i++) {
        const hr_graph *g = r->graphs[i];
        for (uint32_t n = 0; n < g->node_count; n++) {
            if (g->nodes[n].live && !g->nodes[n].sig.op->view) {
                (void)!(hri_trial_time(r->engine, &g->nodes[n].sig, 0, most, 1) < 0);
                nodes++;
            }
        }
        hri_lane_need(g, &sizes);
    }
    hri_engine_scratch_drop(r->engine);
    r->report.runtime_bytes = hri_engine_runtime(r->engine) + hri_engine_graph_reserve(nodes);
    m->top_bytes = HRI_LANE_ALIGN + hri_lane_top_bytes(&sizes, 0);
}

/* The floor and the sum that plain running would take; refuses a budget under the floor. */
static hr_status look_at_floor(hr_run *r, const making *m, hri_prose *why) {
    hr_run_report *t = &r->report;
    const char *name = NULL;
    for (uint32_t i = 0; i < r->count; i++) {
        uint32_t op;
        const hri_problem *p = &m->x[i].problem;
        const uint64_t arena = hri_problem_floor(p, &op) - p->persistent_bytes + m->bottom_bytes;
        const uint64_t bytes = t->runtime_bytes + whole_pages(m, arena + m->top_bytes);
        if (bytes > t->floor_bytes) {
            t->floor_bytes = bytes;
            name = op == HRI_PROBLEM_NONE ? "inputs and persistent values" : p->ops[op].name;
        }
    }
    if (t->budget_bytes && t->budget_bytes < t->floor_bytes) {
        char budget[32], floor[32], missing[32];
        return hri_prose_set(
            why, HR_E_NO_PLAN, "a budget of %s is %s below the minimum of %s, set by %s",
            hr_bytes_print(t->budget_bytes, budget, sizeof budget),
            hr_bytes_print(t->floor_bytes - t->budget_bytes, missing, sizeof missing),
            hr_bytes_print(t->floor_bytes, floor, sizeof floor), name);
    }
    return HR_OK;
}

static hr_status make_plans(hr_run *r, making *m, hri_prose *why) {
    hr_run_report *t = &r->report;
    hri_plan_options o = {.fixed_bytes = m->bottom_bytes, .no_offload = 1};
    uint64_t arena = m->bottom_bytes, plain = 0;
    double time = 0, base = 0;
    if (t->budget_bytes) {
        o.budget_bytes = (t->budget_bytes - t->runtime_bytes) / m->page_bytes * m->page_bytes;
        o.budget_bytes -= m->top_bytes; /* the floor has room for it */
    }
    for (uint32_t i = 0; i < r->count; i++) {
        o.fixed_offsets = m->offsets[i];
        const hr_status status = hri_plan_make(&m->x[i].problem, &o, &m->plans[i], NULL, why);
        if (status != HR_OK) {
            return status;
        }
        const hri_plan *plan = m->plans[i];
        arena = plan->arena_bytes > arena ? plan->arena_bytes : arena;
        plain = plan->unplanned_bytes > plain ? plan->unplanned_bytes : plain;
        t->recomputed_ops += plan->again_count;
        time += plan->time_ns;
        base += plan->base_time_ns;
    }
    t->time_ratio = base > 0 ? time / base : 1.0;
    t->persistent_bytes = m->bottom_bytes;
    t->arena_bytes = whole_pages(m, arena + m->top_bytes) - m->bottom_bytes;
    t->peak_bytes = t->runtime_bytes + t->persistent_bytes + t->arena_bytes;
    t->unplanned_bytes = t->runtime_bytes + whole_pages(m, plain);
    return HR_OK;
}

static hr_status bind(hr_run *r, const making *m, uint64_t seed, hri_prose *why) {
    hri_runner_options o = {.device = r->device,
                            .engine = r->engine,
                            .threads = r->threads,
                            .seed = seed,
                            .count = r->count};
    if (r->engine && r->report.budget_bytes) {
        o.runtime_bytes =
            r->report.budget_bytes - r->report.persistent_bytes - r->report.arena_bytes;
    }
    for (uint32_t i = 0; i < r->count; i++) {
        o.pieces[i] = (hri_runner_piece){r->graphs[i], &m->x[i].problem, m->plans[i]};
    }
    return hri_runner_open(&o, &r->runner, why);
}

static hr_status look_at_device(hr_run *r, making *m, hri_prose *why) {
    hr_device_info info = {.size = sizeof info};
    const hr_status status = hr_device_get_info(r->device, &info);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "the device does not respond: %s",
                             hr_status_text(status));
    }
    m->page_bytes = info.page_bytes ? info.page_bytes : 1;
    const uint32_t can = hri_device_can(r->device);
    if (can & HRI_CAN_QUEUE) {
        return hri_engine_open(r->device, NULL, &r->engine, why);
    }
    r->report.runtime_bytes =
        can & HRI_CAN_POINT
            ? hri_resident_runtime() + hri_threads_count(r->threads) * (uint64_t)HRI_RESIDENT_THREAD
            : info.runtime_bytes;
    return HR_OK;
}

/* Without a number of its own, the run may have what the pool of its device has free. */
static hr_status look_at_budget(hr_run *r, hri_prose *why) {
    if (!r->budget || r->report.budget_bytes) {
        return HR_OK;
    }
    const hr_status status = hri_budget_free(r->budget, r->device->name, &r->report.budget_bytes);
    return status == HR_OK && r->report.budget_bytes
               ? HR_OK
               : hri_prose_set(why, status == HR_OK ? HR_E_AGAIN : status,
                               "the budget has nothing free on %s", r->device->name);
}

/* All that the run takes on its device, from now until it is closed. */
static hr_status take_lease(hr_run *r, hri_prose *why) {
    hr_error refusal = {.code = HR_OK};
    const hr_lease_options o = {.size = sizeof o,
                                .pool = r->device->name,
                                .name = "run",
                                .wanted_bytes = r->report.peak_bytes};
    if (!r->budget) {
        return HR_OK;
    }
    hr_status status = hr_lease_request(r->budget, &o, &r->lease, &refusal);
    if (status == HR_OK) {
        status = hr_lease_hold(r->lease, r->report.peak_bytes);
    }
    return status == HR_OK ? HR_OK : hri_prose_set(why, status, "%s", refusal.message);
}

static hr_status set_up(hr_run *r, uint64_t seed, hri_prose *why) {
    making m = {.count = 0};
    hr_status status = look_at_budget(r, why);
    if (status == HR_OK) {
        status = look_at_device(r, &m, why);
    }
    if (status == HR_OK && r->engine) {
        try_kernels(r, &m);
    }
    if (status == HR_OK) {
        status = make_problems(r, &m, why);
    }
    if (status == HR_OK) {
        status = look_at_floor(r, &m, why);
    }
    if (status == HR_OK) {
        status = make_plans(r, &m, why);
    }
    if (status == HR_OK) {
        status = take_lease(r, why);
    }
    if (status == HR_OK) {
        status = bind(r, &m, seed, why);
    }
    making_deinit(&m);
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
        r->report.budget_bytes = options->budget_bytes;
        r->budget = options->budget;
        status = hri_threads_create(options->threads ? options->threads : hri_cores_usable(),
                                    &r->threads);
    }
    if (status == HR_OK) {
        status = make_fed(r);
    }
    if (status == HR_OK) {
        status = set_up(r, options->seed, &prose);
    }
    if (status != HR_OK) {
        hr_run_close(r);
        if (why) {
            explain(why, status, &prose);
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
        hr_lease_release(run->lease);
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
