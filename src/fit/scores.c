/* The scores of the last evaluation, whatever type they have; see planned.h. */
#include <string.h>

#include "fit/planned_int.h"

hr_status hri_planned_scores(hri_planned *p, float *to, uint64_t room, uint64_t *count) {
    const hri_planned_piece *x = p->evaluated;
    const hr_graph *g = x ? hri_exec_graph(x->exec) : NULL;
    const hr_value v = g ? hr_graph_find(g, "logits") : HR_NONE;
    if (v == HR_NONE || !hri_exec_holds(x->exec, v) || !hr_type_is_real(g->values[v].meta.type)) {
        return HR_E_UNSUPPORTED;
    }
    const uint64_t n = (uint64_t)hr_shape_count(&g->values[v].meta.shape);
    if (n > room) {
        return HR_E_RANGE;
    }
    const hr_status status = hri_exec_get_reals(x->exec, v, to, n);
    if (status == HR_OK) {
        *count = n;
    }
    return status;
}
