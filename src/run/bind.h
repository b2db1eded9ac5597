/* A plan bound to addresses: one flat list of calls, for an executor of any device.
 *
 * The one idea: everything that a plan says is turned into calls with addresses in them, once.  Problem and plan may be
 * freed afterwards; whoever runs the calls looks nothing up and decides nothing.  Addresses are written as pointers: on
 * the host they are pointers, elsewhere they are a device's and nobody follows them here.
 *
 * A value has an address from outside only where that means something: inputs before a run, persistent values and
 * constants always, results after a run.
 *
 * Left out on purpose: running (execute.c on the host, execute_gpu.c). */
#ifndef HRI_RUN_BIND_H
#define HRI_RUN_BIND_H

#include "graph/graph.h"
#include "plan/plan.h"

/* One step of the plan, in its order.  A kernel's pointers are its inputs, its outputs and its workspace (NULL: none); a
 * copy's are where to and where from. */
typedef struct hri_bound_call {
    uint8_t kind; /* hri_step_kind */
    uint8_t variant;
    uint8_t memory; /* OUT, IN: which, beside the arena (1: the first) */
    uint8_t queue;  /* and the queue of copies */
    uint8_t net;    /* WAIT: for an exchange */
    uint32_t node;  /* RUN, NET: of the graph */
    uint32_t first; /* pointers[first ..) */
    uint32_t
        copy; /* OUT, IN: the number of this copy, from 0; WAIT: the one that is waited for.  NET: of exchanges */
    hri_run_fn *run; /* RUN, NET, where the processor runs it: its kernel; the executor finds it */
    uint64_t bytes;  /* of the workspace, or of the copy */
} hri_bound_call;

typedef struct hri_bound {
    const hr_graph *g;
    hri_bound_call *calls;
    void **pointers;
    void **data; /* by value of the graph: what the outside may see */
    void *arena;
    uint32_t call_count, copy_count, net_count, pointer_count;
    uint32_t queue_count; /* of copies: the highest number in use, and one */
} hri_bound;

typedef struct hri_bind_options {
    const hr_graph *g; /* frozen; lives as long as what is bound */
    const hri_problem
        *problem;         /* of that graph: its ops' ids are nodes, its values' ids are values */
    const hri_plan *plan; /* that has passed the checker */
    void *arena;          /* plan->arena_bytes of them; need not be there yet */
    void *others[HRI_PROBLEM_MEMORIES_MAX]; /* plan->memory_bytes of them; NULL: offsets alone */
} hri_bind_options;

/* HR_E_INVALID when the plan is of another problem, or the problem of another graph; HR_E_NOMEM_HOST. */
HR_MUST_CHECK hr_status hri_bind(const hri_bind_options *options, hri_bound *out, hri_prose *why);
/* A zeroed one is allowed. */
void hri_bound_deinit(hri_bound *b);
/* Of a RUN; NULL: none. */
void *hri_bound_workspace(const hri_bound *b, const hri_bound_call *c);
/* 1 for what needs no kernel because input and output are the same bytes at the same place. */
int hri_bound_is_name(const hri_bound *b, const hri_bound_call *c);
/* The address of bytes [at, at + bytes) of a value that is open to the outside.  HR_E_NOT_FOUND, HR_E_RANGE. */
HR_MUST_CHECK hr_status hri_bound_find(const hri_bound *b, hr_value v, uint64_t at, uint64_t bytes,
                                       void **out);
/* What a plan with so many steps and operands takes at most when it is bound, before there is a plan. */
uint64_t hri_bound_record_bytes(uint64_t steps, uint64_t operands, uint64_t values);

#endif
