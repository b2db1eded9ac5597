/* A step that replicas share: the gradients of one part, and folding the parts in; see step_int.h.
 *
 * The one idea: what a part changes at its end is cut off and carried to every replica as bytes.  A graph of GRADIENTS
 * copies the summands of each gradient, and the operands of every op by which the model changes a state, into states of
 * its own.  A graph of FOLD has them as inputs and applies the very nodes that a part of an unshared step would have
 * had behind them, so that the order of additions, and with it every bit, is that of one replica. */
#include "step/step_int.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { NAME = 320 };

/* "/<param>.part0" */
static void piece_name(const hr_graph *g, hr_value param, size_t at, char name[NAME]) {
    if (snprintf(name, NAME, "/%s.part%zu", g->values[param].name, at) >= NAME) {
        name[0] = '\0'; /* refused by the graph */
    }
}

static void operand_name(uint32_t node, uint32_t input, char name[NAME]) {
    snprintf(name, NAME, "/model.%u.%u", node, input);
}

/* The model changes a state here: of updates there are none yet. */
int hri_step_changes_state(const hri_node_record *n) {
    for (uint32_t k = 0; k < n->sig.out_count; k++) {
        if (n->sig.op->updates[k] && n->sig.op->updates[k] <= n->sig.in_count) {
            return 1;
        }
    }
    return 0;
}

int hri_step_is_changed(const hri_node_record *n, uint32_t input) {
    for (uint32_t k = 0; k < n->sig.out_count; k++) {
        if (n->sig.op->updates[k] == input + 1) {
            return 1;
        }
    }
    return 0;
}

/* What it changed may not be read in the same step: it is changed later. */
static int is_read(const hr_graph *g, const hri_node_record *n) {
    for (uint32_t i = 0; i < g->node_count; i++) {
        for (uint32_t k = 0; k < g->nodes[i].sig.in_count; k++) {
            const hr_value in = g->nodes[i].in[k];
            if (in >= n->out && in < n->out + n->sig.out_count &&
                !hri_step_changes_state(&g->nodes[i])) {
                return 1;
            }
        }
    }
    return 0;
}

/* Copies a value into a state of its type; one times a number is that number. */
static void keep(hri_step_maker *m, const char *name, hr_value value) {
    const hr_meta meta = m->g->values[value].meta;
    const hr_value state =
        hr_graph_state(m->g, name, (hr_type)meta.type, meta.shape, hr_init_constant(0.0));
    hr_graph_set_tags(m->g, state, &(hr_tags){.size = sizeof(hr_tags), .keep = HR_KEEP_NOT});
    const hr_value one = hri_step_constant(m, &m->one, 1.0);
    const hr_value in[] = {state, value, one, one};
    hr_graph_node(m->g, "accumulate", in, 4, NULL);
}

hr_status hri_step_check_change(const hri_step_maker *m, uint32_t node) {
    const hri_node_record *n = &m->g->nodes[node];
    if (is_read(m->g, n)) {
        hri_graph_fail(m->g, HR_E_UNSUPPORTED,
                       "%s: the model reads a state after changing it in the same step, which "
                       "replicas cannot do",
                       n->name);
        return HR_E_UNSUPPORTED;
    }
    for (uint32_t k = 0; k < n->sig.in_count; k++) {
        const hr_type type = m->g->values[n->in[k]].meta.type;
        if (!hri_step_is_changed(n, k) && !hr_type_is_real(type)) {
            hri_graph_fail(m->g, HR_E_UNSUPPORTED,
                           "%s: replicas cannot exchange operands of type %s", n->name,
                           hr_type_name(type));
            return HR_E_UNSUPPORTED;
        }
    }
    return HR_OK;
}

static hr_status keep_operands(hri_step_maker *m, uint32_t node) {
    char name[NAME];
    const hr_status status = hri_step_check_change(m, node);
    for (uint32_t k = 0; status == HR_OK && k < m->g->nodes[node].sig.in_count; k++) {
        const hr_value in = m->g->nodes[node].in[k]; /* adding nodes moves them */
        if (!hri_step_is_changed(&m->g->nodes[node], k)) {
            operand_name(node, k, name);
            keep(m, name, in);
        }
    }
    if (status != HR_OK) {
        return status;
    }
    m->g->nodes[node].dropped = 1;
    return m->g->error.code;
}

hr_status hri_step_keep(hri_step_maker *m) {
    const uint32_t nodes = m->g->node_count;
    hr_status status = HR_OK;
    for (uint32_t n = 0; n < nodes && status == HR_OK; n++) {
        status = hri_step_changes_state(&m->g->nodes[n]) ? keep_operands(m, n) : HR_OK;
    }
    for (size_t i = 0; i < m->count && status == HR_OK; i++) {
        hr_value pieces[HRI_STEP_PIECES];
        const size_t count = hri_step_pieces(m->g, m->grads[i], pieces, 0, HRI_STEP_PIECES);
        for (size_t k = 0; k < count; k++) {
            char name[NAME];
            piece_name(m->g, m->params[i], k, name);
            keep(m, name, pieces[k]);
        }
        status = m->g->error.code;
    }
    return status;
}

/* ---- folding ---- */

/* What a graph of GRADIENTS kept, under the same name. */
static hr_value carried(hr_graph *to, const char *name, const hr_meta *meta) {
    const hr_value v = hr_graph_input(to, name, (hr_type)meta->type, meta->shape);
    if (v != HR_NONE) {
        to->values[v].carried = 1;
    }
    return v;
}

/* The sum of inputs in place of a gradient: with the nodes that its pieces had. */
static hr_value sum_again(const hr_graph *from, hr_graph *to, hr_value v, const hr_value *pieces,
                          const hr_value *inputs, size_t count) {
    for (size_t k = 0; k < count; k++) {
        if (pieces[k] == v) {
            return inputs[k];
        }
    }
    const hri_node_record *n = &from->nodes[from->values[v].node];
    const hr_value left = sum_again(from, to, n->in[0], pieces, inputs, count);
    return HRI_NODE(to, "add", NULL, left, sum_again(from, to, n->in[1], pieces, inputs, count));
}

static hr_value gradient_again(const hr_graph *from, hr_graph *to, hr_value param, hr_value grad) {
    hr_value pieces[HRI_STEP_PIECES], inputs[HRI_STEP_PIECES];
    const size_t count = hri_step_pieces(from, grad, pieces, 0, HRI_STEP_PIECES);
    for (size_t k = 0; k < count; k++) {
        char name[NAME];
        const hr_meta *meta = &from->values[pieces[k]].meta;
        piece_name(from, param, k, name);
        inputs[k] = carried(to, name, meta);
    }
    return sum_again(from, to, grad, pieces, inputs, count);
}

/* The nodes by which the model changes its states; `now` is where each persistent value of `from` lies now. */
static void change_states(const hr_graph *from, hr_graph *to, hr_value *now) {
    for (uint32_t n = 0; n < from->node_count && to->error.code == HR_OK; n++) {
        const hri_node_record *is = &from->nodes[n];
        hr_value in[HRI_IN_MAX] = {HR_NONE};
        if (!hri_step_changes_state(is)) {
            continue;
        }
        for (uint32_t k = 0; k < is->sig.in_count; k++) {
            char name[NAME];
            const hr_meta *meta = &from->values[is->in[k]].meta;
            operand_name(n, k, name);
            in[k] = hri_step_is_changed(is, k) ? now[from->values[is->in[k]].origin]
                                               : carried(to, name, meta);
        }
        const hr_value out = hri_graph_add(to, is->sig.op, in, is->sig.in_count, is->sig.attr);
        for (uint32_t k = 0; k < is->sig.out_count; k++) {
            const uint32_t input = is->sig.op->updates[k];
            if (input && input <= is->sig.in_count) {
                now[from->values[is->in[input - 1]].origin] = out + k;
            }
        }
    }
}

hr_status hri_step_fold(hri_step_maker *m) {
    hr_graph *from = m->g, *to;
    hr_value *now = hri_calloc(from->value_count, sizeof *now);
    hr_status status = now ? hr_graph_create(&to) : HR_E_NOMEM_HOST;
    if (status != HR_OK) {
        hri_free(now);
        return status;
    }
    hri_step_copy_values(from, to);
    for (hr_value v = 1; v < from->value_count; v++) {
        const hr_value_kind kind = from->values[v].kind;
        now[v] = kind == HR_VALUE_PARAM || kind == HR_VALUE_STATE
                     ? hr_graph_find(to, from->values[v].name)
                     : HR_NONE;
    }
    m->g = to;
    m->one = m->zero = HR_NONE;
    m->scale = m->scale == HR_NONE ? HR_NONE : hri_step_input(m, "/train.scale");
    to->phase = HRI_UPDATE;
    change_states(from, to, now);
    for (size_t i = 0; i < m->count && to->error.code == HR_OK; i++) {
        m->grads[i] = gradient_again(from, to, m->params[i], m->grads[i]);
        m->params[i] = now[m->params[i]];
    }
    if (to->error.code == HR_OK) {
        hri_step_add_up(m);
    }
    hri_free(now);
    hr_graph_destroy(from);
    return to->error.code;
}
