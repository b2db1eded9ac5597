/* The planner: orders, search, placement, in a loop until the placement fits; then the proof.
 *
 *   1. the floor: under it nothing is tried, because nothing is possible;
 *   2. for each base order: from "keep all", "drop all" and, where these find nothing, in small steps from limits above and
 *      from nested checkpoints down to the limit, then back up to speed; the fastest is kept;
 *   3. offsets.  Several of the fastest schedules are kept, because a slightly slower one may lie better, or the fastest with a little
 *      less.  When none can be placed, the limit sinks and 2 is continued from each; what is left in the end is spent on keeping more;
 *   4. certificates, and the checker.
 * Nothing depends on clocks: effort is counted, so the same problem has the same plan everywhere. */
#include <string.h>

#include "base/alloc.h"
#include "plan/bound.h"
#include "plan/descend.h"
#include "plan/order.h"
#include "plan/pack.h"
#include "plan/place.h"
#include "plan/plan_make.h"
#include "plan/search_int.h"
#include "plan/seed.h"

enum { ROUNDS = 8, KEPT = HRI_PLAN_KEPT };
enum { SHORT_LOOK = 60, LONG_LOOK = 250 }; /* of the packer */
enum { LOWER = 3 };                        /* tries to place the fastest after all */
static const double NEAR = 0.001;          /* so little is no reason to place another one */
enum {
    WHOLE_EFFORT = 1000000
}; /* with less, two schedules are kept and placed without long looks */
/* A way further down is often another way, and better for having more room left at its end: limits that are lower by these parts. */
enum { DEPTHS = 4 };
static const uint64_t depths[DEPTHS] = {100, 32, 20, 12};
enum {
    START_MEMO,
    START_KEPT,
    START_DEEPER,
    START_DROPPED = START_DEEPER + DEPTHS,
    START_ABOVE,
    START_NESTED,
    START_COUNT = START_NESTED + 6
};

/* A schedule that fits its limit: a choice for every gap and op. */
typedef struct found {
    uint32_t *order;
    uint8_t *gaps, *variant;
    double time;
} found;

typedef struct maker {
    const hri_problem *p;
    hri_plan_options o;
    hri_schedule s;
    uint64_t bottom; /* persistent bytes */
    uint64_t limit;  /* for the rest */
    uint32_t *order;
    found kept[KEPT]; /* the best so far, fastest first */
    uint32_t found;   /* how many */
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
            "impossible: persistent values and inputs need %llu bytes, %llu more than the budget "
            "of %llu",
            (unsigned long long)floor, (unsigned long long)(floor - m->o.budget_bytes),
            (unsigned long long)m->o.budget_bytes);
    }
    return hri_prose_set(
        why, HR_E_NO_PLAN,
        "impossible: %s needs %llu bytes on top of %llu persistent bytes, %llu more than the "
        "budget of %llu",
        m->p->ops[op].name, (unsigned long long)(floor - m->bottom), (unsigned long long)m->bottom,
        (unsigned long long)(floor - m->o.budget_bytes), (unsigned long long)m->o.budget_bytes);
}

/* Writes the schedule as it is over one of those kept, and moves it to its place. */
static void write_found(maker *m, uint32_t at) {
    found x = m->kept[at];
    x.time = m->s.time_ns;
    memcpy(x.order, m->s.order, m->p->op_count * sizeof *x.order);
    memcpy(x.gaps, m->s.gaps, m->s.gap_count);
    memcpy(x.variant, m->s.variant, m->p->op_count);
    m->kept[at] = x;
    for (; at > 0 && m->kept[at - 1].time > x.time; at--) {
        m->kept[at] = m->kept[at - 1];
        m->kept[at - 1] = x;
    }
    for (; at + 1 < m->found && m->kept[at + 1].time < x.time; at++) {
        m->kept[at] = m->kept[at + 1];
        m->kept[at + 1] = x;
    }
}

/* Keeps the schedule as it is, if it is among the fastest.  Two of one time are taken for one. */
static void keep(maker *m) {
    for (uint32_t i = 0; i < m->found; i++) {
        if (m->kept[i].time == m->s.time_ns) {
            return;
        }
    }
    const uint32_t most = effort_of(m) >= WHOLE_EFFORT ? KEPT : 2;
    if (m->found == most && m->kept[most - 1].time <= m->s.time_ns) {
        return;
    }
    m->found += m->found < most;
    m->kept[m->found - 1].time = m->s.time_ns;
    write_found(m, m->found - 1);
}

static hr_status go_to(maker *m, uint32_t at) {
    hri_schedule_set_order(&m->s, m->kept[at].order);
    memcpy(m->s.gaps, m->kept[at].gaps, m->s.gap_count);
    memcpy(m->s.variant, m->kept[at].variant, m->p->op_count);
    m->s.limit = m->s.overlap ? m->limit : m->s.limit; /* exchanges go on as long as it lets them */
    return hri_schedule_run(&m->s);
}

/* Every value of the forward part is made again when it is needed, but for what is hardly there. */
static void drop_all(hri_schedule *s, uint64_t limit) {
    for (uint32_t g = 0; g < s->gap_count; g++) {
        const uint32_t v = s->gap_value[g];
        if (hri_schedule_can_drop(s, v) && s->p->values[v].room_bytes > limit / HRI_SMALL &&
            s->p->ops[s->p->values[v].producer].phase == HRI_PROBLEM_FORWARD) {
            s->gaps[g] = 1;
        }
    }
}

static int serves(const maker *m, const hri_plan_memo *memo) {
    return memo && memo->order && memo->op_count == m->p->op_count &&
           memo->gap_count == m->s.gap_count;
}

/* The choices of an earlier plan to begin with, or NULL. */
static const hri_plan_memo *beginning(const maker *m) {
    return serves(m, m->o.memo) ? m->o.memo : serves(m, m->o.start) ? m->o.start : NULL;
}

/* Down and up again from one start. */
static hr_status try_start(maker *m, uint32_t start, uint64_t effort) {
    const hri_plan_memo *memo = beginning(m);
    hri_schedule_set_order(&m->s, start == START_MEMO ? memo->order : m->order);
    hr_status status = HR_OK;
    if (start == START_MEMO) {
        memcpy(m->s.gaps, memo->gaps, m->s.gap_count);
        memcpy(m->s.variant, memo->variant, m->p->op_count);
    } else if (start == START_DROPPED && !m->o.no_recompute) {
        drop_all(&m->s, m->limit);
    } else if (start >= START_NESTED && !m->o.no_recompute) {
        status = hri_seed_nested(&m->s, START_COUNT - start, m->limit / 6, m->limit / HRI_SMALL);
    }
    const int deeper = start >= START_DEEPER && start < START_DEEPER + DEPTHS;
    const uint64_t limit = m->limit - (deeper ? m->limit / depths[start - START_DEEPER] : 0);
    if (status == HR_OK && start == START_ABOVE) {
        status = m->o.any || m->o.short_memory ? HR_E_NO_PLAN : hri_descend(&m->s, limit, effort);
    } else if (status == HR_OK) {
        status = hri_search_fit(&m->s, limit, effort);
    }
    /* The last bytes may still go away where the rest was found without that. */
    const uint8_t no_copies = m->s.no_copies;
    if (status == HR_E_NO_PLAN && no_copies && !m->o.no_offload && start < START_ABOVE) {
        m->s.no_copies = 0;
        status = hri_search_fit(&m->s, limit, effort);
    }
    m->s.no_copies = no_copies;
    if (status == HR_OK && !m->o.any) {
        status = hri_search_improve(&m->s, m->limit, effort / 4);
    }
    if (status == HR_OK) {
        keep(m);
    }
    return status == HR_E_NO_PLAN ? HR_OK : status;
}

static hr_status make_order(maker *m, hri_order_rule rule) {
    const hr_status status = hri_order_make(m->p, rule, m->order);
    return status == HR_OK && !m->o.keep_order ? hri_order_lift(m->p, m->order) : status;
}

/* Is this start only for want of a schedule?  Of the nested ones all are tried: what one leads to may not be placed. */
static int is_resort(uint32_t start) {
    return start >= START_DROPPED && start < START_NESTED;
}

/* These starts, in every order, with copies or without. */
static hr_status try_starts(maker *m, uint32_t first, uint32_t end, int no_copies,
                            uint64_t effort) {
    const uint8_t before = m->s.no_copies;
    const int memo = beginning(m) != NULL;
    double good = 0; /* so close to the bound that more starts do not pay */
    hr_status status = hri_bound_time(m->p, m->o.budget_bytes, 2 * hri_base_time(m->p), &good);
    good *= 1.002;
    end = m->o.memo_only && memo && end > START_MEMO + 1 ? START_MEMO + 1 : end;
    m->s.no_copies |= (uint8_t)no_copies;
    for (uint32_t start = first; start < end && status == HR_OK; start++) {
        if (start == START_NESTED && m->found) {
            break;
        }
        for (uint32_t rule = 1; rule < HRI_ORDER_COUNT && status == HR_OK; rule++) {
            if ((start == START_MEMO && !memo) || !hri_order_serves(m->p, rule)) {
                continue;
            }
            if (m->found && (is_resort(start) || m->kept[0].time <= good || m->o.any)) {
                m->s.no_copies = before;
                return HR_OK;
            }
            status = make_order(m, m->o.keep_order ? HRI_ORDER_GIVEN : rule);
            if (status == HR_OK) {
                status = try_start(m, start, m->o.memo_only ? effort : effort / 8);
            }
            if (m->o.keep_order || start == START_MEMO) {
                break;
            }
        }
    }
    m->s.no_copies = before;
    return status;
}

/* Where the first starts find nothing with copies, they often do without, so that comes before all that takes longer. */
static hr_status try_hard(maker *m, int apart, uint64_t effort) {
    static const uint32_t stages[] = {START_DEEPER, START_DROPPED, START_COUNT};
    hr_status status = HR_OK;
    for (size_t i = 1; i < sizeof stages / sizeof *stages && !m->found && status == HR_OK; i++) {
        const uint32_t first = apart ? stages[i - 1] : START_COUNT;
        status = try_starts(m, stages[i - 1], stages[i], 0, effort);
        if (status == HR_OK && !m->found) {
            status = try_starts(m, first, stages[i], 1, effort);
        }
    }
    return status;
}

/* Fills in the best schedule that fits m->limit, if one is found.  Copies may lead a search astray, so it is tried
 * without them too: having another memory never makes a plan worse. */
static hr_status try_all(maker *m) {
    const uint64_t effort = effort_of(m);
    const int apart = !m->s.no_copies && !m->o.no_recompute && hri_schedule_can_copy(&m->s);
    hr_status status = try_starts(m, START_MEMO, START_DEEPER, 0, effort);
    const int with = m->found > 0;
    if (status == HR_OK && with) {
        status = try_starts(m, START_DEEPER, START_DROPPED, 0, effort);
    }
    if (status == HR_OK && apart && !(m->o.any && m->found)) {
        status = try_starts(m, START_MEMO, START_DEEPER, 1, effort);
    }
    if (status == HR_OK && !with && m->found) {
        status = try_starts(m, START_DEEPER, START_DROPPED, 1, effort);
    }
    if (status == HR_OK && !m->found) {
        status = try_hard(m, apart, effort);
    }
    if (status == HR_OK && m->found && !m->o.any) {
        status = go_to(m, 0);
        if (status == HR_OK) {
            status = hri_search_improve(&m->s, m->limit, effort / 3);
        }
        if (status == HR_OK) {
            write_found(m, 0);
        }
    }
    return status;
}

/* The order with the lowest peak, everything kept. */
static hr_status unbounded(maker *m) {
    uint64_t least = UINT64_MAX;
    hr_status status = HR_OK;
    double best = 0;
    m->s.limit = m->s.overlap ? m->limit : m->s.limit;
    for (uint32_t rule = 0; rule < HRI_ORDER_COUNT && status == HR_OK; rule++) {
        if (!hri_order_serves(m->p, rule)) {
            continue;
        }
        status = make_order(m, rule);
        if (status != HR_OK || (m->o.keep_order && rule)) {
            break;
        }
        hri_schedule_set_order(&m->s, m->order);
        status = hri_schedule_run(&m->s);
        if (status != HR_OK) {
            break;
        }
        /* With exchanges one order may be faster than another: the fastest of those that fit. */
        const int faster = m->s.overlap && least <= m->limit && m->s.time_ns < best;
        const int slower = m->s.overlap && least <= m->limit && m->s.time_ns > best;
        if ((faster && m->s.peak_bytes <= m->limit) || (!slower && m->s.peak_bytes < least)) {
            least = m->s.peak_bytes;
            best = m->s.time_ns;
            m->found = 1;
            write_found(m, 0);
        }
    }
    return status;
}

/* Plain training: the given order, everything kept, nothing in place. */
static hr_status unplanned(maker *m, uint64_t *out) {
    const uint8_t overlap = m->s.overlap;
    m->s.in_place = m->s.overlap = 0;
    const hr_status status = hri_schedule_run(&m->s);
    m->s.in_place = 1;
    m->s.overlap = overlap;
    *out = m->bottom + m->s.peak_bytes;
    return status;
}

/* The limit had to sink, and the placement leaves room after all: keeps more while that can be placed. */
static hr_status spend_rest(maker *m, uint32_t at, hri_plan **plan) {
    const uint64_t budget = m->o.budget_bytes;
    const uint64_t effort = effort_of(m);
    for (int tries = 0; tries < 3; tries++) {
        const uint64_t slack = budget - (*plan)->arena_bytes;
        hri_plan *better = NULL;
        if (slack < budget / 200) {
            return HR_OK;
        }
        hr_status status = go_to(m, at);
        const double time = m->s.time_ns;
        if (status == HR_OK) {
            status = hri_search_improve(&m->s, m->limit + slack / 2, effort / 8);
        }
        if (status != HR_OK || m->s.time_ns >= time) {
            return status;
        }
        status = hri_place_together(&m->s, &m->o, m->limit, LONG_LOOK, &better);
        if (status != HR_OK || better->arena_bytes > budget) {
            hri_plan_destroy(better);
            return status;
        }
        hri_plan_destroy(*plan);
        *plan = better;
        m->limit += slack / 2;
        m->found = 1; /* the others have no more part in it */
        const found x = m->kept[at];
        m->kept[at] = m->kept[0];
        m->kept[0] = x;
        at = 0;
        write_found(m, at);
    }
    return HR_OK;
}

/* Keeps the faster of the two plans in *best. */
static int take_faster(hri_plan **best, hri_plan *plan) {
    const int faster = plan && (!*best || plan->time_ns < (*best)->time_ns);
    hri_plan_destroy(faster ? *best : plan);
    *best = faster ? plan : *best;
    return faster;
}

/* Is there no need to look at the schedule `at` and those after it?  With short memory there is none for two plans. */
static int is_good(const maker *m, const hri_plan *plan, uint32_t at) {
    return m->o.short_memory || plan->time_ns <= m->kept[at].time * (1 + NEAR);
}

/* Places one of the schedules kept.  A short look first: what is far from lying inside the budget then will not be brought there
 * by a longer one.  *out is NULL when none was found, and *over lower where it was closer than that. */
static hr_status place_kept(maker *m, uint32_t at, hri_plan **out, uint64_t *over) {
    const uint64_t budget = m->o.budget_bytes;
    const int looks = effort_of(m) >= WHOLE_EFFORT && !m->o.any ? 2 : 1;
    hr_status status = go_to(m, at);
    *out = NULL;
    for (int long_look = 0; long_look < looks && status == HR_OK; long_look++) {
        hri_plan *plan = NULL;
        status = hri_schedule_run(&m->s); /* without what the look before had brought together */
        if (status == HR_OK) {
            status = hri_place_together(&m->s, &m->o, m->limit, long_look ? LONG_LOOK : SHORT_LOOK,
                                        &plan);
        }
        if (status != HR_OK) {
            hri_plan_destroy(plan);
            break;
        }
        if (budget == 0 || plan->arena_bytes <= budget) {
            (void)take_faster(out, plan);
            if (budget == 0 || is_good(m, *out, at)) {
                break;
            }
            continue;
        }
        const uint64_t more = plan->arena_bytes - budget;
        *over = more < *over ? more : *over;
        hri_plan_destroy(plan);
        if (more > budget / 16) {
            break;
        }
    }
    if (status != HR_OK) {
        hri_plan_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* The fastest of the schedules kept that can be placed; *over: by how much the best of them failed.  One whose neighbours could not
 * go together may be slower than the next. */
static hr_status place_one(maker *m, hri_plan **out, uint32_t *at, uint64_t *over) {
    hri_plan *best = NULL;
    *at = 0;
    *over = UINT64_MAX;
    for (uint32_t i = 0; i < m->found; i++) {
        hri_plan *plan = NULL;
        if (best && is_good(m, best, i)) {
            break;
        }
        const hr_status status = place_kept(m, i, &plan, over);
        if (status != HR_OK) {
            hri_plan_destroy(best);
            return status;
        }
        *at = take_faster(&best, plan) ? i : *at;
    }
    *out = best;
    return HR_OK;
}

/* The fastest schedule could not be placed, and *plan is of a slower one, or ops that are launched together had to part: from there
 * down by what it was over by, which is often little, until a plan is as fast as its schedule.  The fastest plan of all. */
static hr_status place_lower(maker *m, uint64_t over, hri_plan **plan) {
    const uint64_t least = m->limit / 400;
    uint64_t less = over == UINT64_MAX || over < least ? least : over + over / 4;
    for (int tries = 0; tries < LOWER && less < m->limit / 16; tries++, less *= 2) {
        hri_plan *other = NULL;
        hr_status status = go_to(m, 0);
        if (status == HR_OK) {
            status = hri_search_fit(&m->s, m->limit - less, effort_of(m) / 16);
        }
        if (status == HR_OK) {
            status = hri_search_improve(&m->s, m->limit - less, effort_of(m) / 16);
        }
        if (status == HR_OK && m->s.time_ns < (*plan)->time_ns * (1 - NEAR)) {
            status = hri_place_together(&m->s, &m->o, m->limit, LONG_LOOK, &other);
        } else if (status == HR_OK) {
            break;
        }
        if (status != HR_OK && status != HR_E_NO_PLAN) {
            hri_plan_destroy(other);
            return status;
        }
        const int fits = other && other->arena_bytes <= m->o.budget_bytes;
        const int good = fits && other->time_ns <= m->s.time_ns * (1 + NEAR);
        if (fits) {
            (void)take_faster(plan, other);
        } else {
            hri_plan_destroy(other);
        }
        if (good) {
            break;
        }
    }
    return HR_OK;
}

/* Every schedule kept goes on down to the sunken limit; those that find no way are given up. */
static hr_status sink(maker *m) {
    const uint64_t effort = effort_of(m);
    const uint32_t before = m->found;
    uint8_t lost[KEPT] = {0};
    for (uint32_t i = 0; i < before; i++) {
        hr_status status = go_to(m, i);
        if (status == HR_OK) {
            status = hri_search_fit(&m->s, m->limit, effort / 6);
        }
        if (status == HR_OK && !m->o.any) {
            status = hri_search_improve(&m->s, m->limit, effort / 8);
        }
        if (status != HR_OK && status != HR_E_NO_PLAN) {
            return status;
        }
        lost[i] = status == HR_E_NO_PLAN;
        if (status == HR_OK) { /* in its own place: sorted below */
            m->kept[i].time = m->s.time_ns;
            memcpy(m->kept[i].gaps, m->s.gaps, m->s.gap_count);
            memcpy(m->kept[i].variant, m->s.variant, m->p->op_count);
        }
    }
    m->found = 0;
    for (uint32_t i = 0; i < before; i++) {
        if (lost[i]) {
            continue;
        }
        const found x = m->kept[i];
        uint32_t to = m->found++;
        m->kept[i] = m->kept[to];
        for (; to > 0 && m->kept[to - 1].time > x.time; to--) {
            m->kept[to] = m->kept[to - 1];
        }
        m->kept[to] = x;
    }
    return HR_OK;
}

/* Writes the choices of a plan to a memo. */
static hr_status write_memo(const maker *m, uint32_t at, hri_plan_memo *memo) {
    if (!memo->order) {
        hri_plan_memo new = {.op_count = m->p->op_count,
                             .gap_count = m->s.gap_count,
                             .order = hri_malloc((m->p->op_count + 1) * sizeof *new.order),
                             .gaps = hri_malloc((size_t)m->s.gap_count + 1),
                             .variant = hri_malloc((size_t)m->p->op_count + 1)};
        if (!new.order || !new.gaps || !new.variant) {
            hri_plan_memo_deinit(&new);
            return HR_E_NOMEM_HOST;
        }
        *memo = new;
    }
    memcpy(memo->order, m->kept[at].order, m->p->op_count * sizeof *memo->order);
    memcpy(memo->gaps, m->kept[at].gaps, m->s.gap_count);
    memcpy(memo->variant, m->kept[at].variant, m->p->op_count);
    return HR_OK;
}

/* The plan has the choices behind it, and so has the memo of the search. */
static hr_status remember(const maker *m, uint32_t at, hri_plan *plan) {
    const hr_status status = write_memo(m, at, &plan->choices);
    return status == HR_OK && m->o.memo ? write_memo(m, at, m->o.memo) : status;
}

/* Places the best schedule that can be; sinks the limit while fragmentation is in the way. */
static hr_status place(maker *m, hri_plan **out, hri_prose *why) {
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t at;
        uint64_t over;
        hri_plan *plan = NULL;
        hr_status status = place_one(m, &plan, &at, &over);
        if (plan && status == HR_OK && m->o.budget_bytes && !m->o.any && !m->o.short_memory &&
            plan->time_ns > m->kept[0].time * (1 + NEAR)) {
            status = place_lower(m, over, &plan);
        }
        if (plan && status == HR_OK) {
            status = round > 0 && plan->again_count && !m->o.any ? spend_rest(m, at, &plan) : HR_OK;
        }
        if (status != HR_OK) {
            hri_plan_destroy(plan);
            return status;
        }
        if (plan) {
            *out = plan; /* its owner drops it where that fails */
            return remember(m, m->found > 1 ? at : 0, plan);
        }
        const uint64_t least = m->limit / 100;
        const uint64_t less = over / 2 > least ? over / 2 : least;
        if (less >= m->limit) {
            break;
        }
        m->limit -= less;
        status = sink(m);
        if (status == HR_OK && !m->found) {
            status = try_all(m); /* from the start, for the lower limit */
        }
        if (status != HR_OK) {
            return status;
        }
        if (!m->found) {
            break;
        }
    }
    return hri_prose_set(why, HR_E_NO_PLAN, "not found: no placement within %llu bytes",
                         (unsigned long long)m->o.budget_bytes);
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
        status = go_to(m, 0);
        m->found = status == HR_OK && m->s.peak_bytes <= m->limit;
    }
    if (status == HR_OK && !m->found) {
        status = try_all(m);
    }
    if (status == HR_OK && !m->found) {
        return hri_prose_set(
            why, HR_E_NO_PLAN,
            "not found: the minimum is %llu bytes, but no plan within %llu bytes was found",
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
        if (status == HR_OK && m->o.other_budget_bytes) {
            status = hri_plan_check_other(plan, m->o.other_budget_bytes, &bug);
        }
        if (status == HR_E_INVALID) {
            status =
                hri_prose_set(why, HR_E_INTERNAL, "the checker rejects the plan: %s", bug.text);
        }
    }
    if (status == HR_OK) {
        *out = plan;
    } else {
        hri_plan_destroy(plan);
    }
    return status;
}

/* What each memory has, and of the first one no more than the options grant. */
static void limit_memories(maker *m) {
    const uint64_t granted = m->o.other_budget_bytes;
    for (uint32_t i = 0; i < m->p->memory_count; i++) {
        m->s.away_limits[i] = m->p->memories[i].capacity_bytes;
    }
    if (granted && (!m->s.away_limits[0] || granted < m->s.away_limits[0])) {
        m->s.away_limits[0] = granted;
    }
}

hr_status hri_plan_make_once(const hri_problem *p, const hri_plan_options *options, hri_plan **out,
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
    m.s.overlap = (uint8_t)(!m.o.no_overlap && hri_problem_has_net(p));
    if (m.o.short_memory) {
        m.s.most_entries = hri_plan_short_entries(p);
        m.s.frugal = 1;
    }
    m.s.no_drops = m.o.no_recompute;
    limit_memories(&m);
    if (status == HR_OK) {
        m.order = hri_malloc(p->op_count * sizeof *m.order);
        status = m.order ? HR_OK : HR_E_NOMEM_HOST;
    }
    for (uint32_t i = 0; i < KEPT && status == HR_OK; i++) {
        found *x = &m.kept[i];
        x->order = hri_malloc(p->op_count * sizeof *x->order);
        x->gaps = hri_malloc((size_t)m.s.gap_count + 1);
        x->variant = hri_malloc(p->op_count);
        status = x->order && x->gaps && x->variant ? HR_OK : HR_E_NOMEM_HOST;
    }
    if (status == HR_OK) {
        status = make(&m, out, impossible ? impossible : &ignored, why);
    }
    hri_free(m.order);
    for (uint32_t i = 0; i < KEPT; i++) {
        hri_free(m.kept[i].order);
        hri_free(m.kept[i].gaps);
        hri_free(m.kept[i].variant);
    }
    hri_schedule_deinit(&m.s);
    return status;
}
