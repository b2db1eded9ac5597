/* What others know of the pass `weights`: its options, which weights it takes, and their names afterwards. */
#ifndef HRI_PASSES_COMMON_WEIGHTS_H
#define HRI_PASSES_COMMON_WEIGHTS_H

#include "graph/graph.h"

/* Of the pass `weights` (hri_passes_find). */
typedef struct hri_weights_options {
    int64_t bits;  /* 8 or 4 */
    int64_t group; /* weights with one scale; 0: a row of 8 bits, 64 of 4 */
} hri_weights_options;

#define HRI_WEIGHTS_CODES ".weight_packed"
#define HRI_WEIGHTS_SCALE ".weight_scale"
#define HRI_WEIGHTS_ZERO  ".weight_zero_point"

/* Is v the weight of a linear layer that becomes codes?  The head stays as it is: the last matrix that a node of the graph reads. */
int hri_weights_takes(const hr_graph *g, hr_value v);
/* "h.0.attn.c_attn" + end; 0: it is too long. */
int hri_weights_name(const char *weight, const char *end, char *out, size_t size);
/* Rows (outputs) and columns (inputs) of a weight that is taken. */
void hri_weights_sizes(const hr_graph *g, hr_value v, int64_t *out, int64_t *in);

#endif
