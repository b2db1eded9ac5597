/* The time bound.
 *
 * Look at the moment when the first backward op B runs for the first time.  Everything B depends on has been made by
 * then.  Of these values, those that are read by ops that depend on B are needed again: each is either in memory at
 * that moment, or copied back in later, or its op runs again.  What is in memory is bounded by the budget.  What is to be
 * copied back must have left before B runs, so it is bounded by bandwidth times the time that a step has before B: all of
 * it less what depends on B.  So the ops with the least time per byte are paid for, and a fractional knapsack says how
 * much at least.  An op with several needed outputs counts once, for all their bytes.
 *
 * Where nothing is computed during copies, copying back is one more way to pay, at the price of the copies. */
#include "plan/bound.h"

#include <stdlib.h>

#include "base/alloc.h"

typedef struct thing {
    double time, bytes;
    uint32_t op;
} thing;

/* Computing; what is exchanged with other ranks may go on beside it. */
static double fastest_alone(const hri_problem_op *op) {
    double least = op->net ? 0 : op->variants[0].time_ns;
    for (uint32_t i = 1; i < op->variant_count && !op->net; i++) {
        least = op->variants[i].time_ns < least ? op->variants[i].time_ns : least;
    }
    return least;
}

/* With what it does together with the op before it. */
static double fastest(const hri_problem *p, uint32_t n) {
    const uint32_t maker = hri_problem_joined(p, n);
    const double alone = fastest_alone(&p->ops[n]);
    const double saved = maker == HRI_PROBLEM_NONE
                             ? 0
                             : hri_problem_joined_ns(p, n, alone, fastest_alone(&p->ops[maker]));
    return alone - saved;
}

/* The least that it takes to run op n again. */
static double fastest_again(const hri_problem *p, uint32_t n) {
    const double least = fastest(p, n) - hri_problem_beside_share(p, n) * fastest_alone(&p->ops[n]);
    return least > 0 ? least : 0;
}

static double compute_time(const hri_problem *p) {
    double time = 0;
    for (uint32_t n = 0; n < p->op_count; n++) {
        time += fastest(p, n);
    }
    return time;
}

static double wire_time(const hri_problem *p) {
    double time = 0;
    for (uint32_t n = 0; n < p->op_count; n++) {
        time += p->ops[n].net ? p->ops[n].variants[0].time_ns : 0;
    }
    return time;
}

double hri_base_time(const hri_problem *p) {
    const double compute = compute_time(p), wire = wire_time(p);
    return compute > wire ? compute : wire;
}

/* Dear by the byte first. */
static int by_density(const void *a, const void *b) {
    const thing *x = a, *y = b;
    const double left = x->time * y->bytes, right = y->time * x->bytes;
    if (left != right) {
        return left > right ? -1 : 1;
    }
    return x->op < y->op ? -1 : x->op > y->op;
}

static void mark(const hri_problem *p, uint32_t b, uint8_t *before, uint8_t *after) {
    before[b] = after[b] = 1;
    for (uint32_t n = b + 1; n-- > 0;) {
        for (uint32_t i = 0; before[n] && i < p->ops[n].in_count; i++) {
            const uint32_t producer = p->values[p->ops[n].in[i]].producer;
            if (producer != HRI_PROBLEM_NONE) {
                before[producer] = 1;
            }
        }
    }
    for (uint32_t n = b + 1; n < p->op_count; n++) {
        for (uint32_t i = 0; i < p->ops[n].in_count; i++) {
            const uint32_t producer = p->values[p->ops[n].in[i]].producer;
            after[n] |= producer != HRI_PROBLEM_NONE && after[producer];
        }
    }
}

/* Bytes of op n's outputs that ops after B read. */
static double needed_bytes(const hri_problem *p, uint32_t n, const uint8_t *after) {
    double bytes = 0;
    for (uint32_t k = 0; k < p->ops[n].out_count; k++) {
        const hri_problem_value *value = &p->values[p->ops[n].out[k].value];
        int needed = 0;
        for (uint32_t i = 0; i < value->use_count; i++) {
            needed |= after[p->uses[value->use_first + i]];
        }
        bytes += needed && value->root == p->ops[n].out[k].value ? (double)value->room_bytes : 0;
    }
    return bytes;
}

/* The most time that a step of time_ns has before B runs. */
static double time_before(const hri_problem *p, uint32_t b, const uint8_t *after, double time_ns) {
    for (uint32_t n = b; n < p->op_count; n++) {
        time_ns -= after[n] ? fastest(p, n) : 0;
    }
    return time_ns > 0 ? time_ns : 0;
}

hr_status hri_bound_time(const hri_problem *p, uint64_t budget_bytes, double time_ns, double *out) {
    double copy_ns = 0, out_bytes_per_ns = 0; /* of the fastest memory; of all together */
    for (uint32_t m = 0; m < p->memory_count; m++) {
        const hri_problem_memory *x = &p->memories[m];
        const double both = 1 / x->out_bytes_per_ns + 1 / x->in_bytes_per_ns;
        copy_ns = m == 0 || both < copy_ns ? both : copy_ns;
        out_bytes_per_ns += x->out_bytes_per_ns;
    }
    uint32_t b = 0;
    while (b < p->op_count && p->ops[b].phase != HRI_PROBLEM_BACKWARD) {
        b++;
    }
    const double wire = wire_time(p);
    *out = compute_time(p);
    if (b == p->op_count || budget_bytes == 0) {
        *out = *out > wire ? *out : wire;
        return HR_OK;
    }
    uint8_t *before = hri_calloc(p->op_count, 1), *after = hri_calloc(p->op_count, 1);
    thing *things = hri_malloc(((size_t)p->op_count + 1) * sizeof *things);
    hr_status status = before && after && things ? HR_OK : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        size_t count = 0;
        mark(p, b, before, after);
        for (uint32_t n = 0; n < b; n++) {
            const double bytes = before[n] ? needed_bytes(p, n, after) : 0;
            if (bytes > 0) {
                things[count++] = (thing){fastest_again(p, n), bytes, n};
            }
        }
        for (size_t i = 0; i < count && p->copies_block && copy_ns > 0; i++) {
            const double copy = things[i].bytes * copy_ns;
            things[i].time = copy < things[i].time ? copy : things[i].time;
        }
        qsort(things, count, sizeof *things, by_density);
        double room =
            budget_bytes > p->persistent_bytes ? (double)(budget_bytes - p->persistent_bytes) : 0;
        room += p->copies_block ? 0 : out_bytes_per_ns * time_before(p, b, after, time_ns);
        for (size_t i = 0; i < count; i++) {
            const double kept = things[i].bytes < room ? things[i].bytes : room;
            room -= kept;
            *out += things[i].time * (1 - kept / things[i].bytes);
        }
        *out = *out > wire ? *out : wire;
    }
    hri_free(before);
    hri_free(after);
    hri_free(things);
    return status;
}
