/* Room for what is written while the op before still reads: see hri_place_apart in place.h.
 *
 * An op that is one launch with the one before it, or with the two before it (`after` and `third` of problem.h), may have to write
 * apart from what those touch (`apart`): the sum of a gradient's rows, and its work space, are written while other rows are still to come.  The packer
 * knows nothing of launches, and likes to put them where an input has just died.  They are small, so there is nearly always
 * another place that is free from the first of these steps on; where there is none, it is a launch of its own. */
#include "plan/place.h"

static int overlap(const hri_plan_buffer *a, const hri_plan_buffer *b) {
    return a->memory == b->memory && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* The buffer in the way of `x` in its place, if it were there from its birth on; NULL: there is none. */
static const hri_plan_buffer *in_the_way(const hri_plan *plan, const hri_plan_buffer *x,
                                         uint32_t self) {
    for (uint32_t b = 0; b < plan->buffer_count; b++) {
        const hri_plan_buffer *y = &plan->buffers[b];
        if (b != self && y->birth < x->death && x->birth < y->death && overlap(x, y)) {
            return y;
        }
    }
    return NULL;
}

/* Moves the buffer to a place that is free from step `since` on, the lowest; it stays where there is none. */
static void move(hri_plan *plan, uint32_t self, uint32_t since) {
    hri_plan_buffer x = plan->buffers[self];
    const hri_plan_buffer *y;
    x.birth = since;
    x.offset = plan->persistent_bytes;
    while ((y = in_the_way(plan, &x, self)) && x.offset + x.bytes <= plan->arena_bytes) {
        x.offset = y->offset + y->bytes;
    }
    if (!y && x.offset + x.bytes <= plan->arena_bytes) {
        plan->buffers[self].offset = x.offset;
    }
}

/* Is the buffer over something that the step uses? */
static int is_over(const hri_problem *p, const hri_plan *plan, const hri_plan_buffer *x,
                   const hri_plan_step *s) {
    const hri_problem_op *op = &p->ops[s->op];
    int over = 0;
    for (uint32_t i = 0; i < op->in_count + op->out_count + 1; i++) {
        const uint32_t b = plan->operands[s->first + i];
        over |= b != HRI_PROBLEM_NONE && overlap(x, &plan->buffers[b]);
    }
    return over;
}

void hri_place_apart(const hri_problem *p, hri_plan *plan) {
    uint32_t last = HRI_PROBLEM_NONE, before = HRI_PROBLEM_NONE; /* steps that ran something */
    for (uint32_t t = 0; t < plan->step_count; t++) {
        const hri_plan_step *s = &plan->steps[t];
        if (s->kind != HRI_STEP_RUN) {
            continue;
        }
        const hri_problem_op *op = &p->ops[s->op];
        const uint32_t first = op->third ? before : last; /* in one launch */
        const int goes =
            op->apart && first != HRI_PROBLEM_NONE && plan->steps[last].op + 1 == op->after &&
            (first == last || plan->steps[first].op + 1 == p->ops[op->after - 1].after);
        for (uint32_t k = 0; goes && k < op->out_count + 1; k++) {
            const uint32_t b = plan->operands[s->first + op->in_count + k];
            if (b != HRI_PROBLEM_NONE && plan->buffers[b].birth == t && plan->buffers[b].bytes &&
                (is_over(p, plan, &plan->buffers[b], &plan->steps[last]) ||
                 is_over(p, plan, &plan->buffers[b], &plan->steps[first]))) {
                move(plan, b, first);
            }
        }
        before = last;
        last = t;
    }
}
