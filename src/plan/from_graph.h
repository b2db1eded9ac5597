/* From a frozen graph to the planner's problem: bytes, lives and costs, nothing of tensors.
 *
 * Views disappear: a view is the value it looks at (the map says which), unless it looks at a persistent value that is
 * updated before somebody reads the view; then it is a copy, and an op like others.
 * Time is the roofline: the larger of flops and bytes over the machine's speeds, plus what a launch costs.  Measured
 * times may be put over it afterwards; they decide speed, never whether a plan fits. */
#ifndef HRI_PLAN_FROM_GRAPH_H
#define HRI_PLAN_FROM_GRAPH_H

#include "graph/graph.h"
#include "plan/problem.h"

typedef struct hri_machine {
    double flops_per_ns, bytes_per_ns; /* 0: those of two cores */
    double launch_ns;
    double out_bytes_per_ns, in_bytes_per_ns, copy_latency_ns; /* 0: no copies to another memory */
    uint64_t other_capacity_bytes;  /* of that memory; 0: as much as it takes */
    const hri_problem_memory *more; /* memories behind that one, which must be there then */
    uint32_t more_count;
    double net_bytes_per_ns,
        net_latency_ns;   /* to other ranks: one direction, one message; 0: TCP on Ethernet */
    uint8_t copies_block; /* 1: nothing is computed during a copy */
    double copy_drag; /* share of a copy's time that what is computed beside it loses; 0: none */
    uint32_t threads; /* for workspaces; 0: 1 */
    uint64_t align;   /* 0: 256 */
    hri_gpu *gpu;     /* whose work spaces are meant; NULL: the host's */
    const hri_kernels *kernels; /* of the device; NULL: those of the gpu, without one the host's */
} hri_machine;

typedef struct hri_graph_problem {
    hri_problem problem;
    uint32_t *value_of; /* by graph value: the problem's value, or HRI_PROBLEM_NONE */
    uint32_t *op_of; /* by node: the problem's op, or NONE: dead, or a view that needs no kernel */
} hri_graph_problem;

/* ops[i].id is the node, values[i].id the graph value.  Names are the graph's, which outlives the problem.  HR_E_BUSY when the graph is not
 * frozen; HR_E_UNSUPPORTED, with the op, when the device has no kernel for one of its ops. */
HR_MUST_CHECK hr_status hri_problem_from_graph(const hr_graph *g, const hri_machine *machine,
                                               hri_graph_problem *out, hri_prose *why);
/* A zeroed one is allowed. */
void hri_graph_problem_deinit(hri_graph_problem *x);

#endif
