/* What a node of a captured graph takes of a device's memory.
 *
 * A graph of many small kernels is captured as steps are, and what the runtime grew by is divided by them.  Kernels of
 * libraries have more parameters than these, so the answer is taken several times (hri_engine_graph_reserve).
 *
 * Threads: one at a time. */
#ifndef HRI_RUN_NODE_BYTES_H
#define HRI_RUN_NODE_BYTES_H

#include "run/engine.h"

/* In scratch memory, which is given back.  HR_E_UNSUPPORTED: this device captures no graphs; else what it says. */
HR_MUST_CHECK hr_status hri_node_bytes_measure(hri_engine *e, uint64_t *out);

#endif
