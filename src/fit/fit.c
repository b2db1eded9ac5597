/* The search over cases: the batch whole, halved, halved again, each in its forms.  fit_least.c has the questions that
 * an answer raises. */
#include "fit/fit.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "plan/bound.h"
#include "fit/fit_int.h"
#include "fit/past.h"

/* Cutting a batch pays only where computing again would cost more than this. */
static const double good_enough = 1.02;

uint64_t hri_fit_effort(const hri_fit_job *job, uint32_t share) {
    static const uint64_t whole = 16000000; /* more finds next to nothing: tools/plan-figures */
    const uint64_t effort = (job->effort ? job->effort : whole) / (share ? share : 1);
    return effort ? effort : 1;
}

/* ---- cases, open and remembered ---- */

static uint32_t threads_of(const hri_fit *f) {
    return f->job.machine.threads > 1 ? f->job.machine.threads : 1;
}

static void remember(hri_fit *f, const hri_fit_case *c) {
    hri_fit_fact *fact = NULL;
    for (uint32_t i = 0; i < f->fact_count; i++) {
        fact = f->facts[i].part == c->part ? &f->facts[i] : fact;
    }
    if (!fact) {
        fact = &f->facts[f->fact_count++];
    }
    *fact = (hri_fit_fact){.part = c->part,
                           .parts = c->parts,
                           .floor_bytes = c->floor_bytes,
                           .runtime_bytes = c->runtime_bytes,
                           .planning_bytes = c->planning_bytes,
                           .own_bytes = c->own_bytes};
    const hri_problem *p = &c->pieces[c->floor_piece].x.problem;
    if (c->floor_op < p->op_count) {
        const hri_problem_op *op = &p->ops[c->floor_op];
        snprintf(fact->floor_op, sizeof fact->floor_op, "%s", op->name);
        snprintf(fact->floor_kind, sizeof fact->floor_kind, "%s", op->kind);
        fact->floor_op_bytes = hri_problem_op_floor(p, c->floor_op);
    }
}

void hri_fit_remember_unopened(hri_fit *f, int64_t part) {
    const hri_fit_fact *whole = &f->facts[0]; /* parts have all that it has, and one graph more */
    const uint64_t least = whole->runtime_bytes + whole->own_bytes;
    hri_fit_rest(f);
    f->facts[f->fact_count++] =
        (hri_fit_fact){.part = part,
                       .parts = (uint32_t)((f->job.batch - 1) / part + 1),
                       .floor_bytes = least < whole->floor_bytes ? least : whole->floor_bytes,
                       .runtime_bytes = whole->runtime_bytes,
                       .planning_bytes = part < f->job.batch ? whole->planning_bytes : 0,
                       .own_bytes = whole->own_bytes,
                       .unopened = 1};
}

static const hri_fit_fact *fact_of(const hri_fit *f, int64_t part) {
    for (uint32_t i = 0; i < f->fact_count; i++) {
        if (f->facts[i].part == part) {
            return &f->facts[i];
        }
    }
    return NULL;
}

void hri_fit_rest(hri_fit *f) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->case_count; i++) {
        if (f->cases[i]->users) {
            f->cases[count++] = f->cases[i];
        } else {
            hri_fit_case_close(f->cases[i]);
        }
    }
    if (f->job.count_records && count < f->case_count) {
        hri_trim(); /* a budget counts what is resident, whatever the heap keeps for later */
    }
    f->case_count = count;
}

hr_status hri_fit_case_get(hri_fit *f, int64_t part, hri_fit_case **out, hri_prose *why) {
    for (uint32_t i = 0; i < f->case_count; i++) {
        hri_fit_case *c = f->cases[i];
        if (c->part == part && (c->threads == 0 || !c->users)) {
            const hr_status status = hri_fit_case_set_threads(f, c, 0, why);
            if (status == HR_OK) {
                *out = c;
            }
            return status;
        }
    }
    hri_fit_rest(f);
    if (f->case_count == HRI_FIT_CASES || (f->fact_count == HRI_FIT_CASES && !fact_of(f, part))) {
        return hri_prose_set(why, HR_E_RANGE, "too many ways to split the batch");
    }
    const hr_status status = hri_fit_case_open(&f->job, part, &f->cases[f->case_count], why);
    if (status == HR_OK) {
        *out = f->cases[f->case_count++];
        remember(f, *out);
    }
    return status;
}

void hri_fit_drop_others(hri_fit *f, const hri_fit_case *keep) {
    hri_fit_plans_deinit(&f->least);
    f->least_known = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->case_count; i++) {
        if (f->cases[i] == keep) {
            f->cases[count++] = f->cases[i];
        } else {
            hri_fit_case_close(f->cases[i]);
        }
    }
    f->case_count = count;
}

void hri_fit_release(hri_fit *f) {
    hri_past_destroy(f->past);
    f->past = NULL;
    for (uint32_t i = 0; i < f->case_count; i++) {
        for (uint32_t k = 0; k < f->cases[i]->count; k++) {
            hri_fit_piece *piece = &f->cases[i]->pieces[k];
            hri_graph_problem_deinit(&piece->x);
            hri_free(piece->offsets);
            piece->offsets = NULL;
        }
    }
}

void hri_fit_detach(hri_fit *f, hri_fit_plans *plans) {
    if (plans->c) {
        plans->c->users--;
        plans->c = NULL;
        hri_fit_rest(f);
    }
}

hr_status hri_fit_attach(hri_fit *f, hri_fit_plans *plans, hri_prose *why) {
    hri_fit_case *c = NULL;
    if (plans->c) {
        return HR_OK;
    }
    hr_status status = hri_fit_case_get(f, plans->part, &c, why);
    if (status == HR_OK && plans->threads) {
        status = hri_fit_case_set_threads(f, c, plans->threads, why);
    }
    if (status == HR_OK) {
        plans->c = c;
        c->users++;
    }
    return status;
}

/* ---- opening ---- */

/* The batch is wanted in parts, and an op is in the way. */
static hr_status refuse_cut(const hri_fit *f, hri_prose *why) {
    return hri_prose_set(why, HR_E_INVALID,
                         "the batch cannot be split: %s depends on the whole batch; "
                         "`split_norm` allows it",
                         f->coupled_by.text);
}

/* Every replica has a part of its own to compute. */
static hr_status check_replicas(const hri_fit *f, hri_prose *why) {
    const int64_t part = hri_fit_part_at(f, 0), batch = f->job.batch;
    const int64_t parts = (batch - 1) / part + 1;
    if (f->job.replicas < 2 || parts >= f->job.replicas) {
        return HR_OK;
    }
    return hri_prose_set(why, HR_E_INVALID,
                         "%u replicas need at least as many micro-batches, but a batch of %lld "
                         "gives %lld of %lld samples",
                         f->job.replicas, (long long)batch, (long long)parts, (long long)part);
}

static hr_status look_at_whole(hri_fit *f, hri_prose *why) {
    hri_fit_case *whole = NULL;
    hri_fit_plans plans;
    hr_status status = hri_fit_case_get(f, f->job.batch, &whole, why);
    if (status != HR_OK) {
        return status;
    }
    f->coupled = whole->coupled_op != HRI_PROBLEM_NONE;
    if (f->coupled) {
        const hri_problem_op *op = &whole->pieces[0].x.problem.ops[whole->coupled_op];
        (void)hri_prose_set(&f->coupled_by, HR_OK, "%s (%s)", op->name, op->kind);
    }
    if (hri_fit_parts(&f->job) > 1 && f->job.batch > 1 && f->coupled && !f->job.allow_coupled) {
        return refuse_cut(f, why);
    }
    status = check_replicas(f, why);
    if (status != HR_OK) {
        return status;
    }
    status = hri_fit_case_plan(f, whole, 0, 0, &plans, why);
    if (status == HR_OK) {
        f->unplanned_bytes =
            hri_fit_peak(&f->job, whole, hri_fit_pages(&f->job, plans.plans[0]->unplanned_bytes));
        f->nominal_time_ns = f->base_time_ns = plans.time_ns;
        hri_fit_plans_deinit(&plans);
    }
    return status;
}

/* Of the whole batch as the machine is. */
static hr_status find_base_time(hri_fit *f, hri_prose *why) {
    hri_fit_case *whole = NULL;
    if (hri_fit_is_nominal(&f->job)) {
        f->base_time_ns = f->nominal_time_ns;
        return HR_OK;
    }
    hr_status status = hri_fit_case_get(f, f->job.batch, &whole, why);
    if (status == HR_OK) {
        status = hri_fit_case_set_threads(f, whole, threads_of(f), why);
    }
    if (status == HR_OK) {
        f->base_time_ns = hri_base_time(&whole->pieces[0].x.problem);
    }
    return status;
}

hr_status hri_fit_open(const hri_fit_job *job, hri_fit *out, hri_prose *why) {
    hri_fit *f = hri_calloc(1, sizeof *f);
    if (!f) {
        return HR_E_NOMEM_HOST;
    }
    f->job = *job;
    f->past =
        job->count_records ? NULL : hri_past_create(); /* on the host it would be of the budget */
    hr_status status = look_at_whole(f, why);
    if (status == HR_OK) {
        status = find_base_time(f, why);
    }
    if (hri_fit_bounded(status)) {
        status = HR_OK;
        f->too_large = 1;
        hri_fit_rest(f);
    }
    if (status == HR_OK) {
        *out = *f;
    } else {
        hri_fit_close(f);
    }
    hri_free(f);
    return status;
}

hr_status hri_fit_set_times(hri_fit *f, double (*time_ns)(void *, const hri_sig *, uint32_t),
                            void *user, hri_prose *why) {
    hri_fit_rest(f);
    f->job.time_ns = time_ns;
    f->job.time_user = user;
    return find_base_time(f, why);
}

void hri_fit_close(hri_fit *f) {
    hri_fit_drop_others(f, NULL);
    hri_past_destroy(f->past);
    *f = (hri_fit){0};
}

int hri_fit_may_cut(const hri_fit *f) {
    return hri_fit_parts(&f->job) != 1 && f->job.batch > 1 && (f->job.allow_coupled || !f->coupled);
}

int64_t hri_fit_part_at(const hri_fit *f, uint32_t at) {
    const int64_t batch = f->job.batch;
    const int64_t parts = hri_fit_parts(&f->job);
    if (parts > 1 && batch > 1) { /* as asked for */
        const int64_t k = parts < batch ? parts : batch;
        return at == 0 ? (batch + k - 1) / k : 0;
    }
    if (at == 0) {
        return batch;
    }
    const int64_t k = at < 62 ? (int64_t)1 << at : INT64_MAX;
    return hri_fit_may_cut(f) && k / 2 < batch ? (batch - 1) / k + 1 : 0;
}

/* ---- searching ---- */

/* Tries one case; a faster one than *best takes its place, detached.  *out: what came of it. */
typedef enum result { WITHOUT_PLAN, SLOWER, BETTER } result;

static hr_status try_case(hri_fit *f, int64_t part, uint64_t budget, uint64_t effort,
                          hri_fit_plans *best, result *out, hri_prose *why) {
    const hri_fit_fact *fact = fact_of(f, part);
    hri_fit_case *c = NULL;
    hri_fit_plans plans;
    *out = WITHOUT_PLAN;
    if (fact && fact->unopened) {
        return HR_OK;
    }
    if (fact && !f->job.engine && budget &&
        (fact->floor_bytes > budget || !hri_fit_may_plan(fact, budget))) {
        return HR_OK;
    }
    hr_status status = hri_fit_case_get(f, part, &c, why);
    if (status == HR_OK) {
        status = hri_fit_case_plan(f, c, budget, effort, &plans, why);
    }
    if (status != HR_OK) {
        return status == HR_E_NO_PLAN ? HR_OK : status;
    }
    if (!best->plans[0] || plans.time_ns < best->time_ns) {
        hri_fit_plans_deinit(best);
        plans.c->users--;
        plans.c = NULL;
        *best = plans;
        *out = BETTER;
    } else {
        *out = SLOWER;
        hri_fit_plans_deinit(&plans);
    }
    return HR_OK;
}

static int is_good(const hri_fit *f, const hri_fit_plans *best) {
    return best->plans[0] && best->time_ns <= good_enough * f->nominal_time_ns;
}

/* A short look at every case, from the whole batch on, until cutting further only makes it slower. */
static hr_status look_at_all(hri_fit *f, uint64_t budget, uint64_t effort, hri_fit_plans *best,
                             hri_prose *why) {
    hr_status status = HR_OK;
    result last = WITHOUT_PLAN;
    for (uint32_t at = 0; hri_fit_part_at(f, at) && status == HR_OK && last != SLOWER; at++) {
        if (is_good(f, best)) {
            break;
        }
        status = try_case(f, hri_fit_part_at(f, at), budget, effort, best, &last, why);
    }
    return status;
}

/* On a GPU trying a case loads kernels, so what was measured for an earlier one is no longer all. */
static void measure_again(hri_fit *f) {
    for (uint32_t i = 0; f->job.engine && i < f->case_count; i++) {
        hri_fit_case_measure(&f->job, f->cases[i]);
    }
}

/* The smallest plans take the place of what was not found, where they fit. */
static hr_status take_least(hri_fit *f, uint64_t budget, hri_fit_plans *best, hri_prose *why) {
    uint64_t bytes = 0;
    const hri_fit_fact *floor;
    hr_status status = hri_fit_floor(f, &floor, why);
    if (status != HR_OK || hri_fit_least_of(floor) > budget) {
        return status;
    }
    status = hri_fit_smallest(f, &bytes, NULL, why);
    if (status != HR_OK || bytes > budget) {
        return status;
    }
    hri_fit_plans copy = f->least;
    hr_status copied = HR_OK;
    for (uint32_t i = 0; i < HRI_FIT_PIECES; i++) {
        copy.plans[i] = f->least.plans[i] ? hri_plan_copy(f->least.plans[i]) : NULL;
        copied = f->least.plans[i] && !copy.plans[i] ? HR_E_NOMEM_HOST : copied;
    }
    if (copied != HR_OK) {
        hri_fit_plans_deinit(&copy);
        return copied;
    }
    *best = copy;
    return HR_OK;
}

/* The effort of a look before the whole one, and of those at smaller budgets: the same, so that one serves for both (past.h). */
static uint64_t short_look(const hri_fit *f) {
    return hri_fit_effort(&f->job, 1) / 4 + 1;
}

/* Cut and verdict, by the nominal machine alone; *best is detached.  Looks of two lengths: a search is not always better
 * for being longer, and what a look finds for a way out is found again when that is typed. */
static hr_status choose(hri_fit *f, uint64_t budget, uint32_t share, hri_fit_plans *best,
                        hri_prose *why) {
    const uint64_t effort = hri_fit_effort(&f->job, share);
    const uint64_t look = share > 1 ? effort : short_look(f);
    const uint64_t least = hri_fit_effort(&f->job, HRI_FIT_LOOK);
    hr_status status = look_at_all(f, budget, look, best, why);
    if (status == HR_OK && !best->plans[0] && least < look) {
        status = look_at_all(f, budget, least, best, why);
    }
    if (status == HR_OK && !best->plans[0]) {
        status = take_least(f, budget, best, why);
    }
    if (status == HR_OK && !best->plans[0]) {
        return hri_prose_set(why, HR_E_NO_PLAN, "no plan was found within the budget");
    }
    return status;
}

/* Plans of one case for the other times that its problems now have. */
static void take_times(const hri_fit *f, hri_fit_plans *plans) {
    for (uint32_t i = 0; i < plans->c->count; i++) {
        const hri_problem *p = &plans->c->pieces[i].x.problem;
        hri_plan *plan = plans->plans[i];
        plan->problem_hash = p->hash;
        plan->time_ns = hri_plan_makespan(p, plan);
        plan->base_time_ns = hri_base_time(p);
        plan->bound_time_ns = plan->base_time_ns;
    }
    hri_fit_add_up(&f->job, plans);
}

/* ---- smaller budgets ---- */

enum { LOWER = 2 }; /* so many */
/* The first one has the whole effort.  The other has it where a short look comes so close to the best so far; where what is found
 * takes longer by so much, nobody looks further down. */
static const double close_by = 1.001, far_off = 1.01;

/* The next smaller of the budgets that people state: 100, 105, ... MiB, from 1,000 MiB on in steps of 50, and so on. */
static uint64_t round_below(uint64_t bytes) {
    uint64_t step = UINT64_C(5) << 20;
    while (bytes / step > 200) {
        step *= 10;
    }
    return (bytes - 1) / step * step;
}

/* Plans of the case for a smaller budget take the place of the best where they are faster.  *time_ns: theirs. */
static hr_status try_below(const hri_fit *f, hri_fit_case *c, uint64_t budget, uint64_t effort,
                           hri_fit_plans *best, double *time_ns, hri_prose *why) {
    hri_fit_plans other = {0};
    const hr_status status = hri_fit_case_plan(f, c, budget, effort, &other, why);
    *time_ns = status == HR_OK ? other.time_ns : INFINITY;
    if (status == HR_OK && other.time_ns < best->time_ns) {
        for (uint32_t i = 0; i < c->count; i++) { /* of the budget that was asked for */
            other.plans[i]->bound_time_ns = best->plans[i]->bound_time_ns;
        }
        hri_fit_plans_deinit(best);
        *best = other;
    } else if (status == HR_OK) {
        hri_fit_plans_deinit(&other);
    }
    return status;
}

/* Plans for a little less memory fit as well, and a search for less may end better.  Budgets near one another look at the same
 * smaller ones, so that the larger hardly ever has the slower plan.  On the host planning takes memory of the budget, and replicas
 * have one cut: nobody looks there. */
static hr_status look_below(const hri_fit *f, hri_fit_case *c, uint64_t budget, uint32_t share,
                            hri_fit_plans *best, hri_prose *why) {
    hr_status status = HR_OK;
    if (share != 1 || !budget || f->job.count_records || f->job.replicas > 1) {
        return HR_OK;
    }
    for (uint32_t i = 0; i < LOWER && status == HR_OK && best->again_count; i++) {
        double time = 0;
        budget = round_below(budget);
        if (!budget || budget < c->floor_bytes + c->floor_bytes / 8) {
            break; /* searches close to the minimum take many times as long */
        }
        status = try_below(f, c, budget, short_look(f), best, &time, why);
        if (status == HR_OK && (i == 0 || time <= close_by * best->time_ns)) {
            status = try_below(f, c, budget, hri_fit_effort(&f->job, 1), best, &time, why);
        }
        if (time > far_off * best->time_ns) {
            break;
        }
    }
    return status == HR_E_NO_PLAN ? HR_OK : status; /* nor for less */
}

/* No plan of the case takes less. */
static double least_time(const hri_fit_case *c) {
    double time = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        time += c->pieces[i].runs * hri_base_time(&c->pieces[i].x.problem);
    }
    return time;
}

/* As many threads as is fastest within the budget: more of them need more work space, and what is recomputed for it may cost more than
 * they save.  There is one plan at a time, because memory may be short: where the one before was faster, it is made again.
 * *out has none where none was found. */
static hr_status plan_threads(hri_fit *f, hri_fit_case *c, uint64_t budget, uint64_t effort,
                              hri_fit_plans *out, hri_prose *why) {
    uint32_t best = 0, last = 0;
    double time = INFINITY;
    hr_status status = HR_OK;
    for (uint32_t threads = threads_of(f); threads && status == HR_OK; threads /= 2) {
        status = hri_fit_case_set_threads(f, c, threads, why);
        if (status != HR_OK || least_time(c) >= time) {
            break; /* nor with fewer */
        }
        if (threads > 1 && budget && c->floor_bytes > budget) {
            continue;
        }
        hri_fit_plans_deinit(out);
        status = hri_fit_case_plan(f, c, budget, effort, out, why);
        last = threads;
        best = status == HR_OK && out->time_ns < time ? threads : best;
        time = best == threads ? out->time_ns : time;
        status = status == HR_E_NO_PLAN ? HR_OK : status;
    }
    if (status == HR_OK && best) {
        status = hri_fit_case_set_threads(f, c, best, why);
    }
    if (status == HR_OK && best && best != last) {
        hri_fit_plans_deinit(out);
        status = hri_fit_case_plan(f, c, budget, effort, out, why);
    }
    return status;
}

/* The same cut as the machine is: its threads, measured times.  The nominal plans stay where they are the faster ones, or the only
 * ones. */
static hr_status refine(hri_fit *f, uint64_t budget, uint32_t share, hri_fit_plans *best,
                        hri_prose *why) {
    hri_fit_case *c = NULL;
    hri_fit_plans better = {0};
    hr_status status = hri_fit_case_get(f, best->part, &c, why);
    if (status == HR_OK) {
        status = plan_threads(f, c, budget, hri_fit_effort(&f->job, share), &better, why);
    }
    if (status == HR_OK && better.plans[0]) {
        status = look_below(f, c, budget, share, &better, why);
    }
    if (status != HR_OK) {
        hri_fit_plans_deinit(&better);
        return status;
    }
    if (better.plans[0] && better.threads != 1) { /* the nominal ones have too small work spaces */
        hri_fit_plans_deinit(best);
        *best = better;
        return HR_OK;
    }
    best->c = c;
    c->users++;
    take_times(f, best);
    if (better.plans[0] && better.time_ns < best->time_ns) {
        hri_fit_plans_deinit(best);
        *best = better;
    } else {
        hri_fit_plans_deinit(&better);
    }
    return HR_OK;
}

/* The whole effort for the case that is taken.  Both plans are kept in play: a search is not always better for being
 * longer. */
static hr_status try_longer(hri_fit *f, uint64_t budget, uint32_t share, hri_fit_plans *best,
                            hri_prose *why) {
    if (!hri_fit_is_nominal(&f->job)) {
        return refine(f, budget, share, best, why);
    }
    hr_status status = HR_OK;
    if (share == 1 && best->again_count) {
        result ignored;
        status = try_case(f, best->part, budget, hri_fit_effort(&f->job, 1), best, &ignored, why);
    }
    status = status == HR_OK ? hri_fit_attach(f, best, why) : status;
    return status == HR_OK ? look_below(f, best->c, budget, share, best, why) : status;
}

static int outgrown(const hri_fit *f, const hri_fit_plans *plans, uint64_t budget_bytes) {
    return f->job.engine && budget_bytes &&
           plans->c->runtime_bytes + plans->arenas * plans->arena_bytes > budget_bytes;
}

hr_status hri_fit_search(hri_fit *f, uint64_t budget_bytes, uint32_t share, hri_fit_plans *out,
                         hri_prose *why) {
    hri_fit_plans best = {0};
    measure_again(f);
    hr_status status = choose(f, budget_bytes, share, &best, why);
    if (status == HR_OK) {
        status = try_longer(f, budget_bytes, share, &best, why);
    }
    measure_again(f);
    if (status == HR_OK && outgrown(f, &best, budget_bytes)) {
        hri_fit_case *c = best.c;
        const uint64_t effort = hri_fit_effort(&f->job, share);
        hri_fit_plans_deinit(&best);
        status = hri_fit_case_plan(f, c, budget_bytes, effort, &best, why);
    }
    if (status != HR_OK) {
        hri_fit_plans_deinit(&best);
        return status;
    }
    hri_fit_add_up(&f->job, &best);
    best.budget_bytes = budget_bytes;
    *out = best;
    return HR_OK;
}
