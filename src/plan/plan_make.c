/* The planner: orders, search, placement, in a loop until the placement fits; then the proof.
 *
 *   1. the floor: under it nothing is tried, because nothing is possible;
 *   2. for each base order: from "keep all", "drop all" and nested checkpoints down to the limit, then back up to
 *      speed; the fastest is kept;
 *   3. offsets.  When fragmentation lifts the arena over the budget, the limit sinks by as much and 2 is continued;
 *      what is left in the end is spent on keeping more;
 *   4. certificates, and the checker.
 * Nothing depends on clocks: effort is counted, so the same problem has the same plan everywhere. */
#include <string.h>

#include "base/alloc.h"
#include "plan/bound.h"
#include "plan/order.h"
#include "plan/place.h"
#include "plan/plan.h"
#include "plan/search.h"
#include "plan/seed.h"

enum { ROUNDS = 8 };
enum { START_KEPT, START_DEEPER, START_DROPPED, START_NESTED, START_COUNT = START_NESTED + 6 };

typedef struct maker {
    const hri_problem *p;
    hri_plan_options o;
    hri_schedule s;
    uint64_t bottom; /* persistent bytes */
    uint64_t limit;  /* for the rest */
    uint32_t *order;
    /* The best so far. */
    uint32_t *best_order;
    uint8_t *best_gaps, *best_variant;
    double best_time;
    int found;
} maker;

/* As many runs for a small problem as for one of hundreds of ops; large ones get fewer. */
static uint64_t effort_of(const maker *m) {
    const uint64_t most = 8000000, by_size = (uint64_t)m->p->op_count * 12000;
    return m->o.effort ? m->o.effort : by_size < most ? by_size : most;
}

static hr_status refuse(const maker *m, uint64_t floor, uint32_t op, hri_prose *why) {
    if (op == HRI_PROBLEM_NONE) {
        return hri_prose_set(
            why, HR_E_NO_PLAN,
            "impossible: persistent values and inputs take %llu bytes, %llu more than the "
            "budget of %llu",
            (unsigned long long)floor, (unsigned long long)(floor - m->o.budget_bytes),
            (unsigned long long)m->o.budget_bytes);
    }
    return hri_prose_set(
        why, HR_E_NO_PLAN,
        "impossible: %s needs %llu bytes beside %llu persistent ones, %llu more than the "
        "budget of %llu",
        m->p->ops[op].name, (unsigned long long)(floor - m->bottom), (unsigned long long)m->bottom,
        (unsigned long long)(floor - m->o.budget_bytes), (unsigned long long)m->o.budget_bytes);
}

static void keep_best(maker *m) {
    m->found = 1;
    m->best_time = m->s.time_ns;
    memcpy(m->best_order, m->s.order, m->p->op_count * sizeof *m->best_order);
    memcpy(m->best_gaps, m->s.gaps, m->s.gap_count);
    memcpy(m->best_variant, m->s.variant, m->p->op_count);
}

static hr_status go_to_best(maker *m) {
    hri_schedule_set_order(&m->s, m->best_order);
    memcpy(m->s.gaps, m->best_gaps, m->s.gap_count);
    memcpy(m->s.variant, m->best_variant, m->p->op_count);
    return hri_schedule_run(&m->s);
}

/* Every value of the forward part is made again when it is needed. */
static void drop_all(hri_schedule *s) {
    for (uint32_t g = 0; g < s->gap_count; g++) {
        const uint32_t v = s->gap_value[g];
        if (hri_schedule_can_drop(s, v) &&
            s->p->ops[s->p->values[v].producer].phase == HRI_PROBLEM_FORWARD) {
            s->gaps[g] = 1;
        }
    }
}

/* Down and up again from one start. */
static hr_status try_start(maker *m, uint32_t start, uint64_t effort) {
    hri_schedule_set_order(&m->s, m->order);
    hr_status status = HR_OK;
    if (start == START_DROPPED && !m->o.no_recompute) {
        drop_all(&m->s);
    } else if (start >= START_NESTED && !m->o.no_recompute) {
        status = hri_seed_nested(&m->s, START_COUNT - start, m->limit / 6);
    }
    /* A way further down is often another way, and better for having more room left at its end. */
    const uint64_t limit = start == START_DEEPER ? m->limit - m->limit / 20 : m->limit;
    if (status == HR_OK) {
        status = hri_search_fit(&m->s, limit, effort);
    }
    if (status == HR_OK) {
        status = hri_search_improve(&m->s, m->limit, effort / 4);
    }
    if (status == HR_OK && (!m->found || m->s.time_ns < m->best_time)) {
        keep_best(m);
    }
    return status == HR_E_NO_PLAN ? HR_OK : status;
}

/* Every start in every order.  `few`: only the first start of each. */
static hr_status try_starts(maker *m, int few, uint64_t effort) {
    double good = 0; /* so close to the bound that more starts do not pay */
    hr_status status = hri_bound_time(m->p, m->o.budget_bytes, 2 * hri_base_time(m->p), &good);
    good *= 1.002;
    for (uint32_t start = 0; start < (few ? 1u : START_COUNT) && status == HR_OK; start++) {
        for (uint32_t rule = 1; rule < HRI_ORDER_COUNT && status == HR_OK; rule++) {
            if (m->found && (start >= START_NESTED || m->best_time <= good)) {
                return HR_OK;
            }
            status = hri_order_make(m->p, m->o.keep_order ? HRI_ORDER_GIVEN : rule, m->order);
            if (status == HR_OK) {
                status = try_start(m, start, effort / 8);
            }
            if (m->o.keep_order) {
                break;
            }
        }
    }
    return status;
}

/* Fills in the best schedule that fits m->limit, if one is found.  Copies may lead a search astray, so it is tried
 * without them too: having another memory never makes a plan worse. */
static hr_status try_all(maker *m) {
    const uint64_t effort = effort_of(m);
    hr_status status = try_starts(m, 0, effort);
    if (status == HR_OK && !m->s.no_copies && !m->o.no_recompute && hri_schedule_can_copy(&m->s)) {
        m->s.no_copies = 1;
        status = try_starts(m, m->found, effort);
        m->s.no_copies = 0;
    }
    if (status == HR_OK && m->found) {
        status = go_to_best(m);
        if (status == HR_OK) {
            status = hri_search_improve(&m->s, m->limit, effort / 3);
        }
        if (status == HR_OK) {
            keep_best(m);
        }
    }
    return status;
}

/* The order with the lowest peak, everything kept. */
static hr_status unbounded(maker *m) {
    uint64_t least = UINT64_MAX;
    hr_status status = HR_OK;
    for (uint32_t rule = 0; rule < HRI_ORDER_COUNT && status == HR_OK; rule++) {
        status = hri_order_make(m->p, rule, m->order);
        if (status != HR_OK || (m->o.keep_order && rule)) {
            break;
        }
        hri_schedule_set_order(&m->s, m->order);
        status = hri_schedule_run(&m->s);
        if (status == HR_OK && m->s.peak_bytes < least) {
            least = m->s.peak_bytes;
            keep_best(m);
        }
    }
    return status;
}

/* Plain training: the given order, everything kept, nothing in place. */
static hr_status unplanned(maker *m, uint64_t *out) {
    m->s.in_place = 0;
    const hr_status status = hri_schedule_run(&m->s);
    m->s.in_place = 1;
    *out = m->bottom + m->s.peak_bytes;
    return status;
}

/* The limit had to sink, and the placement leaves room after all: keeps more while that can be placed. */
static hr_status spend_rest(maker *m, hri_plan **plan) {
    const uint64_t budget = m->o.budget_bytes;
    const uint64_t effort = effort_of(m);
    for (int tries = 0; tries < 3; tries++) {
        const uint64_t slack = budget - (*plan)->arena_bytes;
        hri_plan *better = NULL;
        if (slack < budget / 200) {
            return HR_OK;
        }
        hr_status status = go_to_best(m);
        if (status == HR_OK) {
            status = hri_search_improve(&m->s, m->limit + slack / 2, effort / 8);
        }
        if (status != HR_OK || m->s.time_ns >= m->best_time) {
            return status;
        }
        status = hri_place(&m->s, &m->o, &better);
        if (status != HR_OK || better->arena_bytes > budget) {
            hri_plan_destroy(better);
            return status;
        }
        hri_plan_destroy(*plan);
        *plan = better;
        m->limit += slack / 2;
        keep_best(m);
    }
    return HR_OK;
}

/* Places the best schedule; sinks the limit while fragmentation is in the way. */
static hr_status place(maker *m, hri_plan **out, hri_prose *why) {
    const uint64_t budget = m->o.budget_bytes;
    const uint64_t effort = effort_of(m);
    hri_plan *plan = NULL;
    for (int round = 0; round < ROUNDS; round++) {
        hr_status status = go_to_best(m);
        if (status == HR_OK) {
            status = hri_place(&m->s, &m->o, &plan);
        }
        if (status != HR_OK) {
            return status;
        }
        if (budget == 0 || plan->arena_bytes <= budget) {
            status = round > 0 && plan->again_count ? spend_rest(m, &plan) : HR_OK;
            if (status != HR_OK) {
                hri_plan_destroy(plan);
                return status;
            }
            *out = plan;
            return HR_OK;
        }
        const uint64_t over = plan->arena_bytes - budget;
        hri_plan_destroy(plan);
        plan = NULL;
        const uint64_t least = m->limit / 100;
        const uint64_t sink = over / 2 > least ? over / 2 : least;
        if (sink >= m->limit) {
            break;
        }
        m->limit -= sink;
        status = hri_search_fit(&m->s, m->limit, effort / 6);
        if (status == HR_OK) {
            status = hri_search_improve(&m->s, m->limit, effort / 8);
        }
        if (status == HR_E_NO_PLAN) {
            break;
        }
        if (status != HR_OK) {
            return status;
        }
        keep_best(m);
    }
    return hri_prose_set(why, HR_E_NO_PLAN, "not found: no placement inside %llu bytes",
                         (unsigned long long)budget);
}

static hr_status make(maker *m, hri_plan **out, int *impossible, hri_prose *why) {
    uint32_t floor_op;
    uint64_t floor = hri_problem_floor(m->p, &floor_op), plain = 0;
    floor += m->bottom - m->p->persistent_bytes;
    *impossible = m->o.budget_bytes && floor > m->o.budget_bytes;
    if (*impossible) {
        return refuse(m, floor, floor_op, why);
    }
    hr_status status = unplanned(m, &plain);
    if (status == HR_OK) {
        m->limit = m->o.budget_bytes ? m->o.budget_bytes - m->bottom : UINT64_MAX;
        status = unbounded(m);
    }
    if (status == HR_OK && m->limit != UINT64_MAX) {
        status = go_to_best(m);
        m->found = status == HR_OK && m->s.peak_bytes <= m->limit;
    }
    if (status == HR_OK && !m->found) {
        status = try_all(m);
    }
    if (status == HR_OK && !m->found) {
        return hri_prose_set(
            why, HR_E_NO_PLAN,
            "not found: the floor is %llu bytes, but no plan within %llu was found",
            (unsigned long long)floor, (unsigned long long)m->o.budget_bytes);
    }
    hri_plan *plan = NULL;
    if (status == HR_OK) {
        status = place(m, &plan, why);
    }
    if (status == HR_OK) {
        plan->floor_bytes = floor;
        plan->floor_op = floor_op;
        plan->unplanned_bytes = plain;
        plan->base_time_ns = hri_base_time(m->p);
        status = hri_bound_time(m->p, m->o.budget_bytes, plan->time_ns, &plan->bound_time_ns);
    }
    if (status == HR_OK) {
        hri_prose bug = {{0}};
        status =
            hri_plan_check(m->p, plan, m->o.budget_bytes ? m->o.budget_bytes : UINT64_MAX, &bug);
        if (status == HR_E_INVALID) {
            status = hri_prose_set(why, HR_E_INTERNAL, "the plan does not pass the checker: %s",
                                   bug.text);
        }
    }
    if (status == HR_OK) {
        *out = plan;
    } else {
        hri_plan_destroy(plan);
    }
    return status;
}

hr_status hri_plan_make(const hri_problem *p, const hri_plan_options *options, hri_plan **out,
                        int *impossible, hri_prose *why) {
    int ignored;
    maker m = {.p = p};
    if (options) {
        m.o = *options;
    }
    if (!p->finished) {
        return hri_prose_set(why, HR_E_INVALID, "the problem is not finished");
    }
    m.bottom = m.o.fixed_offsets ? m.o.fixed_bytes : p->persistent_bytes;
    hr_status status = hri_schedule_init(&m.s, p);
    m.s.no_copies = m.o.no_offload;
    m.s.no_drops = m.o.no_recompute;
    if (status == HR_OK) {
        m.order = hri_malloc(p->op_count * sizeof *m.order);
        m.best_order = hri_malloc(p->op_count * sizeof *m.best_order);
        m.best_gaps = hri_malloc((size_t)m.s.gap_count + 1);
        m.best_variant = hri_malloc(p->op_count);
        status = m.order && m.best_order && m.best_gaps && m.best_variant ? HR_OK : HR_E_NOMEM_HOST;
    }
    if (status == HR_OK) {
        status = make(&m, out, impossible ? impossible : &ignored, why);
    }
    hri_free(m.order);
    hri_free(m.best_order);
    hri_free(m.best_gaps);
    hri_free(m.best_variant);
    hri_schedule_deinit(&m.s);
    return status;
}
