/* What the library itself asks of a custom op (headroom/custom.h). */
#ifndef HRI_GRAPH_CUSTOM_H
#define HRI_GRAPH_CUSTOM_H

#include <headroom/custom.h>

#include "graph/op.h"

/* Its descriptor: the attribute of a node is a pointer to the op. */
const hr_op *hri_custom_op(const hr_custom *custom);
/* 1 when an op of a graph is a custom one. */
int hri_op_is_custom(const hr_op *op);

#endif
