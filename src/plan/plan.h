/* The plan: what runs when, and where each byte lies.
 *
 * A plan is a list of steps and a list of buffers.  A step runs an op (for the first time or again), starts a copy to
 * or from another memory or an exchange with other ranks, or waits for one of these.  A buffer is a range of the arena for a range of steps: it is
 * there from step `birth` on and its bytes are free again from step `death` on.  What a buffer holds changes: an op
 * that works in place reads and writes the same buffer.  Persistent values and constants lie at the bottom of the
 * arena, [0, persistent_bytes), for all steps; inputs are written before step 0.
 *
 * Lifetimes are counted in steps, never in time: a copy's source is free only after the step that waits for the copy.
 * So a plan holds on every machine, however long anything takes.
 *
 * hri_plan_check (plan_check.c) shares no code with the planner and passes every plan before it may run. */
#ifndef HRI_PLAN_PLAN_H
#define HRI_PLAN_PLAN_H

#include "base/hash.h"
#include "plan/problem.h"

/* X(NAME, "name") */
#define HRI_STEP_MAP(X)                                                                            \
    X(RUN, "run")   /* an op */                                                                    \
    X(OUT, "out")   /* start a copy: operand 0 in the arena to operand 1 in another memory */      \
    X(IN, "in")     /* start a copy: operand 0 in another memory to operand 1 in the arena */      \
    X(WAIT, "wait") /* until the copy or exchange that step `op` started is done */                \
    X(NET, "net")   /* start an op that exchanges bytes with other ranks: operands as RUN */

typedef enum hri_step_kind {
#define HRI_STEP_ENUM(NAME, TEXT) HRI_STEP_##NAME,
    HRI_STEP_MAP(HRI_STEP_ENUM)
#undef HRI_STEP_ENUM
        HRI_STEP_KIND_COUNT
} hri_step_kind;

typedef struct hri_plan_step {
    uint8_t kind;  /* hri_step_kind */
    uint8_t again; /* 1: this op has run before */
    uint8_t variant;
    uint32_t op; /* of the problem; WAIT: the step that started what it waits for */
    uint32_t
        first; /* operands[first ..): RUN and NET inputs, outputs, workspace (or NONE); OUT and IN two */
} hri_plan_step;

typedef struct hri_plan_buffer {
    uint64_t offset, bytes; /* multiples of the problem's alignment */
    uint32_t birth, death;  /* steps: birth <= s < death */
    uint32_t value;         /* what it holds first; NONE: workspace */
    uint8_t memory;         /* 0: the arena; m: memory m of the problem, beside it */
} hri_plan_buffer;

/* The choices behind a plan, for the next search to begin with: a way down from a larger budget often goes on further than
 * one from the start.  Zeroed: none.  Of one problem, or of others that differ in times and sizes alone. */
typedef struct hri_plan_memo {
    uint32_t *order;
    uint8_t *gaps, *variant;
    uint32_t op_count, gap_count; /* of the problem */
} hri_plan_memo;

typedef struct hri_plan {
    uint64_t problem_hash;
    hri_plan_step *steps;
    uint32_t *operands; /* buffers */
    hri_plan_buffer *buffers;
    uint32_t step_count, operand_count, buffer_count;

    uint64_t persistent_bytes;                       /* the bottom of the arena */
    uint64_t arena_bytes;                            /* persistent ones included */
    uint64_t other_bytes;                            /* of all memories beside it */
    uint64_t memory_bytes[HRI_PROBLEM_MEMORIES_MAX]; /* of memory 1, 2, ... */
    uint64_t
        live_bytes; /* the most alive at one step, persistent ones included: no packing is lower */
    uint32_t peak_step;   /* where that is */
    uint64_t floor_bytes; /* no plan of this problem has a smaller arena */
    uint32_t floor_op;    /* or NONE */
    uint64_t
        unplanned_bytes;  /* every op once in the given order, everything kept, nothing in place */
    double time_ns;       /* predicted: makespan of compute and copies */
    double base_time_ns;  /* every op once, the fastest way */
    double bound_time_ns; /* no plan within the budget it was made for is faster */
    uint32_t again_count; /* ops run a second time or more often */
    double again_time_ns;
    uint64_t copied_bytes; /* to other memories */
    uint64_t net_hash;     /* of what ranks exchange, in its order (hri_plan_net); 0: nothing */
    const char *packing;   /* what placed it: static text */
    hri_plan_memo choices; /* none in one that was read */
} hri_plan;

void hri_plan_memo_deinit(hri_plan_memo *memo);
/* NULL is allowed. */
void hri_plan_destroy(hri_plan *plan);

/* The proof.  HR_OK, or HR_E_INVALID with a sentence that names step, op and value.  `budget_bytes` bounds the arena.
 * Trusts nothing in the plan; the problem must be finished. */
HR_MUST_CHECK hr_status hri_plan_check(const hri_problem *p, const hri_plan *plan,
                                       uint64_t budget_bytes, hri_prose *why);

/* The proof for the first other memory under a budget of its own, beside the capacities that the problem states: every
 * buffer there lies below so many bytes. */
HR_MUST_CHECK hr_status hri_plan_check_other(const hri_plan *plan, uint64_t other_budget_bytes,
                                             hri_prose *why);

/* What runs, again or not, and where every buffer lies: names and times do not count. */
void hri_plan_hash(const hri_plan *plan, hri_hasher *hash);

/* The JSON form.  parse needs the problem that the plan was made for, and checks the plan against it. */
HR_MUST_CHECK hr_status hri_plan_print(const hri_plan *plan, char **out);
HR_MUST_CHECK hr_status hri_plan_parse(const char *text, size_t bytes, const hri_problem *p,
                                       hri_plan **out, hri_prose *why);

/* ---- making one ---- */

typedef struct hri_plan_options {
    uint64_t budget_bytes; /* of the arena, persistent values included; 0: as much as it takes */
    uint64_t other_budget_bytes; /* of the first memory where values wait; 0: as much as it takes */
    uint64_t effort; /* simulated steps of search; 0: a second or two for hundreds of ops */
    uint8_t no_recompute, no_offload, keep_order;
    uint8_t no_overlap; /* nothing is computed during an exchange with other ranks */
    uint8_t
        short_memory; /* hri_plan_make_bytes bounds what making it takes: very long plans are not looked at */
    /* Offsets of persistent values and constants that several problems share, by value (others are not read), and
     * where the free part of the arena begins.  NULL: laid out in the order of the values. */
    const uint64_t *fixed_offsets;
    uint64_t fixed_bytes;
    hri_plan_memo *memo; /* begins with it, and writes to it when a plan was found; NULL: none */
    const hri_plan_memo *start; /* begins with it, without a memo of its own; NULL: none */
    uint8_t any;                /* the first plan that fits will do, however slow */
    uint8_t
        memo_only; /* no other beginnings than that of the memo, or the start; all the effort is for it */
} hri_plan_options;

/* HR_E_NO_PLAN when none was found: *impossible (may be NULL) is 1 when the floor proves that there is none, and the
 * sentence says which.  The plan was checked.  Pure: same problem and options, same plan. */
HR_MUST_CHECK hr_status hri_plan_make(const hri_problem *p, const hri_plan_options *options,
                                      hri_plan **out, int *impossible, hri_prose *why);

/* The most memory that hri_plan_make takes beside the problem, with short_memory.  *plan_bytes (may be NULL): that of one
 * plan. */
uint64_t hri_plan_make_bytes(const hri_problem *p, uint64_t *plan_bytes);
/* NULL when there is no memory for it. */
hri_plan *hri_plan_copy(const hri_plan *plan);

/* What a plan sends to other ranks, and in which order: equal on all of them, or they would wait for one another. */
typedef struct hri_plan_net {
    uint64_t bytes; /* that this rank sends */
    uint32_t count;
    double time_ns;    /* as long as it takes, whatever else goes on */
    double exposed_ns; /* of that: nothing is computed meanwhile.  NAN: no memory to find out */
    uint64_t
        hash; /* 0: there are none; else, for each: h = ((h ^ (op + 1)) * F ^ wire_bytes) * F, F = 2^40 + 0x1b3 */
} hri_plan_net;
hri_plan_net hri_plan_net_of(const hri_problem *p, const hri_plan *plan);
/* The steps of a plan for a problem of the same ops, none of whose values or workspaces is larger: the part of a batch that
 * has fewer samples, beside ranks that run the plan.  HR_E_INVALID when it does not serve.  The plan was checked. */
HR_MUST_CHECK hr_status hri_plan_carry(const hri_plan *plan, const hri_problem *to, hri_plan **out,
                                       hri_prose *why);

/* 1: the step runs an op, at once or beside others. */
static inline int hri_step_runs(const hri_plan_step *s) {
    return s->kind == HRI_STEP_RUN || s->kind == HRI_STEP_NET;
}
const char *hri_step_name(uint32_t kind);
/* Predicted time of the steps as they stand: compute and the queues of copies go on beside one another. */
double hri_plan_makespan(const hri_problem *p, const hri_plan *plan);
/* The same with when each step begins and ends: (step_count) each. */
double hri_plan_times(const hri_problem *p, const hri_plan *plan, double *begin, double *end);

#endif
