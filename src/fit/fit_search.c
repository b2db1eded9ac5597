/* The search over cases: the batch whole, halved, halved again, each in its forms; then the case that was chosen with all of the
 * effort, the times of the machine, a little less memory, and next to the minimum from the smallest plans on.  On a GPU what was
 * loaded meanwhile may leave less than a plan was made for, and the search begins anew. */
#include "fit/fit.h"

#include <math.h>

#include "base/alloc.h"
#include "fit/fit_int.h"
#include "plan/bound.h"

enum { AGAIN = 3 }; /* searches where kernels that were loaded meanwhile left less memory */
/* So many times the bound on time is no good plan; so many times slower than before is another cut's turn. */
static const double poor = 1.2, much_slower = 1.02;
/* Cutting a batch pays only where computing again would cost more than this. */
static const double good_enough = 1.02;

/* Tries one case; a faster one than *best takes its place, detached.  *out: what came of it. */
typedef enum result { WITHOUT_PLAN, SLOWER, BETTER } result;

static hr_status try_case(hri_fit *f, int64_t part, uint64_t budget, uint64_t effort,
                          hri_fit_plans *best, result *out, hri_prose *why) {
    const hri_fit_fact *fact = hri_fit_fact_of(f, part);
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

/* A copy of the smallest plans. */
static hr_status copy_least(const hri_fit *f, hri_fit_plans *best) {
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

/* The smallest plans take the place of what was not found, where they fit. */
static hr_status take_least(hri_fit *f, uint64_t budget, hri_fit_plans *best, hri_prose *why) {
    uint64_t bytes = 0;
    const hri_fit_fact *floor;
    hr_status status = hri_fit_floor(f, &floor, why);
    if (status != HR_OK || hri_fit_least_of(floor) > budget) {
        return status;
    }
    status = hri_fit_smallest(f, &bytes, NULL, why);
    return status == HR_OK && bytes <= budget ? copy_least(f, best) : status;
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

enum { LOWER = 3 }; /* so many */
/* Where what is found takes longer by so much, nobody looks further down. */
static const double far_off = 1.01;

/* Nominal plans for them, detached. */
typedef struct lower_plans {
    hri_fit_plans of[LOWER];
    uint32_t count;
} lower_plans;

static void lower_deinit(lower_plans *l) {
    for (uint32_t i = 0; i < l->count; i++) {
        hri_fit_plans_deinit(&l->of[i]);
    }
    l->count = 0;
}

/* The next smaller of the budgets that people state: 100, 105, ... MiB, from 1,000 MiB on in steps of 50, and so on. */
static uint64_t round_below(uint64_t bytes) {
    uint64_t step = UINT64_C(5) << 20;
    while (bytes / step > 200) {
        step *= 10;
    }
    return (bytes - 1) / step * step;
}

/* Do budgets near one another look at the same smaller ones?  On the host planning takes memory of the budget, and replicas have one
 * cut: nobody looks there. */
static int looks_below(const hri_fit *f, uint64_t budget, uint32_t share) {
    return share == 1 && budget && !f->job.count_records && f->job.replicas <= 1;
}

/* The next smaller budget that is looked at for the case, after `looks` of them; 0: none is.  Searches close to the minimum take many
 * times as long, so `near_most` are enough there. */
static uint64_t next_below(const hri_fit_case *c, uint64_t budget, uint32_t looks,
                           uint32_t near_most) {
    const uint64_t below = round_below(budget);
    const int near = below < c->floor_bytes + c->floor_bytes / 8;
    return below < c->floor_bytes || looks == LOWER || (near && looks >= near_most) ? 0 : below;
}

/* Nominal plans of the same cut for smaller budgets, which a search for one of those would start from: by measured times one of them
 * may be the fastest of all. */
static hr_status plan_lower(hri_fit *f, uint64_t budget, uint32_t share, const hri_fit_plans *best,
                            lower_plans *out, hri_prose *why) {
    hri_fit_case *c = NULL;
    hr_status status = HR_OK;
    if (hri_fit_is_nominal(&f->job) || !looks_below(f, budget, share) || !best->again_count) {
        return HR_OK;
    }
    status = hri_fit_case_get(f, best->part, &c, why);
    while (status == HR_OK && (budget = next_below(c, budget, out->count, 2)) != 0) {
        hri_fit_plans *p = &out->of[out->count];
        status = hri_fit_case_plan(f, c, budget, short_look(f), p, why);
        if (status == HR_OK) {
            p->c->users--;
            p->c = NULL;
            out->count++;
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

/* ---- one budget ---- */

/* No plans, or slow ones: searches come closer to the bound than that, but next to the smallest budget they often do not. */
static int is_poor(const hri_fit_plans *plans) {
    return !plans->plans[0] || plans->time_ns > poor * plans->bound_time_ns;
}

/* The plans take the place of the best where they are faster, as plans for the budget of those. */
static void take_faster(hri_fit_plans *best, hri_fit_plans *plans) {
    if (best->plans[0] && plans->time_ns >= best->time_ns) {
        hri_fit_plans_deinit(plans);
        return;
    }
    if (best->plans[0]) {
        plans->bound_time_ns = best->bound_time_ns;
        for (uint32_t i = 0; i < plans->c->count; i++) {
            plans->plans[i]->bound_time_ns = best->plans[i]->bound_time_ns;
        }
    }
    hri_fit_plans_deinit(best);
    *best = *plans;
    *plans = (hri_fit_plans){0};
}

/* Goes on from the choices of these nominal plans, and nowhere else; HR_OK without plans where that leads to none. */
static hr_status plan_from(const hri_fit *f, hri_fit_case *c, uint64_t budget, uint64_t effort,
                           const hri_fit_plans *nominal, hri_fit_plans *out, hri_prose *why) {
    hri_fit_memos from = {.only = 1};
    if (!hri_fit_choices(nominal, c->count, &from)) {
        return HR_OK;
    }
    const hr_status status = hri_fit_case_plan_on(f, c, budget, effort, &from, out, why);
    return status == HR_E_NO_PLAN || hri_fit_bounded(status) ? HR_OK : status;
}

/* Searches of the case for one budget: their effort, and nominal plans for it and for less, of which some may be NULL. */
typedef struct attempt {
    uint64_t budget, effort;
    const hri_fit_plans *nominal[2];
} attempt;

static hr_status try_search(const hri_fit *f, hri_fit_case *c, uint64_t budget, uint64_t effort,
                            hri_fit_plans *best, hri_prose *why) {
    hri_fit_plans other = {0};
    const hr_status status = hri_fit_case_plan(f, c, budget, effort, &other, why);
    if (status == HR_OK) {
        take_faster(best, &other);
    }
    return status == HR_E_NO_PLAN ? HR_OK : status;
}

/* Where searches found nothing good, or nothing, the nominal ones may have found a way: from there. */
static hr_status try_nominal(const hri_fit *f, hri_fit_case *c, const attempt *a,
                             hri_fit_plans *best, hri_prose *why) {
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < 2 && status == HR_OK && a->nominal[i] && is_poor(best); i++) {
        hri_fit_plans other = {0};
        status = plan_from(f, c, a->budget, a->effort, a->nominal[i], &other, why);
        if (status == HR_OK && other.plans[0]) {
            take_faster(best, &other);
        }
    }
    return status;
}

/* Plans of the case with the threads that it has; HR_OK without plans where none was found.  A search is not always better for being
 * longer: next to the smallest budget it often is not. */
static hr_status plan_case(const hri_fit *f, hri_fit_case *c, const attempt *a, hri_fit_plans *best,
                           hri_prose *why) {
    hr_status status = try_search(f, c, a->budget, a->effort, best, why);
    if (status == HR_OK && is_poor(best) && short_look(f) < a->effort) {
        status = try_search(f, c, a->budget, short_look(f), best, why);
    }
    return status == HR_OK ? try_nominal(f, c, a, best, why) : status;
}

/* The first of the smaller budgets has the whole effort.  The others have it where a short look comes so close to the best so far: what
 * two searches find differs the more the further from the bound they end. */
static int is_close(double time_ns, const hri_fit_plans *best) {
    const double over = best->time_ns - 1.1 * best->bound_time_ns;
    const double spread = 0.003 * best->time_ns + (over > 0 ? 0.5 * over : 0);
    return time_ns <= best->time_ns + spread;
}

/* Plans for a little less memory fit as well, and a search for less may end better.  Budgets near one another look at the same
 * smaller ones, so that the larger hardly ever has the slower plan. */
static hr_status look_below(const hri_fit *f, hri_fit_case *c, uint64_t budget, uint32_t share,
                            const lower_plans *lower, hri_fit_plans *best, hri_prose *why) {
    hr_status status = HR_OK;
    const uint64_t whole = hri_fit_effort(&f->job, 1);
    double time = 0;
    if (!looks_below(f, budget, share)) {
        return HR_OK;
    }
    for (uint32_t i = 0; status == HR_OK && best->again_count && time <= far_off * best->time_ns &&
                         (budget = next_below(c, budget, i, 1)) != 0;
         i++) {
        hri_fit_plans other = {0};
        attempt a = {.budget = budget, .effort = whole};
        for (uint32_t k = 0; k < 2 && lower && i + k < lower->count; k++) {
            a.nominal[k] = &lower->of[i + k];
        }
        status = try_search(f, c, budget, short_look(f), &other, why);
        if (status == HR_OK && (i == 0 || (other.plans[0] && is_close(other.time_ns, best)))) {
            status = try_search(f, c, budget, whole, &other, why);
        }
        if (status == HR_OK && i == 0) {
            status = try_nominal(f, c, &a, &other, why);
        }
        time = other.plans[0] ? other.time_ns : INFINITY;
        if (status == HR_OK && other.plans[0]) {
            take_faster(best, &other);
        }
        hri_fit_plans_deinit(&other);
    }
    return status;
}

/* As many threads as is fastest within the budget: more of them need more work space, and what is recomputed for it may cost more than
 * they save.  There is one plan at a time, because memory may be short: where the one before was faster, it is made again.
 * *out has none where none was found. */
static hr_status plan_threads(hri_fit *f, hri_fit_case *c, const attempt *a, hri_fit_plans *out,
                              hri_prose *why) {
    uint32_t best = 0, last = 0;
    double time = INFINITY;
    hr_status status = HR_OK;
    for (uint32_t threads = hri_fit_threads(f); threads && status == HR_OK; threads /= 2) {
        status = hri_fit_case_set_threads(f, c, threads, why);
        if (status != HR_OK || least_time(c) >= time) {
            break; /* nor with fewer */
        }
        if (threads > 1 && a->budget && c->floor_bytes > a->budget) {
            continue;
        }
        hri_fit_plans_deinit(out);
        status = plan_case(f, c, a, out, why);
        last = threads;
        best = status == HR_OK && out->plans[0] && out->time_ns < time ? threads : best;
        time = best == threads ? out->time_ns : time;
    }
    if (status == HR_OK && best) {
        status = hri_fit_case_set_threads(f, c, best, why);
    }
    if (status == HR_OK && best && best != last) {
        hri_fit_plans_deinit(out);
        status = plan_case(f, c, a, out, why);
    }
    return status;
}

/* Nominal plans as the machine is now take the place of the best, attached, where they are faster. */
static void take_nominal(const hri_fit *f, hri_fit_case *c, hri_fit_plans *nominal,
                         hri_fit_plans *best) {
    nominal->c = c;
    c->users++;
    take_times(f, nominal);
    if (!best->plans[0] || nominal->time_ns <= best->time_ns) {
        const hri_fit_plans old = *best;
        *best = *nominal;
        *nominal = old;
    }
    hri_fit_plans_deinit(nominal);
}

/* The same cut as the machine is: its threads, measured times.  The nominal plans, those for smaller budgets among them, stay where they
 * are the faster ones, or the only ones. */
static hr_status refine(hri_fit *f, uint64_t budget, uint32_t share, lower_plans *lower,
                        hri_fit_plans *best, hri_prose *why) {
    hri_fit_case *c = NULL;
    hri_fit_plans better = {0};
    hr_status status = hri_fit_case_get(f, best->part, &c, why);
    const attempt a = {.budget = budget,
                       .effort = hri_fit_effort(&f->job, share),
                       .nominal = {best, lower->count ? &lower->of[0] : NULL}};
    if (status == HR_OK) {
        status = plan_threads(f, c, &a, &better, why);
    }
    if (status == HR_OK && better.plans[0]) {
        status = look_below(f, c, budget, share, lower, &better, why);
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
    for (uint32_t i = 0; i < lower->count; i++) {
        take_nominal(f, c, &lower->of[i], &better);
    }
    take_nominal(f, c, best, &better);
    *best = better;
    return HR_OK;
}

/* The whole effort for the case that is taken.  Both plans are kept in play: a search is not always better for being
 * longer. */
static hr_status try_longer(hri_fit *f, uint64_t budget, uint32_t share, hri_fit_plans *best,
                            hri_prose *why) {
    hr_status status = HR_OK;
    if (!hri_fit_is_nominal(&f->job)) {
        lower_plans lower = {.count = 0};
        status = plan_lower(f, budget, share, best, &lower, why);
        status = status == HR_OK ? refine(f, budget, share, &lower, best, why) : status;
        lower_deinit(&lower);
        return status;
    }
    if (share == 1 && best->again_count) {
        result ignored;
        status = try_case(f, best->part, budget, hri_fit_effort(&f->job, 1), best, &ignored, why);
    }
    status = status == HR_OK ? hri_fit_attach(f, best, why) : status;
    return status == HR_OK ? look_below(f, best->c, budget, share, NULL, best, why) : status;
}

/* Plans for the budget that go on from the smallest ones, or those; attached.  HR_E_NO_PLAN: they do not fit it. */
static hr_status plan_from_least(hri_fit *f, uint64_t budget, hri_fit_plans *out, hri_prose *why) {
    uint64_t bytes = 0;
    hri_fit_case *c = NULL;
    hr_status status = hri_fit_smallest(f, &bytes, NULL, why);
    if (status == HR_OK && bytes > budget) {
        return HR_E_NO_PLAN;
    }
    if (status == HR_OK) {
        status = hri_fit_case_get(f, f->least.part, &c, why);
    }
    if (status == HR_OK) {
        status = hri_fit_case_set_threads(f, c, hri_fit_threads(f), why);
    }
    if (status == HR_OK) {
        status = plan_from(f, c, budget, hri_fit_effort(&f->job, 1), &f->least, out, why);
    }
    if (status == HR_OK && !out->plans[0] && (status = copy_least(f, out)) == HR_OK) {
        out->c = c;
        c->users++;
        take_times(f, out);
    }
    return status;
}

/* Next to the smallest budget a search may end far from what is possible, where the smallest plans, or what they become with a little
 * more memory, are faster.  Where planning takes memory of the budget, and with replicas, nobody looks. */
static hr_status try_from_least(hri_fit *f, uint64_t budget, hri_fit_plans *best, hri_prose *why) {
    hri_fit_plans other = {0};
    if (!budget || f->job.count_records || f->job.replicas > 1 || !is_poor(best)) {
        return HR_OK;
    }
    hri_fit_detach(f, best);
    const hr_status status = plan_from_least(f, budget, &other, why);
    if (status == HR_OK && other.time_ns < best->time_ns) {
        other.bound_time_ns = other.part == best->part ? best->bound_time_ns : other.bound_time_ns;
        hri_fit_plans_deinit(best);
        *best = other;
        return HR_OK;
    }
    hri_fit_plans_deinit(&other);
    return status == HR_OK || status == HR_E_NO_PLAN ? hri_fit_attach(f, best, why) : status;
}

static int outgrown(const hri_fit *f, const hri_fit_plans *plans, uint64_t budget_bytes) {
    return f->job.engine && budget_bytes &&
           plans->c->runtime_bytes + plans->arenas * plans->arena_bytes > budget_bytes;
}

static hr_status search_once(hri_fit *f, uint64_t budget, uint32_t share, hri_fit_plans *best,
                             hri_prose *why) {
    measure_again(f);
    hr_status status = choose(f, budget, share, best, why);
    if (status == HR_OK) {
        status = try_longer(f, budget, share, best, why);
    }
    if (status == HR_OK && share == 1) {
        status = try_from_least(f, budget, best, why);
    }
    measure_again(f);
    return status;
}

/* What the search loaded left less than its plans were made for: the same cut again, and where that does not fit or is slower,
 * everything, with what is known now. */
static hr_status search_again(hri_fit *f, uint64_t budget, uint32_t share, hri_fit_plans *best,
                              hri_prose *why) {
    hri_fit_case *c = best->c;
    const double before = best->time_ns;
    hri_fit_plans_deinit(best);
    const hr_status status =
        hri_fit_case_plan(f, c, budget, hri_fit_effort(&f->job, share), best, why);
    if ((status != HR_OK && status != HR_E_NO_PLAN) ||
        (status == HR_OK && best->time_ns <= much_slower * before)) {
        return status;
    }
    hri_fit_plans other = {0};
    const hr_status searched = search_once(f, budget, share, &other, why);
    if (searched == HR_OK &&
        (status != HR_OK || other.time_ns < best->time_ns || outgrown(f, best, budget))) {
        hri_fit_plans_deinit(best);
        *best = other;
        return HR_OK;
    }
    hri_fit_plans_deinit(&other);
    return searched == HR_OK || searched == HR_E_NO_PLAN ? status : searched;
}

hr_status hri_fit_search(hri_fit *f, uint64_t budget_bytes, uint32_t share, hri_fit_plans *out,
                         hri_prose *why) {
    hri_fit_plans best = {0};
    hr_status status = search_once(f, budget_bytes, share, &best, why);
    for (int tries = 0; tries < AGAIN && status == HR_OK && outgrown(f, &best, budget_bytes);
         tries++) {
        status = search_again(f, budget_bytes, share, &best, why);
    }
    if (status == HR_OK && outgrown(f, &best, budget_bytes)) {
        status = hri_prose_set(why, HR_E_NO_PLAN,
                               "each search loaded kernels that left less memory for the plan");
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
