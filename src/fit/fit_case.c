/* A case: graphs, problems, and one place for each persistent value that they share. */
#include "fit/fit_int.h"

#include <string.h>

#include "base/alloc.h"
#include "fit/past.h"
#include "plan/share.h"
#include "memory/resident.h"

static uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return unit > 1 ? (bytes + unit - 1) / unit * unit : bytes;
}

uint64_t hri_fit_pages(const hri_fit_job *job, uint64_t bytes) {
    return round_up(bytes, job->page_bytes);
}

/* ---- times ---- */

typedef struct timer {
    const hri_fit_job *job;
    const hr_graph *g;
    double share; /* of the threads that times are measured with */
} timer;

/* How much longer an op takes with fewer threads: computing does, bytes do not come faster with more. */
static double slower(const timer *t, const hri_sig *sig) {
    const hri_machine *m = &t->job->machine;
    if (!(t->share < 1) || m->flops_per_ns <= 0 || m->bytes_per_ns <= 0) {
        return 1;
    }
    const hri_cost cost = hri_op_cost(sig);
    const double compute = cost.flops / m->flops_per_ns, bytes = cost.bytes / m->bytes_per_ns;
    const double most = compute > bytes ? compute : bytes;
    const double less = compute / t->share > bytes ? compute / t->share : bytes;
    return most > 0 ? less / most : 1;
}

static double time_of(void *user, const hri_problem_op *op, uint32_t variant) {
    const timer *t = user;
    if (op->net) {
        return -1; /* nobody can time it alone */
    }
    const hri_sig *sig = &t->g->nodes[op->id].sig;
    const double time = t->job->time_ns(t->job->time_user, sig, variant);
    return time > 0 ? time * slower(t, sig) : time;
}

/* A kernel asks for the work space of every way it might take until it was tried, and then for that of the way it took. */
static void try_kernels(const hri_fit_job *job, const hr_graph *g) {
    for (uint32_t n = 0; job->time_ns && n < g->node_count; n++) {
        if (g->nodes[n].live && !g->nodes[n].sig.op->view && !g->nodes[n].sig.op->net) {
            (void)!(job->time_ns(job->time_user, &g->nodes[n].sig, 0) < 0);
        }
    }
    for (hr_value v = 1; job->time_ns && v < g->value_count; v++) {
        hri_lane_widen widen;
        if (hri_lane_widens(g, v, &widen)) {
            (void)!(job->time_ns(job->time_user, &widen.sig, 0) < 0);
        }
    }
}

/* ---- machines ---- */

int hri_fit_is_nominal(const hri_fit_job *job) {
    return !job->time_ns && job->nominal.flops_per_ns <= 0 && job->machine.threads <= 1;
}

hri_machine hri_fit_nominal_gpu(const hri_machine *machine) {
    hri_machine m = *machine;
    m.flops_per_ns = 400e3;
    m.bytes_per_ns = 3.6e3;
    m.launch_ns = 3e3;
    m.out_bytes_per_ns = m.in_bytes_per_ns = 50;
    m.copy_latency_ns = 10e3;
    return m;
}

/* The machine with so many threads; 0: the nominal one. */
static hri_machine machine_of(const hri_fit_job *job, uint32_t threads) {
    hri_machine m = threads == 0 && job->nominal.flops_per_ns > 0 ? job->nominal : job->machine;
    if (threads && m.threads > threads) { /* slower by as much */
        m.flops_per_ns *= (double)threads / m.threads;
    }
    m.threads = threads ? threads : 1;
    m.gpu = job->machine.gpu;
    m.kernels = job->machine.kernels;
    return m;
}

/* The planner's view of a graph. */
static hr_status make_problem(const hri_fit_job *job, const hr_graph *g, uint32_t threads,
                              hri_graph_problem *out, hri_prose *why) {
    const hri_machine machine = machine_of(job, threads);
    hr_status status = hri_problem_from_graph(g, &machine, out, why);
    if (status == HR_OK && job->time_ns && threads) {
        const uint32_t all = job->machine.threads;
        timer t = {job, g, threads < all ? (double)threads / all : 1};
        hri_problem_retime(&out->problem, time_of, &t);
        status = hri_fit_company(job, g, &out->problem, 1);
        if (status != HR_OK) {
            hri_graph_problem_deinit(out);
        }
    }
    return status;
}

/* ---- building ---- */

/* A piece whose graph is there. */
static hr_status look_at_piece(const hri_fit_job *job, hri_fit_piece *out, hri_prose *why) {
    if (job->engine) {
        try_kernels(job, out->g);
    }
    hr_status status = make_problem(job, out->g, 0, &out->x, why);
    status = status == HR_OK ? hri_fit_company(job, out->g, &out->x.problem, 0) : status;
    if (status == HR_OK) {
        out->offsets = hri_calloc(out->x.problem.value_count, sizeof *out->offsets);
        status = out->offsets ? HR_OK : HR_E_NOMEM_HOST;
    }
    return status;
}

static hr_status build_graph(const hri_fit_job *job, hr_step_kind kind, int64_t samples,
                             const hri_shard *shard, hr_graph **out, hri_prose *why) {
    hr_error error = {.code = HR_OK};
    const hr_status status =
        hri_step_build(&job->options, job->build, job->user, kind, samples, shard, out, &error);
    return status == HR_OK
               ? HR_OK
               : hri_prose_set(why, status, "%s",
                               error.message[0] ? error.message : hr_status_text(status));
}

/* rows: parts of a round, where replicas share a step. */
static hr_status build_rows(const hri_fit_job *job, hr_step_kind kind, int64_t samples,
                            uint32_t runs, uint32_t rows, hri_fit_piece *out, hri_prose *why) {
    const hri_shard shard = {job->shard, job->replicas, rows, job->engine != NULL,
                             job->engine && job->arenas == job->replicas};
    out->kind = kind;
    out->samples = samples;
    out->runs = runs;
    const hr_status status =
        build_graph(job, kind, samples, hri_fit_shared(job) ? &shard : NULL, &out->built, why);
    out->g = out->built;
    return status == HR_OK ? look_at_piece(job, out, why) : status;
}

static hr_status build_piece(const hri_fit_job *job, hr_step_kind kind, int64_t samples,
                             uint32_t runs, hri_fit_piece *out, hri_prose *why) {
    return build_rows(job, kind, samples, runs, 1, out, why);
}

static hr_status take_given(const hri_fit_job *job, hri_fit_case *c, hri_prose *why) {
    hr_status status = HR_OK;
    c->parts = 1;
    for (uint32_t i = 0; i < job->given_count && status == HR_OK; i++) {
        c->pieces[c->count] =
            (hri_fit_piece){.kind = HR_STEP_WHOLE, .samples = 1, .runs = 1, .g = job->given[i]};
        status = look_at_piece(job, &c->pieces[c->count++], why);
    }
    return status;
}

/* Graphs of a step that replicas share: rounds of one part each.  The face says what a checkpoint of one replica has. */
static hr_status build_rounds(const hri_fit_job *job, hri_fit_case *c, int64_t last,
                              hri_prose *why) {
    const uint32_t ranks = job->replicas, rounds = (c->parts + ranks - 1) / ranks,
                   rows = c->parts - (rounds - 1) * ranks;
    const uint32_t uneven = last != c->part; /* one is shorter, beside the others */
    hr_status status = build_graph(job, HR_STEP_FOLD_LAST, last, NULL, &c->face, why);
    if (status == HR_OK) {
        status = build_rows(job, HR_STEP_ROUND_LAST, last, 1 - uneven, rows, &c->pieces[c->count++],
                            why);
    }
    if (status == HR_OK && uneven) {
        status = build_rows(job, HR_STEP_ROUND_LAST, c->part, 1, rows, &c->pieces[c->count++], why);
    }
    return status == HR_OK && rounds > 1 ? build_rows(job, HR_STEP_ROUND, c->part, rounds - 1,
                                                      ranks, &c->pieces[c->count++], why)
                                         : status;
}

static hr_status build_training(const hri_fit_job *job, hri_fit_case *c, int64_t last,
                                hri_prose *why) {
    const int whole = c->parts == 1;
    const hr_step_kind kind = job->keep_gradients ? HR_STEP_PART
                              : whole             ? HR_STEP_WHOLE
                                                  : HR_STEP_LAST;
    hr_status status = build_piece(job, kind, last, 1, &c->pieces[c->count++], why);
    if (status == HR_OK && !whole) {
        status = build_piece(job, HR_STEP_PART, c->part, c->parts - 1, &c->pieces[c->count++], why);
    }
    if (status == HR_OK && job->keep_gradients) {
        status = build_piece(job, HR_STEP_UPDATE, 1, 1, &c->pieces[c->count++], why);
    }
    return status;
}

static hr_status build_pieces(const hri_fit_job *given, hri_fit_case *c, hri_prose *why) {
    hri_fit_job own = *given;
    const hri_fit_job *job = &own;
    const int64_t last = job->batch - (job->batch - 1) / c->part * c->part;
    c->parts = (uint32_t)((job->batch - 1) / c->part + 1);
    own.options.ignored |= given->keep_gradients; /* sums, and no velocities in their place */
    hr_status status =
        hri_fit_shared(job) ? build_rounds(job, c, last, why) : build_training(job, c, last, why);
    if (status == HR_OK && job->evaluate) {
        const int64_t samples = job->evaluate_samples ? job->evaluate_samples : c->part;
        status = build_piece(job, HR_STEP_EVALUATE, samples, 0, &c->pieces[c->count++], why);
        if (status == HR_OK && job->evaluate_single && samples > 1) {
            status = build_piece(job, HR_STEP_EVALUATE, 1, 0, &c->pieces[c->count++], why);
        }
    }
    return status;
}

/* ---- the bottom of the arena ---- */

static hr_status place_bottom(const hri_fit_job *job, hri_fit_case *c, hri_prose *why) {
    const hri_problem *problems[HRI_FIT_PIECES];
    uint64_t *offsets[HRI_FIT_PIECES];
    for (uint32_t i = 0; i < c->count; i++) {
        problems[i] = &c->pieces[i].x.problem;
        offsets[i] = c->pieces[i].offsets;
    }
    const hr_status status = hri_problem_share(problems, offsets, c->count, &c->own_bytes, why);
    c->bottom_bytes = job->below_bytes + c->own_bytes + job->above_bytes;
    for (uint32_t i = 0; i < c->count && status == HR_OK && job->below_bytes; i++) {
        for (uint32_t v = 0; v < problems[i]->value_count; v++) {
            const int role = problems[i]->values[v].role;
            offsets[i][v] +=
                role == HRI_ROLE_PERSISTENT || role == HRI_ROLE_CONSTANT ? job->below_bytes : 0;
        }
    }
    return status;
}

static uint64_t graph_bytes(const hr_graph *g) {
    return hri_arena_held_bytes(&g->arena) + g->value_space * sizeof *g->values +
           g->node_space * sizeof *g->nodes;
}

static uint64_t record_bytes(const hri_fit_job *job, const hri_fit_case *c) {
    uint64_t bytes = c->face ? graph_bytes(c->face) : 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const hr_graph *g = c->pieces[i].g;
        const hri_problem *p = &c->pieces[i].x.problem;
        uint64_t operands = 0;
        for (uint32_t n = 0; n < p->op_count; n++) {
            operands += p->ops[n].in_count + p->ops[n].out_count + 1;
        }
        bytes += graph_bytes(g);
        bytes += hri_fit_arenas(job) *
                 hri_exec_record_bytes((uint64_t)p->op_count * 2, operands * 2, g->value_count);
    }
    return bytes;
}

/* Graphs and problems of all pieces, the search of one, the plans of all: those found, those better, the smallest. */
static uint64_t planning_bytes(const hri_fit_job *job, const hri_fit_case *c) {
    uint64_t held = c->face ? graph_bytes(c->face) : 0, search = 0, plans = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const hri_graph_problem *x = &c->pieces[i].x;
        const hr_graph *g = c->pieces[i].g;
        uint64_t plan;
        const uint64_t make = hri_plan_make_bytes(&x->problem, &plan);
        held += graph_bytes(g) + hri_problem_held_bytes(&x->problem) +
                g->value_count * sizeof *x->value_of + g->node_count * sizeof *x->op_of +
                x->problem.value_count * sizeof(uint64_t);
        search = make > search ? make : search;
        plans += plan;
    }
    return job->count_records ? job->runtime_bytes + held + search + 3 * plans : 0;
}

static uint64_t runtime_bytes(const hri_fit_job *job, const hri_fit_case *c) {
    if (job->engine) {
        uint64_t nodes = 0;
        for (uint32_t i = 0; i < c->count; i++) {
            nodes += c->pieces[i].x.problem.op_count;
        }
        const uint64_t now = hri_engine_runtime(job->engine);
        return (now > job->runtime_bytes ? now : job->runtime_bytes) +
               hri_engine_graph_reserve(job->engine, hri_fit_arenas(job) * c->count,
                                        hri_fit_arenas(job) * nodes) +
               job->reserve_bytes;
    }
    const uint64_t threads = c->threads > 1 ? (c->threads - 1) * job->thread_bytes : 0;
    const uint64_t bytes =
        job->runtime_bytes + threads + (job->count_records ? record_bytes(job, c) : 0);
    return round_up(bytes, job->count_records ? 64 << 10 : 1);
}

/* At the top of the arena, behind what is planned. */
static uint64_t top_bytes(const hri_fit_job *job, const hri_fit_case *c, int stage) {
    return job->engine ? HRI_LANE_ALIGN + hri_lane_top_bytes(&c->lane, stage) : 0;
}

/* What arenas of that size take in all: with what the kernel needs to hold them, where the budget is the process's. */
static uint64_t with_kernel(const hri_fit_job *job, uint64_t arena) {
    return hri_fit_arenas(job) * (arena + (job->count_records ? hri_resident_kernel(arena) : 0));
}

/* The largest arena, in whole pages, that a case may have; 0: not even one page. */
static uint64_t most_arena(const hri_fit_job *job, const hri_fit_case *c, uint64_t budget_bytes) {
    const uint64_t page = job->page_bytes > 1 ? job->page_bytes : 1;
    const uint64_t left = budget_bytes > c->runtime_bytes ? budget_bytes - c->runtime_bytes : 0;
    const uint32_t arenas = hri_fit_arenas(job);
    uint64_t arena = left / arenas / page * page;
    while (arena && with_kernel(job, arena) > left) {
        const uint64_t over = (with_kernel(job, arena) - left + arenas - 1) / arenas;
        const uint64_t less = (over + page - 1) / page * page;
        arena -= less < arena ? less : arena;
    }
    return arena;
}

uint64_t hri_fit_peak(const hri_fit_job *job, const hri_fit_case *c, uint64_t arena_bytes) {
    return c->runtime_bytes + with_kernel(job, arena_bytes);
}

static void find_floor(const hri_fit_job *job, hri_fit_case *c) {
    c->floor_bytes = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const hri_problem *p = &c->pieces[i].x.problem;
        uint32_t op;
        const uint64_t arena = hri_problem_floor(p, &op) - p->persistent_bytes + c->bottom_bytes +
                               top_bytes(job, c, 0);
        const uint64_t bytes =
            c->runtime_bytes + with_kernel(job, round_up(arena, job->page_bytes));
        if (bytes > c->floor_bytes) {
            c->floor_bytes = bytes;
            c->floor_piece = i;
            c->floor_op = op;
        }
    }
}

/* What the ops of a step say about cutting it. */
static void look_at_ops(const hri_fit_job *job, hri_fit_case *c) {
    const hri_problem *p = &c->pieces[0].x.problem;
    c->coupled_op = HRI_PROBLEM_NONE;
    for (uint32_t n = p->op_count; n-- > 0;) {
        const int by_labels = p->ops[n].coupled == HRI_COUPLED_BY_LABELS;
        if (p->ops[n].coupled && (!by_labels || job->options.ignored) &&
            p->ops[n].phase == HRI_PROBLEM_FORWARD) {
            c->coupled_op = n;
        }
    }
}

hr_status hri_fit_case_open(const hri_fit_job *job, int64_t part, hri_fit_case **out,
                            hri_prose *why) {
    hri_fit_case *c = hri_calloc(1, sizeof *c);
    if (!c) {
        return HR_E_NOMEM_HOST;
    }
    c->part = part < job->batch ? part : job->batch;
    hr_status status = job->given_count ? take_given(job, c, why) : build_pieces(job, c, why);
    if (status == HR_OK) {
        status = place_bottom(job, c, why);
    }
    if (status != HR_OK) {
        hri_fit_case_close(c);
        return status;
    }
    for (uint32_t i = 0; i < c->count; i++) {
        hri_lane_need(c->pieces[i].g, &c->lane);
    }
    c->lane.band = job->band_bytes;
    look_at_ops(job, c);
    c->planning_bytes = planning_bytes(job, c);
    hri_fit_case_measure(job, c);
    *out = c;
    return HR_OK;
}

hr_status hri_fit_case_set_threads(const hri_fit *f, hri_fit_case *c, uint32_t threads,
                                   hri_prose *why) {
    if (c->threads == threads || hri_fit_is_nominal(&f->job)) {
        return HR_OK;
    }
    for (uint32_t i = 0; i < c->count; i++) { /* values are numbered alike, so offsets stay */
        hri_graph_problem_deinit(&c->pieces[i].x);
    }
    for (uint32_t i = 0; i < c->count; i++) {
        const hr_status status =
            make_problem(&f->job, c->pieces[i].g, threads, &c->pieces[i].x, why);
        if (status != HR_OK) {
            c->threads = UINT32_MAX; /* of nobody: made again when it is asked for */
            return status;
        }
    }
    c->threads = threads;
    hri_fit_case_measure(&f->job, c);
    return HR_OK;
}

void hri_fit_case_measure(const hri_fit_job *job, hri_fit_case *c) {
    c->runtime_bytes = runtime_bytes(job, c);
    find_floor(job, c);
}

void hri_fit_case_close(hri_fit_case *c) {
    if (c) {
        hr_graph_destroy(c->face);
    }
    for (uint32_t i = 0; c && i < c->count; i++) {
        hr_graph_destroy(c->pieces[i].built);
        hri_graph_problem_deinit(&c->pieces[i].x);
        hri_free(c->pieces[i].offsets);
    }
    hri_free(c);
}

/* ---- planning ---- */

static uint64_t input_bytes(const hri_problem *p) {
    uint64_t bytes = 0;
    for (uint32_t v = 0; v < p->value_count; v++) {
        bytes += p->values[v].role == HRI_ROLE_INPUT ? p->values[v].room_bytes : 0;
    }
    return bytes;
}

/* What the plans themselves exchange, again where they gather again. */
static void add_net(const hri_fit_case *c, hri_fit_plans *sums) {
    for (uint32_t i = 0; i < c->count; i++) {
        const hri_plan_net net = hri_plan_net_of(&c->pieces[i].x.problem, sums->plans[i]);
        sums->net_bytes += net.bytes * c->pieces[i].runs;
        sums->net_count += (uint64_t)net.count * c->pieces[i].runs;
        sums->net_ns += net.time_ns * c->pieces[i].runs;
        sums->net_exposed_ns += net.exposed_ns * c->pieces[i].runs;
    }
}

/* Bytes a nanosecond that one thread copies into pinned memory and the device takes from there: what ViT-B lost with two and
 * four parts of 38 and 19 MB on an H200.  Of smaller ones nothing was to be seen. */
static const double first_part_bytes_per_ns = 5.5, unseen_part_bytes = 10e6;

/* What feeding costs the steps.  A batch in parts is fed in turns.  On a GPU the first part is put while nothing runs, and without
 * a place for inputs (`stage`) all of them come from the host in the queue of the kernels.  On a described device those of all
 * parts but the first count as if nobody fed ahead, so that parts are worth it where they are chosen. */
static double feed_ns(const hri_fit_job *job, const hri_fit_case *c, int stage) {
    const hri_machine *m =
        c->threads == 0 && job->nominal.in_bytes_per_ns > 0 ? &job->nominal : &job->machine;
    double bytes = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        bytes += (double)input_bytes(&c->pieces[i].x.problem) * c->pieces[i].runs;
    }
    if (job->replicas > 1 || m->in_bytes_per_ns <= 0 || m->copies_block) {
        return 0;
    }
    const double part = bytes / c->parts;
    const double first =
        c->parts > 1 && part > unseen_part_bytes ? part / first_part_bytes_per_ns : 0;
    const double later = c->parts > 1 ? bytes * (c->parts - 1) / c->parts / m->in_bytes_per_ns : 0;
    const double all = stage ? 0 : bytes / m->in_bytes_per_ns;
    return job->engine ? first + all : later;
}

void hri_fit_add_up(const hri_fit_job *job, hri_fit_plans *out) {
    const hri_fit_case *c = out->c;
    uint64_t most = 0;
    hri_fit_plans sums = {.c = out->c, .stage = out->stage, .budget_bytes = out->budget_bytes};
    for (uint32_t i = 0; i < c->count; i++) {
        const hri_plan *plan = sums.plans[i] = out->plans[i];
        const double runs = c->pieces[i].runs;
        if (plan->arena_bytes > most) {
            most = plan->arena_bytes;
            sums.peak_piece = i;
        }
        sums.live_bytes = plan->live_bytes > sums.live_bytes ? plan->live_bytes : sums.live_bytes;
        sums.other_bytes =
            plan->other_bytes > sums.other_bytes ? plan->other_bytes : sums.other_bytes;
        const uint64_t input = input_bytes(&c->pieces[i].x.problem);
        sums.input_bytes = input > sums.input_bytes ? input : sums.input_bytes;
        sums.copied_bytes += plan->copied_bytes * c->pieces[i].runs;
        sums.again_count += (uint64_t)plan->again_count * c->pieces[i].runs;
        sums.time_ns += runs * plan->time_ns;
        sums.base_time_ns += runs * plan->base_time_ns;
        sums.bound_time_ns += runs * plan->bound_time_ns;
    }
    sums.time_ns += feed_ns(job, c, out->stage);
    add_net(c, &sums);
    sums.part = c->part;
    sums.parts = c->parts;
    sums.threads = c->threads;
    sums.bottom_bytes = c->bottom_bytes;
    sums.own_bytes = c->own_bytes;
    sums.planning_bytes = c->planning_bytes;
    sums.arena_bytes = round_up(most + top_bytes(job, c, out->stage), job->page_bytes);
    sums.peak_bytes = hri_fit_peak(job, c, sums.arena_bytes);
    if (sums.peak_bytes < c->planning_bytes) {
        sums.peak_bytes = c->planning_bytes;
    }
    sums.arenas = hri_fit_arenas(job);
    sums.runtime_bytes = sums.peak_bytes - sums.arenas * sums.arena_bytes;
    *out = sums;
}

void hri_fit_plans_adopt(const hri_fit *f, hri_fit_case *c, hri_plan *const *plans,
                         hri_fit_plans *out) {
    *out = (hri_fit_plans){.c = c};
    c->users++;
    for (uint32_t i = 0; i < c->count; i++) {
        out->plans[i] = plans[i];
    }
    hri_fit_add_up(&f->job, out);
}

/* The piece whose samples are fewer than those of the ranks beside it: it has their plan, that of the next piece, so that
 * all exchange in one order.  c->count: there is none. */
static uint32_t follower(const hri_fit_case *c) {
    return c->count > 1 && c->pieces[0].kind == HR_STEP_ROUND_LAST &&
                   c->pieces[1].kind == HR_STEP_ROUND_LAST
               ? 0
               : c->count;
}

/* Every piece of the case in an arena of that size, all of it; 0: as much as it takes. */
static hr_status plan_pieces(const hri_fit *f, hri_fit_case *c, uint64_t arena_bytes,
                             uint64_t effort, int stage, hri_fit_memos *memos, hri_fit_plans *out,
                             hri_prose *why) {
    hri_fit_plans plans = {.stage = stage};
    hr_status status = HR_OK;
    const uint64_t top = top_bytes(&f->job, c, stage);
    hri_plan_options o = {.effort = effort,
                          .no_offload = f->job.no_offload,
                          .no_overlap = f->job.no_overlap,
                          .short_memory = (uint8_t)(f->job.count_records != 0),
                          .other_budget_bytes = f->job.other_budget_bytes,
                          .fixed_bytes = c->bottom_bytes,
                          .budget_bytes = arena_bytes > top ? arena_bytes - top : 0};
    const uint32_t follows = follower(c);
    for (uint32_t i = 0; i < c->count && status == HR_OK; i++) {
        if (i == follows) {
            continue;
        }
        o.fixed_offsets = c->pieces[i].offsets;
        o.memo = memos && memos->any ? &memos->of[i] : NULL;
        o.start = memos && !memos->any ? &memos->of[i] : NULL;
        o.any = memos && memos->any;
        o.memo_only = memos && memos->only;
        status = hri_past_plan(f->past, &c->pieces[i].x.problem, &o, &plans.plans[i], why);
    }
    if (status == HR_OK && follows < c->count) {
        status = hri_plan_carry(plans.plans[follows + 1], &c->pieces[follows].x.problem,
                                &plans.plans[follows], why);
    }
    if (status != HR_OK) {
        hri_fit_plans_deinit(&plans);
        return status;
    }
    plans.c = c;
    c->users++;
    hri_fit_add_up(&f->job, &plans);
    *out = plans;
    return HR_OK;
}

hr_status hri_fit_case_plan(const hri_fit *f, hri_fit_case *c, uint64_t budget_bytes,
                            uint64_t effort, hri_fit_plans *out, hri_prose *why) {
    return hri_fit_case_plan_on(f, c, budget_bytes, effort, NULL, out, why);
}

hr_status hri_fit_case_plan_on(const hri_fit *f, hri_fit_case *c, uint64_t budget_bytes,
                               uint64_t effort, hri_fit_memos *memos, hri_fit_plans *out,
                               hri_prose *why) {
    const int gpu = f->job.engine != NULL;
    const hr_status asked = f->job.tick ? f->job.tick(f->job.tick_user) : HR_OK;
    if (asked != HR_OK) {
        return hri_prose_set(why, asked, "planning ended: %s", hr_status_text(asked));
    }
    if (!budget_bytes) {
        return plan_pieces(f, c, 0, effort, gpu && !f->job.no_stage, memos, out, why);
    }
    if (budget_bytes < c->floor_bytes || budget_bytes < c->planning_bytes) {
        return hri_prose_set(why, HR_E_NO_PLAN, "the budget is below the minimum");
    }
    const uint64_t arena = most_arena(&f->job, c, budget_bytes);
    /* A place for the next batch saves the time of copying it, as long as it is a small part of everything. */
    const int stage = gpu && !f->job.no_stage && c->lane.waiting <= arena / 16;
    hr_status status = plan_pieces(f, c, arena, effort, stage, memos, out, why);
    if (status == HR_E_NO_PLAN && stage) {
        status = plan_pieces(f, c, arena, effort, 0, memos, out, why);
    }
    return status;
}

int hri_fit_choices(const hri_fit_plans *plans, uint32_t count, hri_fit_memos *out) {
    for (uint32_t i = 0; i < count; i++) {
        if (!plans->plans[i]->choices.order) {
            return 0;
        }
        out->of[i] = plans->plans[i]->choices;
    }
    return 1;
}

void hri_fit_plans_deinit(hri_fit_plans *plans) {
    if (plans->c) {
        plans->c->users--;
    }
    for (uint32_t i = 0; i < HRI_FIT_PIECES; i++) {
        hri_plan_destroy(plans->plans[i]);
    }
    *plans = (hri_fit_plans){0};
}

void hri_fit_runner(const hri_fit_plans *plans, hri_runner_options *out) {
    out->count = plans->c->count;
    out->stage = plans->stage;
    out->band_bytes = plans->c->lane.band;
    for (uint32_t i = 0; i < plans->c->count; i++) {
        out->pieces[i] = (hri_runner_piece){plans->c->pieces[i].g, &plans->c->pieces[i].x.problem,
                                            plans->plans[i]};
    }
}
