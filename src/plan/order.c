/* List scheduling over the dependences: reads after writes, and updates after every reader of the old version. */
#include "plan/order.h"

#include <string.h>

#include "base/alloc.h"

enum {
    WINDOW = 12,   /* ready ops looked at by the FREEING rule */
    TINY = 8192,   /* bytes; hundreds of them are no more than one page of a device */
    SUM_PART = 256 /* what is no more than this part of what it is made of is a sum of it */
};

typedef struct lister {
    const hri_problem *p;
    uint32_t *waits;   /* by op: things not done yet that it needs */
    uint32_t *readers; /* by value: readers not run yet */
    uint8_t *done;
    uint32_t *order;
    uint32_t count;
    /* NET alone: when each op's inputs have arrived, and the times so far. */
    double *arrives, clock, wire;
    uint32_t *late, late_count; /* ops that can run as soon as that is over */
    /* BESIDE alone: by op, the op that it waits for, + 1; 0: none. */
    uint32_t *held;
} lister;

static int lies_fixed(const hri_problem *p, uint32_t v) {
    const uint8_t role = p->values[p->values[v].root].role;
    return role == HRI_ROLE_PERSISTENT || role == HRI_ROLE_CONSTANT;
}

/* What op n waits for: makers of its inputs, and the readers of what it overwrites. */
static void count_waits(lister *l) {
    const hri_problem *p = l->p;
    for (uint32_t v = 0; v < p->value_count; v++) {
        const hri_problem_value *value = &p->values[v];
        l->readers[v] = value->use_count;
        if (value->producer != HRI_PROBLEM_NONE) {
            for (uint32_t i = 0; i < value->use_count; i++) {
                l->waits[p->uses[value->use_first + i]]++;
            }
        }
        if (value->updater != HRI_PROBLEM_NONE) {
            l->waits[value->updater] += value->use_count - 1; /* it reads the value itself */
        }
    }
}

static void run(lister *l, uint32_t n) {
    const hri_problem *p = l->p;
    const hri_problem_op *op = &p->ops[n];
    l->order[l->count++] = n;
    l->done[n] = 1;
    for (uint32_t k = 0; k < op->out_count; k++) {
        const hri_problem_value *value = &p->values[op->out[k].value];
        for (uint32_t i = 0; i < value->use_count; i++) {
            l->waits[p->uses[value->use_first + i]]--;
        }
    }
    for (uint32_t i = 0; i < op->in_count; i++) {
        int seen = 0;
        for (uint32_t j = 0; j < i; j++) {
            seen |= op->in[j] == op->in[i];
        }
        if (!seen) {
            const hri_problem_value *value = &p->values[op->in[i]];
            l->readers[op->in[i]]--;
            if (value->updater != HRI_PROBLEM_NONE && value->updater != n) {
                l->waits[value->updater]--;
            }
        }
    }
}

/* Writes into memory that is there anyway, or makes next to nothing. */
static int costs_nothing(const lister *l, uint32_t n) {
    const hri_problem_op *op = &l->p->ops[n];
    uint64_t made = 0;
    for (uint32_t k = 0; k < op->out_count; k++) {
        made += lies_fixed(l->p, op->out[k].value) ? 0 : l->p->values[op->out[k].value].bytes;
    }
    return op->out_count > 0 && made <= 64;
}

/* Bytes alive afterwards less those before. */
static double net_bytes(const lister *l, uint32_t n) {
    const hri_problem_op *op = &l->p->ops[n];
    double net = 0;
    for (uint32_t k = 0; k < op->out_count; k++) {
        const hri_problem_value *value = &l->p->values[op->out[k].value];
        const int stays = value->use_count > 0 || value->result;
        net += lies_fixed(l->p, op->out[k].value) || !stays ? 0 : (double)value->room_bytes;
    }
    for (uint32_t i = 0; i < op->in_count; i++) {
        const hri_problem_value *value = &l->p->values[op->in[i]];
        int seen = lies_fixed(l->p, op->in[i]) || value->result;
        for (uint32_t j = 0; j < i && !seen; j++) {
            seen = op->in[j] == op->in[i];
        }
        net -= !seen && l->readers[op->in[i]] == 1 ? (double)value->room_bytes : 0;
    }
    return net;
}

/* Runs every ready op that costs nothing.  Looks only at what the last op may have made ready. */
static void run_free_ones(lister *l, uint32_t from) {
    for (uint32_t at = from; at < l->count; at++) {
        const hri_problem_op *op = &l->p->ops[l->order[at]];
        for (uint32_t side = 0; side < 2; side++) {
            const uint32_t count = side ? op->in_count : op->out_count;
            for (uint32_t i = 0; i < count; i++) {
                const hri_problem_value *value = &l->p->values[side ? op->in[i] : op->out[i].value];
                for (uint32_t u = 0; u <= value->use_count; u++) {
                    const uint32_t n =
                        u < value->use_count ? l->p->uses[value->use_first + u] : value->updater;
                    if (n != HRI_PROBLEM_NONE && !l->done[n] && l->waits[n] == 0 &&
                        costs_nothing(l, n)) {
                        run(l, n);
                    }
                }
            }
        }
    }
}

/* Of the first few ready ops in list order, the one that frees most; ties go to the first. */
static uint32_t choose(const lister *l, uint32_t front) {
    uint32_t best = HRI_PROBLEM_NONE;
    double least = 0;
    for (uint32_t n = front, seen = 0; n < l->p->op_count && seen < WINDOW; n++) {
        seen += !l->done[n];
        if (!l->done[n] && l->waits[n] == 0) {
            const double net = net_bytes(l, n);
            if (best == HRI_PROBLEM_NONE || net < least) {
                best = n;
                least = net;
            }
        }
    }
    return best;
}

/* Puts every op of no urgency (all its inputs live on anyway) just before its first reader. */
static void delay(const hri_problem *p, uint32_t *order, uint32_t *room) {
    uint32_t *at = room, *first = room + p->op_count;
    for (uint32_t t = 0; t < p->op_count; t++) {
        at[order[t]] = t;
    }
    /* From the back: first reader of anything the op makes or, for what it reads, an updater in between. */
    for (uint32_t t = p->op_count; t-- > 0;) {
        const hri_problem_op *op = &p->ops[order[t]];
        uint32_t to = p->op_count;
        int ends = 0;
        for (uint32_t k = 0; k < op->out_count; k++) {
            const hri_problem_value *value = &p->values[op->out[k].value];
            for (uint32_t i = 0; i < value->use_count; i++) {
                const uint32_t u = at[p->uses[value->use_first + i]];
                to = u < to ? u : to;
            }
            ends |= op->out[k].updates != 0;
        }
        for (uint32_t i = 0; i < op->in_count; i++) {
            const hri_problem_value *value = &p->values[op->in[i]];
            uint32_t last = 0;
            for (uint32_t u = 0; u < value->use_count; u++) {
                const uint32_t x = at[p->uses[value->use_first + u]];
                last = x > last ? x : last;
            }
            ends |= last == t && !lies_fixed(p, op->in[i]);
            if (value->updater != HRI_PROBLEM_NONE && value->updater != order[t]) {
                to = at[value->updater] < to ? at[value->updater] : to;
            }
        }
        first[t] = ends || to == p->op_count ? t : to - 1;
        for (uint32_t s = t; s < first[t]; s++) { /* move it behind the ops before its reader */
            const uint32_t n = order[s + 1];
            order[s + 1] = order[s];
            order[s] = n;
            at[n] = s;
            at[order[s + 1]] = s + 1;
        }
    }
}

/* ---- gradients that write again what their op made ---- */

/* Marks what op g needs among the ops from `first` on.  stack has room for all ops. */
static void mark_needed(const hri_problem *p, uint32_t g, uint32_t first, uint8_t *needed,
                        uint32_t *stack) {
    uint32_t count = 0;
    stack[count++] = g;
    while (count) {
        const hri_problem_op *op = &p->ops[stack[--count]];
        for (uint32_t i = 0; i < op->in_count; i++) {
            const uint32_t n = p->values[op->in[i]].producer;
            if (n != HRI_PROBLEM_NONE && n >= first && !needed[n]) {
                needed[n] = 1;
                stack[count++] = n;
            }
        }
    }
}

/* Backward ops that read what op g can write again wait for it, unless it needs them. */
static void hold_for(lister *l, uint32_t g, uint32_t *stack) {
    const hri_problem *p = l->p;
    const uint32_t f = hri_problem_beside(p, g);
    if (f == HRI_PROBLEM_NONE) {
        return;
    }
    const hri_problem_value *value = &p->values[p->ops[f].out[0].value];
    const uint32_t *uses = p->uses + value->use_first;
    uint32_t i = 0;
    while (i < value->use_count && p->ops[uses[i]].phase != HRI_PROBLEM_BACKWARD) {
        i++;
    }
    if (i == value->use_count || uses[i] > g) {
        return; /* they come after it anyway */
    }
    memset(l->done + uses[i], 0, g - uses[i] + 1);
    mark_needed(p, g, uses[i], l->done, stack);
    for (; i < value->use_count; i++) {
        if (uses[i] < g && !l->done[uses[i]]) {
            l->held[uses[i]] = g + 1;
        }
    }
}

static int is_held(const lister *l, uint32_t n) {
    return l->held[n] && !l->done[l->held[n] - 1];
}

/* The first in list order that can run and is not held; when all are, the first. */
static uint32_t next_unheld(const lister *l, uint32_t front) {
    uint32_t held = HRI_PROBLEM_NONE;
    for (uint32_t n = front; n < l->p->op_count; n++) {
        if (l->done[n] || l->waits[n]) {
            continue;
        }
        if (!is_held(l, n)) {
            return n;
        }
        held = held == HRI_PROBLEM_NONE ? n : held;
    }
    return held;
}

/* Sums of what op n made stay next to it: both are one launch. */
static void run_sums(lister *l, uint32_t n) {
    const hri_problem *p = l->p;
    for (uint32_t k = 0; k < p->ops[n].out_count && p->ops[n].beside; k++) {
        const hri_problem_value *value = &p->values[p->ops[n].out[k].value];
        for (uint32_t i = 0; i < value->use_count; i++) {
            const uint32_t m = p->uses[value->use_first + i];
            uint64_t made = 0;
            for (uint32_t j = 0; j < p->ops[m].out_count; j++) {
                made += p->values[p->ops[m].out[j].value].bytes;
            }
            if (!l->done[m] && !l->waits[m] && p->ops[m].in_count == 1 &&
                made <= value->bytes / SUM_PART) {
                run(l, m);
            }
        }
    }
}

static hr_status order_unheld(lister *l, uint32_t *stack) {
    const hri_problem *p = l->p;
    l->held = hri_calloc((size_t)p->op_count + 1, sizeof *l->held);
    if (!l->held) {
        return HR_E_NOMEM_HOST;
    }
    for (uint32_t n = 0; n < p->op_count; n++) {
        hold_for(l, n, stack);
    }
    memset(l->done, 0, p->op_count);
    for (uint32_t front = 0; l->count < p->op_count;) {
        while (l->done[front]) {
            front++;
        }
        const uint32_t n = next_unheld(l, front), from = l->count;
        run(l, n);
        run_sums(l, n);
        run_free_ones(l, from);
    }
    hri_free(l->held);
    return HR_OK;
}

/* ---- beside the wire ---- */

/* Runs an op; of what is exchanged it knows when the readers may run. */
static void run_beside(lister *l, uint32_t n) {
    const hri_problem_op *op = &l->p->ops[n];
    const double time = op->variants[0].time_ns;
    run(l, n);
    if (!op->net) {
        l->clock = (l->arrives[n] > l->clock ? l->arrives[n] : l->clock) + time;
        return;
    }
    const double from = l->arrives[n] > l->clock ? l->arrives[n] : l->clock;
    l->wire = (l->wire > from ? l->wire : from) + time;
    /* What a forward pass gathers is read where it stands: looking further would gather everything. */
    for (uint32_t k = 0; k < op->out_count && op->phase != HRI_PROBLEM_FORWARD; k++) {
        const hri_problem_value *value = &l->p->values[op->out[k].value];
        for (uint32_t i = 0; i < value->use_count; i++) {
            double *at = &l->arrives[l->p->uses[value->use_first + i]];
            *at = l->wire > *at ? l->wire : *at;
        }
    }
}

/* What op n may have made ready: gradients set out at once, what costs nothing runs when its inputs are there. */
static void note_ready(lister *l, uint32_t n) {
    const hri_problem_op *op = &l->p->ops[n];
    for (uint32_t side = 0; side < 2; side++) {
        const uint32_t count = side ? op->in_count : op->out_count;
        for (uint32_t i = 0; i < count; i++) {
            const hri_problem_value *value = &l->p->values[side ? op->in[i] : op->out[i].value];
            for (uint32_t u = 0; u <= value->use_count; u++) {
                const uint32_t m =
                    u < value->use_count ? l->p->uses[value->use_first + u] : value->updater;
                if (m == HRI_PROBLEM_NONE || l->done[m] || l->waits[m] != 0) {
                    continue;
                }
                const int sets_out = l->p->ops[m].net && l->p->ops[m].phase != HRI_PROBLEM_FORWARD;
                if (sets_out || costs_nothing(l, m)) {
                    l->done[m] = 2; /* listed */
                    l->late[l->late_count++] = m;
                }
            }
        }
    }
}

/* Runs what was listed and need not wait any more. */
static void run_late(lister *l) {
    for (uint32_t i = 0; i < l->late_count;) {
        const uint32_t n = l->late[i];
        if (l->arrives[n] > l->clock) {
            i++;
            continue;
        }
        memmove(l->late + i, l->late + i + 1, (l->late_count - i - 1) * sizeof *l->late);
        l->late_count--;
        run_beside(l, n);
        note_ready(l, n);
        i = 0;
    }
}

/* The first op in list order that can run, now or, when there is none, after the shortest wait; NONE: it is a listed one. */
static uint32_t next_beside(const lister *l, uint32_t front) {
    uint32_t best = HRI_PROBLEM_NONE;
    for (uint32_t n = front; n < l->p->op_count; n++) {
        if (l->done[n] || l->waits[n]) {
            continue;
        }
        if (l->arrives[n] <= l->clock) {
            return n;
        }
        best = best == HRI_PROBLEM_NONE || l->arrives[n] < l->arrives[best] ? n : best;
    }
    for (uint32_t i = 0; i < l->late_count && best != HRI_PROBLEM_NONE; i++) {
        best = l->arrives[l->late[i]] <= l->arrives[best] ? HRI_PROBLEM_NONE : best;
    }
    return best;
}

static void order_beside(lister *l) {
    for (uint32_t front = 0; l->count < l->p->op_count;) {
        run_late(l);
        while (front < l->p->op_count && l->done[front]) {
            front++;
        }
        const uint32_t n = next_beside(l, front);
        if (n != HRI_PROBLEM_NONE) {
            run_beside(l, n);
            note_ready(l, n);
        } else if (l->late_count) { /* nothing else is left: wait for the next */
            double first = l->arrives[l->late[0]];
            for (uint32_t i = 1; i < l->late_count; i++) {
                first = l->arrives[l->late[i]] < first ? l->arrives[l->late[i]] : first;
            }
            l->clock = first > l->clock ? first : l->clock;
        }
    }
}

/* ---- tiny copies ---- */

/* Makes next to nothing of what lies there when the step begins: a bias in a smaller type. */
static int is_tiny(const hri_problem *p, uint32_t n) {
    const hri_problem_op *op = &p->ops[n];
    uint64_t made = 0;
    int good = op->phase == HRI_PROBLEM_FORWARD && !op->net && op->in_count > 0;
    for (uint32_t i = 0; i < op->in_count && good; i++) {
        good = lies_fixed(p, op->in[i]) && p->values[op->in[i]].producer == HRI_PROBLEM_NONE;
    }
    for (uint32_t k = 0; k < op->out_count && good; k++) {
        made += p->values[op->out[k].value].bytes;
        good = !op->out[k].updates && made <= TINY;
    }
    return good;
}

hr_status hri_order_lift(const hri_problem *p, uint32_t *order) {
    uint32_t *rest = hri_calloc((size_t)p->op_count + 1, sizeof *rest), tiny = 0, others = 0;
    if (!rest) {
        return HR_E_NOMEM_HOST;
    }
    for (uint32_t t = 0; t < p->op_count; t++) {
        if (is_tiny(p, order[t])) {
            order[tiny++] = order[t];
        } else {
            rest[others++] = order[t];
        }
    }
    memcpy(order + tiny, rest, others * sizeof *rest);
    hri_free(rest);
    return HR_OK;
}

int hri_order_serves(const hri_problem *p, hri_order_rule rule) {
    return rule == HRI_ORDER_NET      ? hri_problem_has_net(p)
           : rule == HRI_ORDER_BESIDE ? hri_problem_has_beside(p)
                                      : 1;
}

hr_status hri_order_make(const hri_problem *p, hri_order_rule rule, uint32_t *order) {
    for (uint32_t n = 0; n < p->op_count; n++) {
        order[n] = n;
    }
    if (rule == HRI_ORDER_GIVEN) {
        return HR_OK;
    }
    lister l = {.p = p, .order = order};
    l.waits = hri_calloc((size_t)p->op_count + 1, sizeof *l.waits);
    l.readers = hri_calloc((size_t)p->value_count + 1, sizeof *l.readers);
    l.done = hri_calloc((size_t)p->op_count + 1, 1);
    uint32_t *scratch = hri_calloc((size_t)p->op_count * 2 + 1, sizeof *scratch);
    hr_status status = l.waits && l.readers && l.done && scratch ? HR_OK : HR_E_NOMEM_HOST;
    if (status == HR_OK && rule == HRI_ORDER_NET) {
        l.arrives = hri_calloc((size_t)p->op_count + 1, sizeof *l.arrives);
        l.late = scratch;
        status = l.arrives ? HR_OK : HR_E_NOMEM_HOST;
        if (status == HR_OK) {
            count_waits(&l);
            order_beside(&l);
        }
    } else if (status == HR_OK && rule == HRI_ORDER_BESIDE) {
        count_waits(&l);
        status = order_unheld(&l, scratch);
    } else if (status == HR_OK) {
        count_waits(&l);
        for (uint32_t front = 0; l.count < p->op_count;) {
            while (l.done[front]) {
                front++;
            }
            const uint32_t n = rule == HRI_ORDER_FREEING ? choose(&l, front) : front;
            const uint32_t from = l.count;
            run(&l, n == HRI_PROBLEM_NONE ? front : n);
            run_free_ones(&l, from);
        }
        if (rule == HRI_ORDER_LATE) {
            delay(p, order, scratch);
        }
    }
    hri_free(l.waits);
    hri_free(l.readers);
    hri_free(l.done);
    hri_free(l.arrives);
    hri_free(scratch);
    return status;
}
