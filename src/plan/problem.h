/* The planner's problem: one step as plain data, without graphs, tensors or devices.
 *
 * Values have bytes; ops, listed in a valid order, read values and make values, take time and workspace.  That is all
 * that planning needs to know, so a trace of another system can be planned as well as a graph of ours (from_graph.h
 * makes problems from graphs; docs/problem-format.md has the JSON form).
 *
 * Invariants, checked by hri_problem_finish whoever built it:
 *   - a value is made by one op, or by none: inputs, constants and persistent values are there when the step begins;
 *   - an op reads only what was made before it, and no version of a persistent value that was updated before it;
 *   - an update takes over the memory of a persistent value of equal bytes, and is never done twice (never again:
 *     such ops cannot be recomputed);
 *   - an output may overwrite only inputs of equal bytes.
 * Views do not occur: a view is its root, under a second name that the maker of the problem keeps.
 *
 * Threads: one at a time while it is built; after finish any thread may read. */
#ifndef HRI_PLAN_PROBLEM_H
#define HRI_PLAN_PROBLEM_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/status.h>
#include "base/arena.h"
#include "base/prose.h"

enum { HRI_PROBLEM_NONE = 0xffffffffu };
enum {
    HRI_PROBLEM_OPS_MAX = 1 << 20,
    HRI_PROBLEM_VALUES_MAX = 1 << 21,
    HRI_PROBLEM_OVERWRITE_MAX = 64, /* inputs that an output may overwrite are among the first */
    HRI_PROBLEM_ALIGN_MAX = 1 << 21,
    HRI_PROBLEM_MEMORIES_MAX = 6, /* beside the arena */
    HRI_PROBLEM_QUEUES_MAX = 12   /* of copies */
};

/* X(NAME, "name") */
#define HRI_ROLE_MAP(X)                                                                            \
    X(MADE, "made")             /* by an op of this step */                                        \
    X(INPUT, "input")           /* fed before the step; its memory is free after the last use */   \
    X(CONSTANT, "constant")     /* written once, never changed */                                  \
    X(PERSISTENT, "persistent") /* outlives the step */

typedef enum hri_role {
#define HRI_ROLE_ENUM(NAME, TEXT) HRI_ROLE_##NAME,
    HRI_ROLE_MAP(HRI_ROLE_ENUM)
#undef HRI_ROLE_ENUM
        HRI_ROLE_COUNT
} hri_role;

/* X(NAME, "name") */
#define HRI_PHASE_MAP(X)                                                                           \
    X(FORWARD, "forward")                                                                          \
    X(BACKWARD, "backward")                                                                        \
    X(UPDATE, "update")

typedef enum hri_problem_phase {
#define HRI_PHASE_ENUM(NAME, TEXT) HRI_PROBLEM_##NAME,
    HRI_PHASE_MAP(HRI_PHASE_ENUM)
#undef HRI_PHASE_ENUM
        HRI_PROBLEM_PHASE_COUNT
} hri_problem_phase;

typedef struct hri_problem_value {
    const char *name;
    uint64_t bytes;
    uint8_t role;   /* hri_role */
    uint8_t result; /* somebody reads it after the step */
    uint32_t id;    /* the caller's own number for it */

    /* Set by finish. */
    uint32_t producer;   /* op, or NONE */
    uint32_t updater;    /* the op that writes the next version over this one, or NONE */
    uint32_t root;       /* the persistent value whose memory this is; itself for all others */
    uint64_t room_bytes; /* bytes rounded up to the alignment */
    uint32_t use_first, use_count; /* uses[use_first ..): ops that read it, rising, each once */
} hri_problem_value;

typedef struct hri_problem_output {
    uint32_t value;
    uint32_t updates;   /* input index + 1 whose memory it takes over; 0: none */
    uint64_t overwrite; /* bit i: may lie where input i lay, if that dies here */
} hri_problem_output;

typedef struct hri_problem_variant {
    const char *name;
    double time_ns;
    uint64_t workspace_bytes;
} hri_problem_variant;

/* BY_LABELS: only where some labels do not count. */
typedef enum hri_problem_coupled {
    HRI_APART = 0,
    HRI_COUPLED,
    HRI_COUPLED_BY_LABELS
} hri_problem_coupled;

typedef struct hri_problem_op {
    const char *name, *kind; /* "layer1.0.conv1.conv2d", "conv2d" */
    uint8_t phase;           /* hri_problem_phase */
    uint8_t once;            /* 1: may not be run a second time in a step */
    uint8_t coupled;         /* hri_problem_coupled: samples of a batch touch one another */
    uint8_t net;             /* 1: ranks exchange bytes: all of them run these in one order */
    uint8_t chain;           /* 1: with `after`, three in a row may be one launch, and more */
    uint8_t third; /* 1: it goes with op `after` only where that went with the op before it */
    uint8_t
        apart; /* 1: with `after`, what it writes must lie apart from what that op, or those two, touch */
    double
        joins; /* it makes its first input itself where that would be made right before it, and saves this share of that op's time; 0: never */
    double
        beside_share; /* of the time of op `beside`: saved where that runs again right before this one */
    uint32_t beside; /* that op's number + 1; 0: none */
    /* Its time is that in company: in one launch with op `after`, where that stands right before it, or with others of its
     * kind (`many`), wherever they reach one another.  Alone it takes so much more. */
    double alone_ns;
    uint32_t after;      /* that op's number + 1; 0: none */
    uint32_t many;       /* equal numbers go together; 0: with nobody */
    uint64_t wire_bytes; /* that this rank sends then */
    uint32_t id;         /* the caller's own number for it */
    uint32_t in_count, out_count, variant_count;
    const uint32_t *in;
    const hri_problem_output *out;
    const hri_problem_variant *variants; /* one at least */

    uint32_t
        beside_of; /* set by finish: the op that has it beside itself, + 1 (of several, the last); 0: none */
} hri_problem_op;

/* A memory beside the arena, where values wait: the host's, a file, another device's.  A queue does its copies one after
 * another; several memories may share one. */
typedef struct hri_problem_memory {
    const char *name;        /* for people; NULL: none */
    uint64_t capacity_bytes; /* 0: as much as it takes */
    double out_bytes_per_ns; /* copies there and back */
    double in_bytes_per_ns;
    double latency_ns; /* of one copy */
    uint8_t out_queue, in_queue;
} hri_problem_memory;

typedef struct hri_problem {
    const char *name;
    uint64_t align; /* of every buffer; a power of two */
    /* In the order in which they are filled.  One alone has the queues 0 and 1, whatever it says, and is none without speeds;
     * of several, each must have them. */
    hri_problem_memory memories[HRI_PROBLEM_MEMORIES_MAX];
    uint32_t memory_count;
    uint8_t copies_block; /* 1: nothing is computed during a copy: one processor does both */
    double copy_drag; /* else: what is computed beside a copy loses this share of the copy's time */
    hri_problem_value *values;
    hri_problem_op *ops;
    uint32_t value_count, value_space, op_count, op_space;

    /* Set by finish. */
    uint32_t *uses;
    uint64_t persistent_bytes; /* persistent values and constants, rounded up each */
    uint64_t hash;             /* of everything that planning depends on: names do not count */
    uint8_t finished;
    uint8_t borrows; /* 1: names are the caller's and outlive it; else they are copied */
    hri_arena arena; /* names and lists */
} hri_problem;

/* An empty problem.  deinit accepts it, and a half-made one. */
void hri_problem_init(hri_problem *p, uint64_t align);
void hri_problem_deinit(hri_problem *p);
/* Bytes of memory that it holds. */
uint64_t hri_problem_held_bytes(const hri_problem *p);

/* Appends; texts (unless it borrows them) and lists are copied.  `out` is the new number. */
HR_MUST_CHECK hr_status hri_problem_add_value(hri_problem *p, const hri_problem_value *value,
                                              uint32_t *out);
HR_MUST_CHECK hr_status hri_problem_add_op(hri_problem *p, const hri_problem_op *op, uint32_t *out);

/* Checks everything and derives the rest.  HR_E_INVALID (HR_E_RANGE for sums over 62 bits) with a sentence. */
HR_MUST_CHECK hr_status hri_problem_finish(hri_problem *p, hri_prose *why);

/* Other times for the variants of a finished problem, measured ones say; a negative answer changes nothing.  Plans made
 * before are of another problem then. */
typedef double hri_problem_time_fn(void *user, const hri_problem_op *op, uint32_t variant);
void hri_problem_retime(hri_problem *p, hri_problem_time_fn *time_ns, void *user);

/* Other times of what ops do together, as they were measured; the function changes what it knows. */
typedef struct hri_problem_company {
    double alone_ns, joins, beside_share; /* as in hri_problem_op */
} hri_problem_company;
typedef void hri_problem_company_fn(void *user, uint32_t op, hri_problem_company *company);
void hri_problem_recompany(hri_problem *p, hri_problem_company_fn *change, void *user);

/* Limits of files of problems and plans; a plan of 1,000 layers has about 6 MB and a million values. */
enum { HRI_PROBLEM_FILE_BYTES = 32 << 20, HRI_PROBLEM_FILE_VALUES = 2000000 };

/* The JSON form.  print: hri_free() the text.  parse gives a finished problem; HR_E_FORMAT, HR_E_RANGE or HR_E_INVALID
 * with a sentence for anything else, and *out untouched. */
HR_MUST_CHECK hr_status hri_problem_print(const hri_problem *p, char **out);
HR_MUST_CHECK hr_status hri_problem_parse(const char *text, size_t bytes, hri_problem *out,
                                          hri_prose *why);

/* 1 when there is more to say of its memories than the speeds of one. */
int hri_problem_lists_memories(const hri_problem *p);
/* How long a copy of so many bytes to memory m (1: the first) or back takes, and the queue that does it. */
double hri_problem_copy_ns(const hri_problem *p, uint32_t memory, int in, uint64_t bytes);
uint32_t hri_problem_queue(const hri_problem *p, uint32_t memory, int in);

/* The op whose work op n may do as well, being the first that reads what it makes; NONE: there is none. */
static inline uint32_t hri_problem_joined(const hri_problem *p, uint32_t n) {
    const hri_problem_op *op = &p->ops[n];
    const hri_problem_value *in = op->joins > 0 && op->in_count ? &p->values[op->in[0]] : NULL;
    return in && in->producer != HRI_PROBLEM_NONE && p->ops[in->producer].out_count == 1 &&
                   p->uses[in->use_first] == n
               ? in->producer
               : (uint32_t)HRI_PROBLEM_NONE;
}
/* What op n saves when it does, never more than it takes itself. */
static inline double hri_problem_joined_ns(const hri_problem *p, uint32_t n, double own_ns,
                                           double maker_ns) {
    const double saved = p->ops[n].joins * maker_ns;
    return saved < own_ns ? saved : own_ns;
}
/* The op that op n does as well where that has to run again, for its first output, and stands right before it: a
 * gradient that reads what its op read can write again what that made.  NONE: there is none. */
static inline uint32_t hri_problem_beside(const hri_problem *p, uint32_t n) {
    const uint32_t f = p->ops[n].beside;
    return f && p->ops[f - 1].beside_of == n + 1 ? f - 1 : (uint32_t)HRI_PROBLEM_NONE;
}
/* The share of its time that op n saves where it runs again beside another; 0: it never does. */
static inline double hri_problem_beside_share(const hri_problem *p, uint32_t n) {
    return p->ops[n].beside_of ? p->ops[p->ops[n].beside_of - 1].beside_share : 0;
}
/* 1 when some op has another beside it. */
int hri_problem_has_beside(const hri_problem *p);
/* 1 when some op takes longer alone. */
int hri_problem_has_company(const hri_problem *p);
/* 1 when some op exchanges bytes with other ranks. */
int hri_problem_has_net(const hri_problem *p);

const char *hri_role_name(uint32_t role);
const char *hri_problem_phase_name(uint32_t phase);
/* Room of a workspace or value of this problem. */
uint64_t hri_problem_room(const hri_problem *p, uint64_t bytes);
/* The bytes no plan can do without while it runs `op`: its operands and smallest workspace. */
uint64_t hri_problem_op_floor(const hri_problem *p, uint32_t op);
/* The floor: no plan has a smaller arena.  *op is the op that makes it (NONE: the inputs alone). */
uint64_t hri_problem_floor(const hri_problem *p, uint32_t *op);

#endif
