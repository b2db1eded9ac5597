/* The predicted time of a plan: its steps as they stand, with what a device does in one launch.
 *
 * Ops of a problem have the time that they take in company (`after` and `many` of problem.h); who has none takes longer.
 * Company is found as those who run plans find it: first, each of many goes back to the earliest of its kind that no
 * memory keeps it from (run/regroup.c); then, from the first step on, a step may go with the one before it, unless that is
 * taken.  Copies between the two come out of their way, but for one that starts among them and is waited for there.
 *
 * Nothing is allocated: until times are known, end[] is the order in which steps run, and begin[] how long they take. */
#include "plan/plan.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

enum { FAR = 4096 }; /* steps that one of many looks back over, as there */

/* ---- of many ---- */

/* Does the step write into the buffer, or, with `reads`, read from it?  Work space is written; copies have one operand of
 * each kind, and no work space. */
static int uses(const hri_problem *p, const hri_plan *plan, const hri_plan_step *s,
                const hri_plan_buffer *x, int reads) {
    const int runs = s->kind == HRI_STEP_RUN;
    const uint32_t in_count = runs ? p->ops[s->op].in_count : 1;
    const uint32_t end = runs ? in_count + p->ops[s->op].out_count + 1 : 2;
    const uint32_t *list = plan->operands + s->first;
    for (uint32_t i = reads ? 0 : in_count; i < end; i++) {
        const hri_plan_buffer *y = list[i] == HRI_PROBLEM_NONE ? NULL : &plan->buffers[list[i]];
        if (y && y->memory == x->memory && y->offset < x->offset + x->bytes &&
            x->offset < y->offset + y->bytes) {
            return 1;
        }
    }
    return 0;
}

/* May step `mover` run before step `t`, which stands before it?  A wait counts as the copy that it is for. */
static int may_cross(const hri_problem *p, const hri_plan *plan, uint32_t mover, uint32_t t) {
    const hri_problem_op *op = &p->ops[plan->steps[mover].op];
    const uint32_t *list = plan->operands + plan->steps[mover].first;
    const hri_plan_step *s = &plan->steps[t];
    s = s->kind == HRI_STEP_WAIT ? &plan->steps[s->op] : s;
    int free = s->kind != HRI_STEP_NET;
    for (uint32_t i = 0; i < op->in_count + op->out_count && free; i++) {
        free = !uses(p, plan, s, &plan->buffers[list[i]], i >= op->in_count);
    }
    return free;
}

/* The number of its kind, if step t runs one of many; 0: it stays. */
static uint32_t kind_of(const hri_problem *p, const hri_plan *plan, uint32_t t) {
    const hri_plan_step *s = &plan->steps[t];
    return s->kind == HRI_STEP_RUN && p->ops[s->op].alone_ns > 0 ? p->ops[s->op].many : 0;
}

/* The order in which steps run: whole numbers. */
static void put_in_order(const hri_problem *p, const hri_plan *plan, double *order) {
    for (uint32_t t = 0; t < plan->step_count; t++) {
        const uint32_t kind = kind_of(p, plan, t);
        uint32_t to = t;
        for (uint32_t i = t; kind && i-- > 0 && t - i < FAR;) {
            const uint32_t at = (uint32_t)order[i];
            to = kind_of(p, plan, at) == kind ? i + 1 : to;
            if (!may_cross(p, plan, t, at)) {
                break;
            }
        }
        while (to < t && kind_of(p, plan, (uint32_t)order[to]) == kind) {
            to++;
        }
        memmove(&order[to + 1], &order[to], (t - to) * sizeof *order);
        order[to] = t;
    }
}

/* ---- neighbours ---- */

/* What came right before a step. */
typedef struct before {
    const hri_plan_step *step; /* NULL: it ran nothing, or goes with nobody */
    const hri_plan_step *with; /* that it went with; NULL: with nobody */
    uint32_t kind;             /* of many */
    int taken; /* 1: it went with the one before it; 2: as part of a chain; 3: made its sum; 4: as the third */
    uint32_t since; /* the first step that is in company with it */
    uint64_t paid;  /* bit k: a launch of many of kind k is in their times, and was counted */
} before;

/* Times of many have one launch in them.  So the first one of every further group takes as long as alone. */
static int begins_first_group(before *b, uint32_t kind, uint32_t next) {
    const uint64_t bit = kind < 64 ? UINT64_C(1) << kind : 0;
    const int first = kind == next && !(b->paid & bit);
    b->paid |= first ? bit : 0;
    return first;
}

/* Does step s write nothing of what step m (NULL: there is none), in one launch with it, still reads? */
static int lies_apart(const hri_problem *p, const hri_plan *plan, const hri_plan_step *m,
                      const hri_plan_step *s) {
    const hri_problem_op *op = &p->ops[s->op];
    const uint32_t *made = plan->operands + s->first + op->in_count;
    int apart = 1;
    for (uint32_t k = 0; m && k < op->out_count + 1 && apart; k++) {
        apart = made[k] == HRI_PROBLEM_NONE || !uses(p, plan, m, &plan->buffers[made[k]], 1);
    }
    return apart;
}

/* Of step t, before step `later` (NULL: nothing runs right behind it). */
static double run_ns(const hri_problem *p, const hri_plan *plan, uint32_t t,
                     const hri_plan_step *later, before *b) {
    const hri_plan_step *s = &plan->steps[t];
    const hri_problem_op *op = &p->ops[s->op];
    const uint32_t maker = hri_problem_joined(p, s->op), kind = kind_of(p, plan, t);
    const uint32_t next = later ? kind_of(p, plan, (uint32_t)(later - plan->steps)) : 0;
    double time = op->variants[s->variant].time_ns;
    const hri_plan_step *with = NULL;
    int taken = 0;
    if (s->again && later && hri_problem_beside(p, later->op) == s->op) {
        time *= 1 - hri_problem_beside_share(p, s->op);
    }
    if (maker != HRI_PROBLEM_NONE && b->step && b->step->op == maker &&
        (!b->taken || b->taken == 3)) {
        time -=
            hri_problem_joined_ns(p, s->op, time, p->ops[maker].variants[b->step->variant].time_ns);
        taken = 3;
    }
    if (op->alone_ns > 0) {
        const int place = op->third ? b->taken == 1 : !b->taken || (op->chain && b->taken == 2);
        const int good = !taken && op->after && b->step && b->step->op == op->after - 1 && place &&
                         (!op->apart || (lies_apart(p, plan, b->step, s) &&
                                         lies_apart(p, plan, op->third ? b->with : NULL, s)));
        const int many = kind && (kind == b->kind || begins_first_group(b, kind, next));
        time += good || many ? 0 : op->alone_ns;
        taken = !good ? taken : op->third ? 4 : 1 + op->chain;
        with = good ? b->step : NULL;
    }
    const int goes_on = b->step && (taken || (kind && kind == b->kind));
    *b = (before){s, with, kind, taken, goes_on ? b->since : t, b->paid};
    return time;
}

/* Steps in their order from number i on, over copies: the first that runs something; NULL: there is none, or an exchange is
 * before it, or a copy that starts after step `since` is waited for. */
static const hri_plan_step *next_run(const hri_plan *plan, const double *order, uint32_t i,
                                     uint32_t since) {
    for (; i < plan->step_count; i++) {
        const hri_plan_step *s = &plan->steps[(uint32_t)order[i]];
        if (s->kind == HRI_STEP_RUN) {
            return s;
        }
        if (s->kind == HRI_STEP_NET ||
            (s->kind == HRI_STEP_WAIT &&
             (s->op > since || plan->steps[s->op].kind == HRI_STEP_NET))) {
            return NULL;
        }
    }
    return NULL;
}

/* How long each step that runs an op takes. */
static void find_times(const hri_problem *p, const hri_plan *plan, const double *order,
                       double *time) {
    before b = {0};
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const uint32_t t = (uint32_t)order[i];
        if (plan->steps[t].kind == HRI_STEP_RUN) {
            time[t] = run_ns(p, plan, t, next_run(plan, order, i + 1, t), &b);
            b.step = next_run(plan, order, i + 1, b.since) ? b.step : NULL;
            b.kind = b.step ? b.kind : 0;
        }
    }
}

double hri_plan_times(const hri_problem *p, const hri_plan *plan, double *begin, double *end) {
    double compute = 0, wire = 0, queues[HRI_PROBLEM_QUEUES_MAX] = {0};
    put_in_order(p, plan, end);
    find_times(p, plan, end, begin);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const hri_plan_step *s = &plan->steps[i];
        const double time = begin[i];
        begin[i] = compute;
        if (s->kind == HRI_STEP_NET) {
            begin[i] = wire > compute ? wire : compute;
            end[i] = wire = begin[i] + p->ops[s->op].variants[s->variant].time_ns;
        } else if (s->kind == HRI_STEP_RUN) {
            compute += time;
            end[i] = compute;
        } else if (s->kind == HRI_STEP_WAIT) {
            compute = end[s->op] > compute ? end[s->op] : compute;
            end[i] = compute;
        } else {
            const int in = s->kind == HRI_STEP_IN;
            const uint32_t *list = plan->operands + s->first;
            const uint32_t memory = plan->buffers[list[!in]].memory;
            double *queue = &queues[hri_problem_queue(p, memory, in)];
            begin[i] = *queue > compute ? *queue : compute;
            const double copy = hri_problem_copy_ns(p, memory, in, plan->buffers[list[0]].bytes);
            *queue = begin[i] + copy;
            end[i] = *queue;
            compute = p->copies_block ? end[i] : compute + p->copy_drag * copy;
        }
    }
    return compute;
}

double hri_plan_makespan(const hri_problem *p, const hri_plan *plan) {
    double *times = hri_calloc(2 * (size_t)plan->step_count + 2, sizeof *times);
    if (!times) {
        return NAN;
    }
    const double makespan = hri_plan_times(p, plan, times, times + plan->step_count + 1);
    hri_free(times);
    return makespan;
}
