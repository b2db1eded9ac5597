/* The interpreter: runs a frozen graph on the host in the order of building.
 *
 * It is the plain meaning of a graph: the oracle for plans and the machine of the conformance tests.  Each value has a
 * buffer of its own; only updates of persistent values share memory, because they must.  With `reuse`, buffers whose
 * value is dead serve again and ops work in place where their descriptor allows it, so that benchmarks of large models
 * fit; then only inputs, persistent values and results may be looked at.  Training runs plans instead. */
#ifndef HRI_RUN_INTERPRET_H
#define HRI_RUN_INTERPRET_H

#include "base/threads.h"
#include "graph/graph.h"

typedef struct hri_interp hri_interp;

typedef struct hri_interp_options {
    hri_threads *threads; /* NULL: one */
    uint64_t seed;
    /* Persistent values that `base` has under the same name are its memory: a second graph of one model.  It must live
     * longer.  NULL: none. */
    hri_interp *base;
    int reuse;
    /* Called before (done 0) and after (done 1) each node; NULL: not. */
    void (*watch)(void *user, uint32_t node, int done);
    void *watch_user;
} hri_interp_options;

/* Borrows graph and threads until destroy.  Persistent values and constants are filled with their beginnings.
 * HR_E_BUSY when the graph is not frozen; HR_E_SHAPE when `base` has a value of that name and another type or shape. */
HR_MUST_CHECK hr_status hri_interp_open(const hr_graph *g, const hri_interp_options *options,
                                        hri_interp **out);
/* The same with threads (NULL: one) and seed alone. */
HR_MUST_CHECK hr_status hri_interp_create(const hr_graph *g, hri_threads *threads, uint64_t seed,
                                          hri_interp **out);
/* NULL is allowed. */
void hri_interp_destroy(hri_interp *it);
/* The memory of a value: write inputs before a run, read results after it.  NULL for an empty or unused value. */
void *hri_interp_data(hri_interp *it, hr_value v);
/* The same by copying, from byte `at` on: what hr_weights_options asks for; `interp` is an hri_interp.  HR_E_NOT_FOUND
 * for a value without memory, HR_E_RANGE outside of it. */
HR_MUST_CHECK hr_status hri_interp_put(void *interp, hr_value v, uint64_t at, const void *from,
                                       uint64_t bytes);
HR_MUST_CHECK hr_status hri_interp_get(void *interp, hr_value v, uint64_t at, void *to,
                                       uint64_t bytes);
/* All memory that values and workspace take, without what is the base's. */
uint64_t hri_interp_bytes(const hri_interp *it);
/* The number of the first sample that later runs see: 0 unless a batch is run in parts. */
void hri_interp_sample(hri_interp *it, uint32_t first_sample);
/* One step.  After a failure, *node (may be NULL) is the node that failed. */
HR_MUST_CHECK hr_status hri_interp_run(hri_interp *it, uint32_t step, uint32_t *node);

#endif
