/* One number for all that a checkpoint would keep of a graph: parameters, running statistics, the optimizer's states.
 *
 * Equal bits under equal names give equal numbers, in whatever order the graph lists them; so a run on several replicas has
 * the number of a run on one. */
#ifndef HRI_WEIGHTS_DIGEST_H
#define HRI_WEIGHTS_DIGEST_H

#include "graph/graph.h"
#include "weights/tensor_move.h"

/* Reads through from->get in pieces of from->buffer_bytes; where there is no memory for that, in small ones. */
HR_MUST_CHECK hr_status hri_values_digest(const hr_graph *g, const hri_values *from, uint64_t *out);

#endif
