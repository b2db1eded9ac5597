/* Convolutions whose gradient is one op with that of the batch norm behind them, in a model's graph before it is differentiated (folds.c). */
#ifndef HRI_PASSES_COMMON_FOLDS_H
#define HRI_PASSES_COMMON_FOLDS_H

#include "graph/graph.h"

/* Whether there is anything in a graph that it would change. */
int hri_folds_take(const hr_graph *g);
/* Fills the empty graph `to`, whose values have the numbers that they have in `from`; errors stay on it.  HR_E_NOMEM_HOST without one. */
HR_MUST_CHECK hr_status hri_folds_apply(const hr_graph *from, hr_graph *to);

#endif
