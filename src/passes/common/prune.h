/* What others know of the pass `prune`: its options, and the names of masks. */
#ifndef HRI_PASSES_COMMON_PRUNE_H
#define HRI_PASSES_COMMON_PRUNE_H

#include "graph/graph.h"

/* Of the pass `prune` (hri_passes_find). */
typedef struct hri_prune {
    const char *sparsity;      /* "0.8", "0.5:0.8" or "2:4" */
    int64_t begin, end, every; /* end INT64_MIN: not said */
    const char *layers; /* pattern.h; NULL: all but the first convolution and the last layer */
} hri_prune;

#define HRI_PRUNE_MASK                                                                             \
    ".mask" /* "<param>.mask", u8 (1, (n + 7) / 8); its note has the attributes of the op prune */

/* The share of zeros at the end. */
double hri_prune_final(const hri_prune *o);
/* The mask of a parameter; HR_NONE: it is not pruned. */
hr_value hri_prune_mask_of(const hr_graph *g, hr_value param);

#endif
