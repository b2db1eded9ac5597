/* A graph built again, node by node; see pass.h. */
#include <string.h>

#include "base/alloc.h"
#include "passes/common/pass.h"

/* What is made next stands in the scope of `name`, which ends in `last`. */
static void enter(hr_graph *g, const char *name, const char *last) {
    const size_t length = strlen(name) - strlen(last);
    const size_t scope = length ? length - 1 : 0;
    memcpy(g->path, name, scope);
    g->path[scope] = '\0';
}

static void leave(hr_graph *g) {
    g->path[0] = '\0';
}

static void copy_source(hri_rewrite *r, hr_value v) {
    const hri_value *value = &r->from->values[v];
    char name[280];
    const hr_value other = r->source ? r->source(r, v) : HR_NONE;
    if (other != HR_NONE) {
        r->values[v] = other == HRI_REWRITE_GONE ? HR_NONE : other;
        return;
    }
    const size_t length = strlen(value->name);
    if (length + 2 > sizeof name) {
        hri_graph_fail(r->to, HR_E_INVALID, "%s: the name is too long", value->name);
        return;
    }
    name[0] = '/'; /* names are whole already */
    memcpy(name + 1, value->name, length + 1);
    const hr_type type = value->meta.type;
    const hr_shape shape = value->meta.shape;
    hr_value made;
    switch (value->kind) {
    case HR_VALUE_INPUT:
        made = hr_graph_input(r->to, name, type, shape);
        break;
    case HR_VALUE_PARAM:
        made = hr_graph_param(r->to, name, type, shape, value->init);
        break;
    case HR_VALUE_STATE:
        made = hr_graph_state(r->to, name, type, shape, value->init);
        break;
    default:
        enter(r->to, value->name, "constant");
        made = value->data ? hr_graph_constant(r->to, type, shape, value->data)
                           : hr_graph_fill(r->to, type, shape, value->init.a);
        leave(r->to);
        break;
    }
    r->values[v] = made;
    if (value->tags && made != HR_NONE) {
        hr_tags tags = *value->tags;
        tags.owner = r->values[tags.owner]; /* what owns it was there before it */
        hr_graph_set_tags(r->to, made, &tags);
    }
}

hr_value hri_rewrite_keep(hri_rewrite *r, const hri_node_record *n, const hr_value *in) {
    return hri_graph_add(r->to, n->sig.op, in, n->sig.in_count, n->sig.attr);
}

static void copy_node(hri_rewrite *r, const hri_node_record *n) {
    hr_value in[HRI_IN_MAX];
    for (uint32_t i = 0; i < n->sig.in_count; i++) {
        in[i] = r->values[n->in[i]];
    }
    enter(r->to, n->name, n->sig.op->name);
    const hr_value out = r->node ? r->node(r, n, in) : hri_rewrite_keep(r, n, in);
    leave(r->to);
    for (uint32_t k = 0; k < n->sig.out_count && out != HR_NONE; k++) {
        r->values[n->out + k] = out + k;
    }
}

hr_status hri_rewrite_graph(hri_rewrite *r) {
    const hr_graph *from = r->from;
    r->values = hri_calloc(from->value_count, sizeof *r->values);
    if (!r->values) {
        return HR_E_NOMEM_HOST;
    }
    uint32_t node = 0;
    for (hr_value v = 1; v < from->value_count && r->to->error.code == HR_OK; v++) {
        if (from->values[v].node == HRI_NO_NODE) {
            copy_source(r, v);
        } else if (from->values[v].node == node) { /* the first output of the next node */
            copy_node(r, &from->nodes[node++]);
        }
    }
    for (uint32_t i = 0; i < from->result_count && r->to->error.code == HR_OK; i++) {
        const hri_result *x = &from->results[i];
        if (r->values[x->value] == HR_NONE) {
            continue; /* left out */
        }
        (x->spare ? hri_graph_result_spare : hr_graph_result)(r->to, r->values[x->value], x->name);
    }
    hri_graph_copy_notes(from, r->to);
    return r->to->error.code;
}
