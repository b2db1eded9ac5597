/* Neighbours that go together: see hri_schedule_join in schedule.h.
 *
 * Some ops make a sum that they read themselves, when it would have been made right before them (`joins`).  What is made again
 * for such an op comes between the two: here the sum moves behind it, where the bytes that its inputs hold meanwhile stay
 * under the limit.  Others are one launch with the op whose result they read (`after`): those move up behind it.  Nothing else
 * changes: the same ops run, and as often. */
#include "plan/schedule_int.h"

/* The entry that runs something right behind entry e, or before it, over copies; HRI_PROBLEM_NONE: there is none.  Whoever runs
 * the plan starts copies behind those that go together, and waits for them before (run/regroup.c). */
static uint32_t run_behind(const hri_schedule *s, uint32_t e) {
    while (++e < s->entry_count && !hri_entry_runs(s, e)) {
    }
    return e < s->entry_count && s->entries[e].kind == HRI_STEP_RUN ? e : HRI_PROBLEM_NONE;
}

static uint32_t run_before(const hri_schedule *s, uint32_t e) {
    while (e-- > 0 && !hri_entry_runs(s, e)) {
    }
    return e < s->entry_count && s->entries[e].kind == HRI_STEP_RUN ? e : HRI_PROBLEM_NONE;
}

/* The entry that first touches what entry e makes, if it joins it; HRI_PROBLEM_NONE: nobody does.  Nothing but computing and
 * copies of other values may lie between. */
static uint32_t find_reader(const hri_schedule *s, uint32_t e) {
    const hri_problem *p = s->p;
    const hri_problem_op *op = &p->ops[s->entries[e].op];
    if (op->out_count != 1 || s->fixed[op->out[0].value]) {
        return HRI_PROBLEM_NONE;
    }
    const uint32_t made = s->touches[s->entries[e].first + op->in_count].instance;
    for (uint32_t f = e + 1; f < s->entry_count && s->entries[f].kind != HRI_STEP_NET; f++) {
        const hri_touch *t = s->touches + s->entries[f].first;
        const int runs = s->entries[f].kind == HRI_STEP_RUN;
        for (uint32_t i = 0; i < hri_entry_ins(s, f); i++) {
            if (t[i].instance == made) {
                return runs && hri_problem_joined(p, s->entries[f].op) == s->entries[e].op && i == 0
                           ? f
                           : HRI_PROBLEM_NONE;
            }
        }
    }
    return HRI_PROBLEM_NONE;
}

/* How many bytes more are held between e and its reader when e waits: what would die in it, less what it makes. */
static uint64_t held_bytes(const hri_schedule *s, uint32_t e) {
    const hri_problem_op *op = &s->p->ops[s->entries[e].op];
    const hri_touch *t = s->touches + s->entries[e].first;
    uint64_t held = 0;
    for (uint32_t i = 0; i < op->in_count; i++) {
        const hri_instance *x = &s->instances[t[i].instance];
        const int again = i > 0 && t[i].instance == t[i - 1].instance;
        held +=
            x->last == e && !s->fixed[x->value] && !again ? s->p->values[x->value].room_bytes : 0;
    }
    const uint64_t made = s->p->values[op->out[0].value].room_bytes;
    return held > made ? held - made : 0;
}

/* Does what stands right before f go with it, and save more than e would? */
static int is_taken(const hri_schedule *s, uint32_t f) {
    const uint32_t at = run_before(s, f);
    const hri_entry *before = &s->entries[at == HRI_PROBLEM_NONE ? 0 : at];
    return at != HRI_PROBLEM_NONE && before->again == HRI_AGAIN_BESIDE &&
           hri_problem_beside(s->p, s->entries[f].op) == before->op &&
           hri_schedule_beside_ns(s, before->op) > 0;
}

/* May the entry wait until right before f?  It may not read what is updated meanwhile. */
static int may_wait(const hri_schedule *s, uint32_t e, uint32_t f, uint64_t held) {
    const hri_problem_op *op = &s->p->ops[s->entries[e].op];
    for (uint32_t i = 0; i < op->in_count; i++) {
        if (s->fixed[op->in[i]]) {
            return 0;
        }
    }
    for (uint32_t k = e + 1; k <= f; k++) {
        if (s->live[k] + held > s->limit) {
            return 0;
        }
    }
    return 1;
}

/* The entry of op `maker` before entry f, with nothing but what is made again between; HRI_PROBLEM_NONE: there is none. */
static uint32_t find_maker(const hri_schedule *s, uint32_t f, uint32_t maker) {
    uint32_t e = run_before(s, f);
    while (e != HRI_PROBLEM_NONE && s->entries[e].op != maker) {
        e = s->entries[e].again ? run_before(s, e) : HRI_PROBLEM_NONE;
    }
    return e;
}

double hri_schedule_apart(const hri_schedule *s) {
    double lost = 0;
    for (uint32_t f = 1; f < s->entry_count; f++) {
        const hri_entry *x = &s->entries[f];
        if (x->kind != HRI_STEP_RUN || x->again || !(s->p->ops[x->op].joins > 0)) {
            continue;
        }
        const uint32_t maker = hri_problem_joined(s->p, x->op), before = run_before(s, f);
        if (maker == HRI_PROBLEM_NONE || is_taken(s, f) ||
            (before != HRI_PROBLEM_NONE && s->entries[before].op == maker)) {
            continue; /* of one that is taken the other's time says it */
        }
        const uint32_t e = find_maker(s, f, maker);
        if (e == HRI_PROBLEM_NONE || find_reader(s, e) != f ||
            !may_wait(s, e, f, held_bytes(s, e))) {
            lost += hri_schedule_joined_ns(s, x->op);
        }
    }
    return lost;
}

/* The entry that made what entry f reads of op `maker`; HRI_PROBLEM_NONE: another input of f is made later, comes back from
 * another memory, or may be updated meanwhile. */
static uint32_t find_made(const hri_schedule *s, uint32_t f, uint32_t maker) {
    const hri_problem_op *op = &s->p->ops[s->entries[f].op];
    const hri_touch *t = s->touches + s->entries[f].first;
    uint32_t latest = 0, made = HRI_PROBLEM_NONE;
    for (uint32_t i = 0; i < op->in_count; i++) {
        const hri_instance *x = &s->instances[t[i].instance];
        const int given = s->p->values[x->value].role != HRI_ROLE_MADE && x->birth == 0;
        if (s->fixed[x->value] || (!given && s->entries[x->birth].kind != HRI_STEP_RUN)) {
            return HRI_PROBLEM_NONE;
        }
        latest = x->birth > latest ? x->birth : latest;
        made = !given && s->entries[x->birth].op == maker ? x->birth : made;
    }
    return made == latest ? made : HRI_PROBLEM_NONE;
}

/* May entry f run right behind entry e, if what it makes is held from there on? */
static int may_come(const hri_schedule *s, uint32_t e, uint32_t f, uint64_t *held) {
    const hri_problem_op *op = &s->p->ops[s->entries[f].op];
    *held = 0;
    for (uint32_t k = 0; k < op->out_count; k++) {
        if (s->fixed[op->out[k].value]) {
            return 0;
        }
        *held += s->p->values[op->out[k].value].room_bytes;
    }
    for (uint32_t k = e + 1; k <= f; k++) {
        if (s->live[k] + *held > s->limit) {
            return 0;
        }
    }
    return 1;
}

/* Does what stands behind entry e go with it?  A third one comes along. */
static int has_company(const hri_schedule *s, uint32_t e) {
    const uint32_t next = run_behind(s, e), n = s->entries[e].op;
    const uint32_t behind = next == HRI_PROBLEM_NONE ? n : s->entries[next].op;
    return next != HRI_PROBLEM_NONE &&
           ((s->p->ops[behind].after == n + 1 && !s->p->ops[behind].third) ||
            hri_problem_joined(s->p, behind) == n || hri_problem_beside(s->p, behind) == n);
}

static int is_moved(const hri_schedule *s, uint32_t e) {
    return s->scratch->keys[e] != 2 * (uint64_t)e + 1;
}

/* The entry that entry e, which came up or never moved, stands behind now; HRI_PROBLEM_NONE: it waits for another. */
static uint32_t stands_behind(const hri_schedule *s, uint32_t e) {
    const uint64_t key = s->scratch->keys[e];
    return !is_moved(s, e)          ? e
           : key <= 2 * (uint64_t)e ? (uint32_t)(key / 2 - 1)
                                    : HRI_PROBLEM_NONE;
}

/* Does entry e stand right behind the op that it goes with, or has it come up there? */
static int is_second(const hri_schedule *s, uint32_t e) {
    const uint32_t after = s->p->ops[s->entries[e].op].after;
    const uint32_t before = is_moved(s, e) ? stands_behind(s, e) : run_before(s, e);
    return after && before != HRI_PROBLEM_NONE && s->entries[before].op + 1 == after;
}

/* Ops that would be one launch with the one whose result they read come up behind it, and a third one behind the second.  Returns how
 * many. */
static uint32_t bring_up(hri_schedule *s) {
    struct hri_schedule_scratch *x = s->scratch;
    uint32_t moved = 0;
    for (uint32_t f = 0; f < s->entry_count; f++) {
        const int runs = s->entries[f].kind == HRI_STEP_RUN && !s->entries[f].again;
        const hri_problem_op *op = runs ? &s->p->ops[s->entries[f].op] : NULL;
        if (!op || !op->after || !(op->alone_ns > 0) || op->many || has_company(s, f) ||
            is_moved(s, f)) {
            continue;
        }
        const uint32_t e = find_made(s, f, op->after - 1);
        uint64_t held;
        if (e == HRI_PROBLEM_NONE || has_company(s, e) ||
            (op->third ? !is_second(s, e) : is_moved(s, e)) ||
            (!is_moved(s, e) && run_behind(s, e) == f)) {
            continue;
        }
        const uint32_t to = stands_behind(s, e);
        if (!may_come(s, to, f, &held)) {
            continue;
        }
        x->keys[f] = 2 * (uint64_t)(to + 1);
        moved++;
        for (uint32_t k = to + 1; k <= f; k++) {
            s->live[k] += held;
        }
    }
    return moved;
}

hr_status hri_schedule_join(hri_schedule *s, uint32_t *moved) {
    struct hri_schedule_scratch *x = s->scratch;
    *moved = 0;
    if (s->net_count) {
        return HR_OK;
    }
    hr_status status = hri_schedule_size_keys(s);
    if (status != HR_OK) {
        return status;
    }
    for (uint32_t e = 0; e < s->entry_count; e++) {
        x->keys[e] = 2 * (uint64_t)e + 1;
    }
    for (uint32_t e = 0; e < s->entry_count; e++) {
        const uint32_t f =
            s->entries[e].kind == HRI_STEP_RUN ? find_reader(s, e) : HRI_PROBLEM_NONE;
        const uint64_t held = f != HRI_PROBLEM_NONE && f > e + 1 ? held_bytes(s, e) : 0;
        if (f == HRI_PROBLEM_NONE || f == run_behind(s, e) ||
            s->entries[e].again == HRI_AGAIN_BESIDE || is_taken(s, f) || !may_wait(s, e, f, held)) {
            continue;
        }
        x->keys[e] = 2 * (uint64_t)f;
        ++*moved;
        for (uint32_t k = e + 1; k <= f; k++) {
            s->live[k] += held; /* for the ones that come */
        }
    }
    *moved += bring_up(s);
    return *moved ? hri_schedule_reorder(s) : HR_OK;
}

/* Of entry e, which runs an op, where it stands. */
static double time_there(const hri_schedule *s, uint32_t e) {
    const hri_entry *x = &s->entries[e];
    const uint32_t last = run_before(s, e), behind = run_behind(s, e);
    const hri_entry *before = last == HRI_PROBLEM_NONE ? NULL : &s->entries[last];
    const hri_entry *next = behind == HRI_PROBLEM_NONE ? NULL : &s->entries[behind];
    const uint32_t maker = hri_problem_joined(s->p, x->op);
    double time = x->again ? hri_schedule_again_time(s, x->op) : hri_schedule_op_time(s, x->op);
    if (x->again && next && hri_problem_beside(s->p, next->op) == x->op) {
        time *= 1 - hri_problem_beside_share(s->p, x->op);
    }
    return maker != HRI_PROBLEM_NONE && before && before->op == maker
               ? time - hri_problem_joined_ns(s->p, x->op, time, hri_schedule_op_time(s, maker))
               : time;
}

double hri_schedule_joined_time(const hri_schedule *s) {
    double time = s->time_ns - s->apart_ns;
    for (uint32_t e = 0; e < s->entry_count; e++) {
        const hri_entry *x = &s->entries[e];
        const double more = x->kind == HRI_STEP_RUN
                                ? time_there(s, e) - hri_schedule_run_time(s, x->op, x->again)
                                : 0;
        time += more;
    }
    return time;
}
