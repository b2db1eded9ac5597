/* Bits in place of what a gradient would keep: batch_norm_apply with an addend and relu becomes batch_norm_apply_mask.
 *
 * Its gradient reads where y is positive, and needs no y for that.  Done to every model that is trained, after its passes; bits of
 * results stay what they are. */
#include <string.h>

#include "base/alloc.h"
#include "passes/common/masks.h"
#include "passes/common/pass.h"

static int takes(const hri_node_record *n) {
    return n->sig.in_count == 6 && !strcmp(n->sig.op->name, "batch_norm_apply");
}

int hri_masks_take(const hr_graph *g) {
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (takes(&g->nodes[i])) {
            return 1;
        }
    }
    return 0;
}

static hr_value take_node(hri_rewrite *r, const hri_node_record *n, hr_value *in) {
    return takes(n) ? hr_graph_node(r->to, "batch_norm_apply_mask", in, 6, NULL)
                    : hri_rewrite_keep(r, n, in);
}

hr_status hri_masks_apply(const hr_graph *from, hr_graph *to) {
    hri_rewrite r = {.from = from, .to = to, .node = take_node};
    const hr_status status = hri_rewrite_graph(&r);
    hri_free(r.values);
    return status;
}
