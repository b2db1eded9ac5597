/* Parameters that the pass `prune` has masks for: gradients are 0 there, and now and then an update is followed by another
 * mask.  clip_value, too, is of each element of a gradient that is complete, and applied with it. */
#include <headroom/ops.h>

#include <stdio.h>
#include <string.h>

#include "passes/common/prune.h"
#include "step/step_int.h"

/* Of a parameter that is pruned: its mask, HR_NONE for others, and what the pass said of it. */
static hr_value mask_of(const hri_step_maker *m, hr_value param, const char **text) {
    char name[300];
    snprintf(name, sizeof name, "%s" HRI_PRUNE_MASK, m->g->values[param].name);
    *text = hri_graph_find_note(m->g, name);
    return *text ? hr_graph_find(m->g, name) : HR_NONE;
}

int hri_step_is_pruned(const hri_step_maker *m, hr_value param) {
    const char *text;
    return mask_of(m, param, &text) != HR_NONE;
}

int hri_step_prunes(const hri_step_maker *m) {
    int yes = 0;
    for (size_t i = 0; i < m->count && !yes; i++) {
        const char *text;
        yes = mask_of(m, m->params[i], &text) != HR_NONE;
    }
    return yes;
}

/* Each element of a complete gradient within clip_value. */
static hr_value limited(hri_step_maker *m, hr_value grad) {
    const double most = m->o->clip_value;
    return most > 0 && m->g->error.code == HR_OK
               ? hri_nodef(m->g, "clip", &grad, 1, "low=%.17g,high=%.17g", -most, most)
               : grad;
}

/* The gradient of param, 0 where the parameter is pruned.  Slices of it are sums, which are cleared where they lie. */
static hr_value masked(hri_step_maker *m, size_t i) {
    const char *text;
    const hr_value grad = m->grads[i], mask = mask_of(m, m->params[i], &text);
    const hr_shape shape = m->g->values[grad].meta.shape;
    if (mask == HR_NONE || m->g->error.code != HR_OK) {
        return grad;
    }
    if (m->shard &&
        hr_shape_count(&shape) < hr_shape_count(&m->g->values[m->reads[i]].meta.shape)) {
        return hri_nodef(m->g, "prune_state", (const hr_value[]){grad, mask}, 2,
                         "end=9000000000000000,every=1,ranks=%u", m->shard->ranks);
    }
    const hr_value row = hr_reshape(m->g, grad, hr_shape_2(1, hr_shape_count(&shape)));
    return hr_reshape(m->g, HRI_NODE(m->g, "relu_mask_grad", NULL, row, mask), shape);
}

void hri_step_mask_gradients(hri_step_maker *m) {
    for (size_t i = 0; i < m->count; i++) {
        m->grads[i] = limited(m, masked(m, i));
    }
}

hr_value hri_step_prune(hri_step_maker *m, hr_value param, hr_value now, hr_value whole) {
    const char *text;
    const hr_value mask = mask_of(m, param, &text);
    if (mask == HR_NONE || now == HR_NONE || m->g->error.code != HR_OK) {
        return now;
    }
    const hr_value states = now + 1;
    const uint32_t outputs = m->o->optimizer == HR_OPTIMIZER_ADAFACTOR
                                 ? 1 /* averages of rows and columns stay */
                                 : m->g->nodes[m->g->values[now].node].sig.out_count;
    const uint32_t ranks = whole == HR_NONE ? 1 : m->shard->ranks;
    const char *tail = strstr(text, ",inner=");
    char schedule[256];
    snprintf(schedule, sizeof schedule, "%.*s,ranks=%u",
             tail ? (int)(tail - text) : (int)strlen(text), text, ranks);
    const hr_value in[] = {now, mask, whole};
    const hr_value pruned =
        hri_nodef(m->g, "prune", in, whole == HR_NONE ? 2 : 3, "%s,ranks=%u", text, ranks);
    for (uint32_t k = 1; k < outputs && pruned != HR_NONE; k++) {
        const hr_value state[] = {states + k - 1, pruned + 1};
        (void)hr_graph_node(m->g, "prune_state", state, 2, schedule);
    }
    return pruned;
}
