/* A model without some of its channels: which places of its parameters are gone, and its graph without them.
 *
 *   hri_channels_init(&c, graph); ... choose units ...
 *   hri_cuts_init(&cuts, &c, gone);                      by the names of parameters: they hold for every graph of the model
 *   hri_shrink_graph(&cuts, graph_of_any_batch, empty);  the same nodes, smaller shapes
 *
 * The graph is tied anew (channels.h) each time, and cuts that do not agree with it are refused, so a graph for training and one for
 * evaluation cannot part.  Shapes are inferred by the ops themselves; what has them in attributes (reshape, groups of depthwise
 * convolutions) is given new ones. */
#ifndef HRI_PASSES_COMMON_SHRINKING_H
#define HRI_PASSES_COMMON_SHRINKING_H

#include "base/map.h"
#include "passes/common/channels.h"

/* Of one parameter or state.  By place along its last dimension and, of a weight, along the one before: 1 is gone. */
typedef struct hri_cut {
    const char *name;
    const uint8_t *last, *before;
    uint32_t last_count, before_count;
    uint32_t last_kept, before_kept;
} hri_cut;

typedef struct hri_cuts {
    hri_arena arena;
    hri_strmap names; /* index into `of` */
    hri_cut *of;      /* of every parameter and state that loses something */
    size_t count;
} hri_cuts;

/* gone: by unit of c.  A zeroed one may be taken apart. */
HR_MUST_CHECK hr_status hri_cuts_init(hri_cuts *cuts, const hri_channels *c, const uint8_t *gone);
void hri_cuts_deinit(hri_cuts *cuts);
/* NULL: it loses nothing. */
const hri_cut *hri_cuts_find(const hri_cuts *cuts, const char *name);

/* Builds `from` in the empty graph `to`; errors stay on it. */
HR_MUST_CHECK hr_status hri_shrink_graph(const hri_cuts *cuts, const hr_graph *from, hr_graph *to);

#endif
