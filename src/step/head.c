/* The head of a language model in a step that trains: loss and gradients in one op that keeps no scores.
 *
 * What the loss is multiplied by (1, or the scale of f16) does not depend on the step, so the forward pass can make the
 * gradients of the last product at once.  The model's own node is left without readers, and so is not part of the step. */
#include <headroom/ops.h>

#include <string.h>

#include "ops/common/linear_loss_train.h"
#include "step/step_int.h"

/* Does nobody train what v is, or is cast from? */
static bool is_frozen(const hr_graph *g, hr_value v) {
    while (g->values[v].node != HRI_NO_NODE &&
           !strcmp(g->nodes[g->values[v].node].sig.op->name, "cast")) {
        v = g->nodes[g->values[v].node].in[0];
    }
    return g->values[v].kind == HR_VALUE_PARAM && hri_graph_tags(g, v)->frozen;
}

hr_value hri_step_join_head(hri_step_maker *m) {
    hr_graph *g = m->g;
    const uint32_t node = g->values[m->loss].node;
    if (m->o->scores != HR_SCORES_AUTO || node == HRI_NO_NODE || g->error.code != HR_OK ||
        strcmp(g->nodes[node].sig.op->name, "linear_cross_entropy") != 0) {
        return m->scale;
    }
    const hri_node_record n = g->nodes[node]; /* a copy: the arrays grow */
    const hri_linear_loss_attr *p = n.sig.attr;
    const hri_linear_train_attr attr = {
        .smoothing = p->smoothing, .sum = p->sum, .frozen = is_frozen(g, n.in[1])};
    const hr_value seed =
        m->scale == HR_NONE ? hr_graph_fill(g, HR_TYPE_F32, hr_shape_0(), 1.0) : m->scale;
    const hr_value in[] = {n.in[0], n.in[1], n.in[2], seed};
    const hr_value loss = hri_node(g, "linear_cross_entropy_train", in, 4, &attr);
    for (uint32_t i = 0; i < g->result_count && loss != HR_NONE; i++) {
        if (g->results[i].value == m->loss) {
            g->results[i].value = loss;
        }
    }
    m->loss = loss == HR_NONE ? m->loss : loss;
    return seed;
}
