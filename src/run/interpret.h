/* The interpreter: runs a frozen graph on the host in the order of building, each value in a buffer of its own.
 *
 * It is the plain meaning of a graph: the oracle for plans and the machine of the conformance tests.  Nothing is
 * reused, overwritten or saved; only updates of persistent values share memory, because they must.  Training runs
 * plans instead. */
#ifndef HRI_RUN_INTERPRET_H
#define HRI_RUN_INTERPRET_H

#include "base/threads.h"
#include "graph/graph.h"

typedef struct hri_interp hri_interp;

/* Borrows graph and threads (NULL: one) until destroy.  Persistent values and constants are filled with their
 * beginnings.  HR_E_BUSY when the graph is not frozen. */
HR_MUST_CHECK hr_status hri_interp_create(const hr_graph *g, hri_threads *threads, uint64_t seed,
                                          hri_interp **out);
/* The same, but persistent values that `base` (NULL: none) has under the same name are its memory: a second graph of
 * one model.  HR_E_SHAPE when such a value has another type or shape.  `base` must live longer. */
HR_MUST_CHECK hr_status hri_interp_create_beside(const hr_graph *g, hri_threads *threads,
                                                 uint64_t seed, hri_interp *base, hri_interp **out);
/* NULL is allowed. */
void hri_interp_destroy(hri_interp *it);
/* The memory of a value: write inputs before a run, read results after it.  NULL for an empty or unused value. */
void *hri_interp_data(hri_interp *it, hr_value v);
/* The number of the first sample that later runs see: 0 unless a batch is run in parts. */
void hri_interp_sample(hri_interp *it, uint32_t first_sample);
/* One step.  After a failure, *node (may be NULL) is the node that failed. */
HR_MUST_CHECK hr_status hri_interp_run(hri_interp *it, uint32_t step, uint32_t *node);

#endif
