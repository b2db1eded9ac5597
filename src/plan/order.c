/* List scheduling over the dependences: reads after writes, and updates after every reader of the old version. */
#include "plan/order.h"

#include <string.h>

#include "base/alloc.h"

enum { WINDOW = 12 }; /* ready ops looked at by the FREEING rule */

typedef struct lister {
    const hri_problem *p;
    uint32_t *waits;   /* by op: things not done yet that it needs */
    uint32_t *readers; /* by value: readers not run yet */
    uint8_t *done;
    uint32_t *order;
    uint32_t count;
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
    if (status == HR_OK) {
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
    hri_free(scratch);
    return status;
}
