/* Mixed precision as graph to graph: the same model with products in a small type.
 *
 * Every node is built again, in order, under its own name.  Ops whose descriptor says `product` get their real inputs
 * in the small type.  All others take what they are given, as far as their shape rule allows it: norms read small
 * images beside f32 weights, losses small scores and give an f32.  Where it does not (an f32 and a small one are
 * added), what is not persistent is cast down, and if that is not enough everything real is.  Memory that an op
 * updates is never cast.  A value is cast once for all its readers. */
#ifndef HRI_PASSES_PRECISION_H
#define HRI_PASSES_PRECISION_H

#include "graph/graph.h"

/* Copies the model in `from` into the empty graph `to`.  Errors stay on `to`; HR_E_NOMEM_HOST without one.
 * `reads` gets, for a value of `to` that is a parameter read only through its cast, that cast; else HR_NONE. */
typedef struct hri_precision {
    hr_value *cast;         /* by value of `to`: itself in the small type */
    unsigned char *is_read; /* by value of `to`: some node reads it as it is */
    uint32_t space;
} hri_precision;

HR_MUST_CHECK hr_status hri_precision_copy(const hr_graph *from, hr_graph *to, hr_type small,
                                           hri_precision *out);
/* What a gradient should be taken of: the cast when the parameter is read through it alone, so that the gradient
 * stays small; else the parameter. */
hr_value hri_precision_read(const hri_precision *p, hr_value param);
/* A zeroed one is allowed. */
void hri_precision_deinit(hri_precision *p);

#endif
