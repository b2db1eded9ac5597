/* Bits in place of what gradients would keep, in a model's graph before it is differentiated (masks.c). */
#ifndef HRI_PASSES_COMMON_MASKS_H
#define HRI_PASSES_COMMON_MASKS_H

#include "graph/graph.h"

/* Whether there is anything in a graph that it would change. */
int hri_masks_take(const hr_graph *g);
/* Fills the empty graph `to`; errors stay on it.  HR_E_NOMEM_HOST without one. */
HR_MUST_CHECK hr_status hri_masks_apply(const hr_graph *from, hr_graph *to);

#endif
