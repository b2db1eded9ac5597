/* The checker: replays a plan and believes nothing.
 *
 * It shares no code with the planner, and no idea either: the planner thinks in values, gaps and costs, the checker in
 * buffers and what each of them holds at every step.  A plan that passes
 *   - reads at every step exactly the values (and versions) that the problem says;
 *   - never lets two buffers that live together overlap, and stays inside the budget;
 *   - keeps every other memory inside the capacity that the problem gives it;
 *   - neither reads nor writes memory that a copy or an exchange still works on, in whichever queue, and waits for each;
 *   - runs every op, and those that may run once only once;
 *   - exchanges with other ranks what it says, in the order that it says, so that ranks whose plans say the same never wait
 *     for one another in vain;
 *   - ends with every result in a buffer that outlives the steps.
 * Times are predictions and are not checked.  O(n log n) but for the list of live ranges, which is kept as an array. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/plan.h"

typedef struct replay {
    const hri_problem *p;
    const hri_plan *plan;
    hri_prose *why;
    uint32_t *holds;   /* by buffer: the value in it, or NONE */
    uint32_t *reading; /* by buffer: copies and exchanges that read it */
    uint8_t *writing;  /* by buffer: a copy or an exchange writes it */
    uint8_t *pending;  /* by step: a copy or an exchange not waited for */
    uint32_t *in_copy; /* by step: the value under way */
    uint8_t *ran;      /* by op */
} replay;

static hr_status wrong(const replay *r, uint32_t step, const char *what, uint32_t value) {
    const hri_plan_step *s = &r->plan->steps[step];
    const int runs = s->kind == HRI_STEP_RUN || s->kind == HRI_STEP_NET;
    const char *op =
        runs && s->op < r->p->op_count ? r->p->ops[s->op].name : hri_step_name(s->kind);
    return hri_prose_set(r->why, HR_E_INVALID, "step %u (%s): %s%s%s", step, op, what,
                         value < r->p->value_count ? ": " : "",
                         value < r->p->value_count ? r->p->values[value].name : "");
}

/* Memory that is there from before the first step to after the last. */
static int lies_at_bottom(const hri_problem *p, uint32_t v) {
    return v < p->value_count &&
           (p->values[v].role == HRI_ROLE_PERSISTENT || p->values[v].role == HRI_ROLE_CONSTANT);
}

static hr_status check_buffer(const replay *r, uint32_t b) {
    const hri_plan_buffer *x = &r->plan->buffers[b];
    const uint64_t align = r->p->align;
    if (x->memory > r->p->memory_count) {
        return hri_prose_set(r->why, HR_E_INVALID,
                             "buffer %u is in memory %u, but there are only %u", b, x->memory,
                             r->p->memory_count);
    }
    const uint64_t space = x->memory ? r->plan->memory_bytes[x->memory - 1] : r->plan->arena_bytes;
    if (x->offset % align || x->bytes % align || x->bytes > space || x->offset > space - x->bytes) {
        return hri_prose_set(
            r->why, HR_E_INVALID,
            "buffer %u at %llu + %llu is outside the %s of %llu bytes or not aligned", b,
            (unsigned long long)x->offset, (unsigned long long)x->bytes,
            x->memory ? "memory" : "arena", (unsigned long long)space);
    }
    if (x->birth >= x->death || x->death > r->plan->step_count) {
        return hri_prose_set(r->why, HR_E_INVALID,
                             "buffer %u has the invalid lifetime %u to %u "
                             "(of %u steps)",
                             b, x->birth, x->death, r->plan->step_count);
    }
    if (x->value != HRI_PROBLEM_NONE && x->value >= r->p->value_count) {
        return hri_prose_set(r->why, HR_E_INVALID, "buffer %u belongs to no value", b);
    }
    const int bottom = lies_at_bottom(r->p, x->value);
    if (bottom && (x->memory || x->birth != 0 || x->death != r->plan->step_count ||
                   x->bytes < r->p->values[x->value].bytes ||
                   x->offset + x->bytes > r->plan->persistent_bytes)) {
        return hri_prose_set(r->why, HR_E_INVALID,
                             "%s is not at the bottom of the arena for the "
                             "whole step",
                             r->p->values[x->value].name);
    }
    if (!bottom && !x->memory && x->bytes && x->offset < r->plan->persistent_bytes) {
        return hri_prose_set(r->why, HR_E_INVALID, "buffer %u overlaps the persistent values", b);
    }
    return HR_OK;
}

/* The memories beside the arena: no larger than they are, none that is not there, and their sum as the plan says. */
static hr_status check_memories(const replay *r) {
    uint64_t left = r->plan->other_bytes;
    for (uint32_t m = 0; m < HRI_PROBLEM_MEMORIES_MAX; m++) {
        const uint64_t bytes = r->plan->memory_bytes[m];
        const uint64_t capacity = m >= r->p->memory_count ? 0
                                  : r->p->memories[m].capacity_bytes
                                      ? r->p->memories[m].capacity_bytes
                                      : UINT64_MAX;
        if (bytes > capacity || bytes > left) {
            return hri_prose_set(
                r->why, HR_E_INVALID,
                "memory %u is used up to byte %llu, but has %llu; all memories together use %llu",
                m + 1, (unsigned long long)bytes, (unsigned long long)capacity,
                (unsigned long long)r->plan->other_bytes);
        }
        left -= bytes;
    }
    return left ? hri_prose_set(r->why, HR_E_INVALID,
                                "%llu bytes outside the arena belong to no "
                                "memory",
                                (unsigned long long)left)
                : HR_OK;
}

/* What is there before step 0: one buffer for each input and each persistent value. */
static hr_status check_start(replay *r) {
    uint8_t *seen = hri_calloc((size_t)r->p->value_count + 1, 1);
    hr_status status = seen ? HR_OK : HR_E_NOMEM_HOST;
    for (uint32_t b = 0; b < r->plan->buffer_count && status == HR_OK; b++) {
        const hri_plan_buffer *x = &r->plan->buffers[b];
        const uint32_t v = x->value;
        r->holds[b] = HRI_PROBLEM_NONE;
        if (v == HRI_PROBLEM_NONE || x->birth != 0 || x->memory ||
            r->p->values[v].role == HRI_ROLE_MADE) {
            continue;
        }
        if (seen[v] || x->bytes < r->p->values[v].bytes) {
            status = hri_prose_set(r->why, HR_E_INVALID,
                                   "%s is placed twice or its buffer is too "
                                   "small",
                                   r->p->values[v].name);
        }
        seen[v] = 1;
        r->holds[b] = v;
    }
    for (uint32_t v = 0; v < r->p->value_count && status == HR_OK; v++) {
        if (r->p->values[v].role != HRI_ROLE_MADE && !seen[v]) {
            status = hri_prose_set(r->why, HR_E_INVALID, "%s has no buffer", r->p->values[v].name);
        }
    }
    hri_free(seen);
    return status;
}

/* ---- no two live buffers overlap ---- */

typedef struct moment {
    uint32_t step, buffer;
    uint8_t birth;
} moment;

static int by_moment(const void *a, const void *b) {
    const moment *x = a, *y = b;
    if (x->step != y->step) {
        return x->step < y->step ? -1 : 1;
    }
    if (x->birth != y->birth) {
        return x->birth ? 1 : -1; /* the dead make room first */
    }
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

typedef struct live_list {
    const hri_plan_buffer *buffers;
    uint32_t *items; /* live buffers of at least a byte, by offset */
    uint32_t count;
} live_list;

/* The first place whose buffer begins at or after `offset`. */
static uint32_t place_of(const live_list *l, uint64_t offset) {
    uint32_t low = 0, high = l->count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (l->buffers[l->items[middle]].offset < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static hr_status enter(const replay *r, live_list *l, uint32_t b) {
    const hri_plan_buffer *x = &l->buffers[b];
    const uint32_t at = place_of(l, x->offset);
    uint32_t other = HRI_PROBLEM_NONE;
    if (at < l->count && l->buffers[l->items[at]].offset < x->offset + x->bytes) {
        other = l->items[at];
    } else if (at > 0 && l->buffers[l->items[at - 1]].offset + l->buffers[l->items[at - 1]].bytes >
                             x->offset) {
        other = l->items[at - 1];
    }
    if (other != HRI_PROBLEM_NONE) {
        return hri_prose_set(
            r->why, HR_E_INVALID,
            "buffers %u and %u overlap at step %u: [%llu, +%llu) and [%llu, +%llu)", other, b,
            x->birth, (unsigned long long)l->buffers[other].offset,
            (unsigned long long)l->buffers[other].bytes, (unsigned long long)x->offset,
            (unsigned long long)x->bytes);
    }
    memmove(l->items + at + 1, l->items + at, (l->count - at) * sizeof *l->items);
    l->items[at] = b;
    l->count++;
    return HR_OK;
}

static void leave(live_list *l, uint32_t b) {
    uint32_t at = place_of(l, l->buffers[b].offset);
    while (at < l->count && l->items[at] != b) {
        at++;
    }
    if (at < l->count) {
        memmove(l->items + at, l->items + at + 1, (l->count - at - 1) * sizeof *l->items);
        l->count--;
    }
}

/* In one of the memories; gives the most bytes alive at one step. */
static hr_status check_overlaps(const replay *r, uint32_t memory, uint64_t *most) {
    const hri_plan *plan = r->plan;
    moment *moments = hri_malloc(((size_t)plan->buffer_count * 2 + 1) * sizeof *moments);
    live_list l = {plan->buffers, hri_malloc(((size_t)plan->buffer_count + 1) * sizeof *l.items),
                   0};
    hr_status status = moments && l.items ? HR_OK : HR_E_NOMEM_HOST;
    size_t count = 0;
    uint64_t live = 0;
    *most = 0;
    for (uint32_t b = 0; b < plan->buffer_count && status == HR_OK; b++) {
        if (plan->buffers[b].memory == memory && plan->buffers[b].bytes) {
            moments[count++] = (moment){plan->buffers[b].birth, b, 1};
            moments[count++] = (moment){plan->buffers[b].death, b, 0};
        }
    }
    if (status == HR_OK) {
        qsort(moments, count, sizeof *moments, by_moment);
    }
    for (size_t i = 0; i < count && status == HR_OK; i++) {
        const hri_plan_buffer *x = &plan->buffers[moments[i].buffer];
        if (moments[i].birth) {
            status = enter(r, &l, moments[i].buffer);
            live += x->bytes;
            *most = live > *most ? live : *most;
        } else {
            leave(&l, moments[i].buffer);
            live -= x->bytes;
        }
    }
    hri_free(moments);
    hri_free(l.items);
    return status;
}

/* ---- the replay ---- */

/* Operand i of a step: a buffer that lives now, in the arena, or away from it. */
static hr_status operand(const replay *r, uint32_t step, uint32_t i, int away, uint32_t *out) {
    const uint32_t b = r->plan->operands[r->plan->steps[step].first + i];
    if (b >= r->plan->buffer_count) {
        return wrong(r, step, "an operand has no buffer", HRI_PROBLEM_NONE);
    }
    const hri_plan_buffer *x = &r->plan->buffers[b];
    if ((x->memory != 0) != away || step < x->birth || step >= x->death) {
        return wrong(r, step, "an operand is in a buffer that is not live at this step", x->value);
    }
    *out = b;
    return HR_OK;
}

static hr_status check_reads(const replay *r, uint32_t step, const hri_problem_op *op) {
    for (uint32_t i = 0; i < op->in_count; i++) {
        uint32_t b;
        const hr_status status = operand(r, step, i, 0, &b);
        if (status != HR_OK) {
            return status;
        }
        if (r->holds[b] != op->in[i] || r->writing[b]) {
            return wrong(r, step, "the buffer it reads does not hold this value", op->in[i]);
        }
    }
    return HR_OK;
}

/* May output k be written to buffer b, looking at every input of this step that lies there? */
static hr_status check_target(const replay *r, uint32_t step, const hri_problem_op *op, uint32_t k,
                              uint32_t b) {
    const hri_problem_output *out = &op->out[k];
    const uint32_t *in = r->plan->operands + r->plan->steps[step].first;
    if (r->plan->buffers[b].bytes < r->p->values[out->value].bytes || r->reading[b] ||
        r->writing[b]) {
        return wrong(r, step, "an output buffer is too small or in use by a copy", out->value);
    }
    if (out->updates) {
        return in[out->updates - 1] == b
                   ? HR_OK
                   : wrong(r, step, "an updated value is not in the buffer of the old one",
                           out->value);
    }
    if (lies_at_bottom(r->p, r->plan->buffers[b].value)) {
        return wrong(r, step, "it overwrites a persistent value", out->value);
    }
    for (uint32_t i = 0; i < op->in_count; i++) {
        if (in[i] == b && (i >= HRI_PROBLEM_OVERWRITE_MAX || !(out->overwrite >> i & 1))) {
            return wrong(r, step, "an output overwrites an input that it must not", out->value);
        }
    }
    for (uint32_t j = 0; j < k; j++) {
        if (in[op->in_count + j] == b) {
            return wrong(r, step, "two outputs share a buffer", out->value);
        }
    }
    return HR_OK;
}

static hr_status check_workspace(const replay *r, uint32_t step, const hri_problem_op *op) {
    const hri_problem_variant *variant = &op->variants[r->plan->steps[step].variant];
    const uint32_t *list = r->plan->operands + r->plan->steps[step].first;
    const uint32_t at = op->in_count + op->out_count;
    uint32_t b;
    if (list[at] == HRI_PROBLEM_NONE) {
        return variant->workspace_bytes
                   ? wrong(r, step, "the workspace is missing", HRI_PROBLEM_NONE)
                   : HR_OK;
    }
    const hr_status status = operand(r, step, at, 0, &b);
    if (status != HR_OK) {
        return status;
    }
    int taken = r->plan->buffers[b].bytes < variant->workspace_bytes || r->reading[b] ||
                r->writing[b] || lies_at_bottom(r->p, r->plan->buffers[b].value);
    for (uint32_t i = 0; i < at; i++) {
        taken |= list[i] == b;
    }
    if (taken) {
        return wrong(r, step, "the workspace is too small or overlaps another buffer",
                     HRI_PROBLEM_NONE);
    }
    r->holds[b] = HRI_PROBLEM_NONE;
    return HR_OK;
}

static hr_status replay_run(replay *r, uint32_t step) {
    const hri_plan_step *s = &r->plan->steps[step];
    if (s->op >= r->p->op_count || s->variant >= r->p->ops[s->op].variant_count) {
        return wrong(r, step, "no such op or variant", HRI_PROBLEM_NONE);
    }
    const hri_problem_op *op = &r->p->ops[s->op];
    const uint64_t last = (uint64_t)s->first + op->in_count + op->out_count + 1;
    if (last > r->plan->operand_count) {
        return wrong(r, step, "operands are missing", HRI_PROBLEM_NONE);
    }
    if ((r->ran[s->op] != 0) != (s->again != 0) || (op->once && s->again)) {
        return wrong(r, step, "it is recomputed, but must not be or is not marked so",
                     HRI_PROBLEM_NONE);
    }
    hr_status status = check_reads(r, step, op);
    for (uint32_t k = 0; k < op->out_count && status == HR_OK; k++) {
        uint32_t b;
        status = operand(r, step, op->in_count + k, 0, &b);
        if (status == HR_OK) {
            status = check_target(r, step, op, k, b);
        }
    }
    if (status == HR_OK) {
        status = check_workspace(r, step, op);
    }
    for (uint32_t k = 0; k < op->out_count && status == HR_OK; k++) {
        r->holds[r->plan->operands[s->first + op->in_count + k]] = op->out[k].value;
    }
    r->ran[s->op] = 1;
    return status;
}

/* An exchange goes on from here to its wait: what it reads stays as it is, what it writes is nobody's. */
static hr_status replay_net(replay *r, uint32_t step) {
    const hr_status status = replay_run(r, step);
    if (status != HR_OK) {
        return status;
    }
    const hri_plan_step *s = &r->plan->steps[step];
    const hri_problem_op *op = &r->p->ops[s->op];
    const uint32_t *list = r->plan->operands + s->first;
    if (!op->net) {
        return wrong(r, step, "it exchanges nothing", HRI_PROBLEM_NONE);
    }
    for (uint32_t i = 0; i < op->in_count; i++) {
        r->reading[list[i]]++;
    }
    for (uint32_t k = op->in_count; k <= op->in_count + op->out_count; k++) {
        if (list[k] != HRI_PROBLEM_NONE) {
            r->holds[list[k]] = HRI_PROBLEM_NONE;
            r->writing[list[k]] = 1;
        }
    }
    r->pending[step] = 1;
    r->in_copy[step] = op->out_count ? op->out[0].value : HRI_PROBLEM_NONE;
    return HR_OK;
}

/* All that the exchange works on was there until now. */
static hr_status end_net(replay *r, uint32_t step, uint32_t net) {
    const hri_plan_step *s = &r->plan->steps[net];
    const hri_problem_op *op = &r->p->ops[s->op];
    const uint32_t *list = r->plan->operands + s->first;
    for (uint32_t i = 0; i <= op->in_count + op->out_count; i++) {
        if (list[i] == HRI_PROBLEM_NONE) {
            continue;
        }
        const hri_plan_buffer *x = &r->plan->buffers[list[i]];
        if (step < x->birth || step >= x->death) {
            return wrong(r, step, "memory of an exchange was reused before the wait", x->value);
        }
        if (i < op->in_count) {
            r->reading[list[i]]--;
        } else {
            r->writing[list[i]] = 0;
        }
    }
    for (uint32_t k = 0; k < op->out_count; k++) {
        r->holds[list[op->in_count + k]] = op->out[k].value;
    }
    r->pending[net] = 0;
    return HR_OK;
}

static hr_status replay_copy(replay *r, uint32_t step) {
    const hri_plan_step *s = &r->plan->steps[step];
    const int from_other = s->kind == HRI_STEP_IN;
    uint32_t from, to;
    if ((uint64_t)s->first + 2 > r->plan->operand_count) {
        return wrong(r, step, "operands are missing", HRI_PROBLEM_NONE);
    }
    hr_status status = operand(r, step, 0, from_other, &from);
    if (status == HR_OK) {
        status = operand(r, step, 1, !from_other, &to);
    }
    if (status != HR_OK) {
        return status;
    }
    const uint32_t v = r->holds[from];
    if (v == HRI_PROBLEM_NONE || r->writing[from]) {
        return wrong(r, step, "the value to copy does not exist yet", HRI_PROBLEM_NONE);
    }
    if (r->reading[to] || r->writing[to] || r->plan->buffers[to].bytes < r->p->values[v].bytes ||
        lies_at_bottom(r->p, r->plan->buffers[to].value)) {
        return wrong(r, step, "the target of the copy is in use or too small", v);
    }
    r->reading[from]++;
    r->writing[to] = 1;
    r->holds[to] = HRI_PROBLEM_NONE;
    r->pending[step] = 1;
    r->in_copy[step] = v;
    return HR_OK;
}

static hr_status replay_wait(replay *r, uint32_t step) {
    const uint32_t copy = r->plan->steps[step].op;
    if (copy >= step || !r->pending[copy]) {
        return wrong(r, step, "it waits for a copy that is not under way", HRI_PROBLEM_NONE);
    }
    if (r->plan->steps[copy].kind == HRI_STEP_NET) {
        return end_net(r, step, copy);
    }
    const uint32_t *list = r->plan->operands + r->plan->steps[copy].first;
    for (int i = 0; i < 2; i++) {
        const hri_plan_buffer *x = &r->plan->buffers[list[i]];
        if (step < x->birth || step >= x->death) {
            return wrong(r, step, "memory of a copy was reused before the wait", r->in_copy[copy]);
        }
    }
    r->reading[list[0]]--;
    r->writing[list[1]] = 0;
    r->holds[list[1]] = r->in_copy[copy];
    r->pending[copy] = 0;
    return HR_OK;
}

static hr_status replay_steps(replay *r) {
    hr_status status = HR_OK;
    for (uint32_t s = 0; s < r->plan->step_count && status == HR_OK; s++) {
        switch (r->plan->steps[s].kind) {
        case HRI_STEP_RUN:
            status = replay_run(r, s);
            break;
        case HRI_STEP_OUT:
        case HRI_STEP_IN:
            status = replay_copy(r, s);
            break;
        case HRI_STEP_WAIT:
            status = replay_wait(r, s);
            break;
        case HRI_STEP_NET:
            status = replay_net(r, s);
            break;
        default:
            status = wrong(r, s, "unknown kind of step", HRI_PROBLEM_NONE);
        }
    }
    return status;
}

static hr_status check_end(const replay *r) {
    uint8_t *there = hri_calloc((size_t)r->p->value_count + 1, 1);
    hr_status status = there ? HR_OK : HR_E_NOMEM_HOST;
    for (uint32_t s = 0; s < r->plan->step_count && status == HR_OK; s++) {
        status = r->pending[s] ? wrong(r, s, "nothing waits for it", r->in_copy[s]) : HR_OK;
    }
    for (uint32_t n = 0; n < r->p->op_count && status == HR_OK; n++) {
        if (!r->ran[n]) {
            status =
                hri_prose_set(r->why, HR_E_INVALID, "op %u (%s) never runs", n, r->p->ops[n].name);
        }
    }
    for (uint32_t b = 0; b < r->plan->buffer_count && status == HR_OK; b++) {
        const hri_plan_buffer *x = &r->plan->buffers[b];
        if (x->death == r->plan->step_count && !x->memory && r->holds[b] != HRI_PROBLEM_NONE) {
            there[r->holds[b]] = 1;
        }
    }
    for (uint32_t v = 0; v < r->p->value_count && status == HR_OK; v++) {
        if (r->p->values[v].result && !there[v]) {
            status = hri_prose_set(r->why, HR_E_INVALID,
                                   "the result %s is not available at the "
                                   "end",
                                   r->p->values[v].name);
        }
    }
    hri_free(there);
    return status;
}

/* Every exchange, again where it is made again, by its op and its bytes. */
static hr_status check_net(const replay *r) {
    const uint64_t factor = ((uint64_t)1 << 40) + 0x1b3;
    uint64_t seen = 0;
    for (uint32_t s = 0; s < r->plan->step_count; s++) {
        const hri_plan_step *step = &r->plan->steps[s];
        if ((step->kind == HRI_STEP_RUN || step->kind == HRI_STEP_NET) && r->p->ops[step->op].net) {
            seen = ((seen ^ ((uint64_t)step->op + 1)) * factor ^ r->p->ops[step->op].wire_bytes) *
                   factor;
        }
    }
    return seen == r->plan->net_hash
               ? HR_OK
               : hri_prose_set(r->why, HR_E_INVALID,
                               "what ranks exchange is not what the plan says, or in another "
                               "order");
}

static hr_status check_all(replay *r, uint64_t budget_bytes) {
    const hri_plan *plan = r->plan;
    hr_status status = HR_OK;
    if (plan->problem_hash != r->p->hash) {
        return hri_prose_set(r->why, HR_E_INVALID, "the plan was made for another problem");
    }
    if (plan->arena_bytes > budget_bytes || plan->persistent_bytes > plan->arena_bytes) {
        return hri_prose_set(
            r->why, HR_E_INVALID, "the arena of %llu bytes exceeds the budget of %llu",
            (unsigned long long)plan->arena_bytes, (unsigned long long)budget_bytes);
    }
    status = check_memories(r);
    for (uint32_t b = 0; b < plan->buffer_count && status == HR_OK; b++) {
        status = check_buffer(r, b);
    }
    for (uint32_t memory = 0; memory <= r->p->memory_count && status == HR_OK; memory++) {
        uint64_t most = 0;
        status = check_overlaps(r, memory, &most);
        if (status == HR_OK && !memory && most > plan->live_bytes) {
            status = hri_prose_set(r->why, HR_E_INVALID, "the live peak is %llu bytes, not %llu",
                                   (unsigned long long)most, (unsigned long long)plan->live_bytes);
        }
    }
    if (status == HR_OK) {
        status = check_start(r);
    }
    if (status == HR_OK) {
        status = replay_steps(r);
    }
    if (status == HR_OK) {
        status = check_net(r);
    }
    return status == HR_OK ? check_end(r) : status;
}

hr_status hri_plan_check(const hri_problem *p, const hri_plan *plan, uint64_t budget_bytes,
                         hri_prose *why) {
    replay r = {.p = p, .plan = plan, .why = why};
    const size_t buffers = (size_t)plan->buffer_count + 1, steps = (size_t)plan->step_count + 1;
    r.holds = hri_malloc(buffers * sizeof *r.holds);
    r.reading = hri_calloc(buffers, sizeof *r.reading);
    r.writing = hri_calloc(buffers, 1);
    r.pending = hri_calloc(steps, 1);
    r.in_copy = hri_calloc(steps, sizeof *r.in_copy);
    r.ran = hri_calloc((size_t)p->op_count + 1, 1);
    hr_status status = HR_E_NOMEM_HOST;
    if (r.holds && r.reading && r.writing && r.pending && r.in_copy && r.ran) {
        status = check_all(&r, budget_bytes);
    }
    hri_free(r.holds);
    hri_free(r.reading);
    hri_free(r.writing);
    hri_free(r.pending);
    hri_free(r.in_copy);
    hri_free(r.ran);
    return status;
}

hr_status hri_plan_check_other(const hri_plan *plan, uint64_t other_budget_bytes, hri_prose *why) {
    for (uint32_t b = 0; b < plan->buffer_count; b++) {
        const hri_plan_buffer *x = &plan->buffers[b];
        if (x->memory == 1 && x->bytes &&
            (x->bytes > other_budget_bytes || x->offset > other_budget_bytes - x->bytes)) {
            return hri_prose_set(
                why, HR_E_INVALID,
                "buffer %u ends at byte %llu of the offload memory, whose budget is %llu", b,
                (unsigned long long)(x->offset + x->bytes), (unsigned long long)other_budget_bytes);
        }
    }
    if (plan->memory_bytes[0] > other_budget_bytes) {
        return hri_prose_set(why, HR_E_INVALID,
                             "%llu bytes of offload memory exceed the %llu "
                             "allowed",
                             (unsigned long long)plan->memory_bytes[0],
                             (unsigned long long)other_budget_bytes);
    }
    return HR_OK;
}
