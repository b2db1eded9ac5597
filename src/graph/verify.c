/* The verifier and dead code: what freeze does.
 *
 * The verifier trusts nothing that the builder did: it asks every shape rule again, checks that every read comes
 * after its write, and that no node reads or updates a persistent value after another one has overwritten it. */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* One node's inputs, outputs and shapes.  stale[v] is set for versions that were overwritten. */
static hr_status verify_node(const hr_graph *g, uint32_t at, unsigned char *stale, char *message,
                             size_t size) {
    const hri_node_record *n = &g->nodes[at];
    const hr_op *op = n->sig.op;
    hr_meta out[HRI_OUT_MAX] = {{0}};
    for (uint32_t i = 0; i < n->sig.in_count; i++) {
        const hr_value v = n->in[i];
        if (v == HR_NONE || v >= n->out) {
            snprintf(message, size, "%s: input %u is used before it is computed", n->name, i);
            return HR_E_INVALID;
        }
        if (stale[v]) {
            snprintf(message, size, "%s: input %u (%s) was overwritten by an earlier update",
                     n->name, i, g->values[v].name);
            return HR_E_INVALID;
        }
        const hr_meta *is = &g->values[v].meta; /* its padding may differ */
        if (n->sig.in[i].type != is->type || !hr_shape_same(&n->sig.in[i].shape, &is->shape)) {
            snprintf(message, size, "%s: input %u changed its shape", n->name, i);
            return HR_E_INTERNAL;
        }
    }
    hri_infer c = {.attr = n->sig.attr, .in_count = n->sig.in_count, .in = n->sig.in, .out = out};
    const hr_status status = op->infer(&c);
    if (status != HR_OK) {
        snprintf(message, size, "%s: %s", n->name, c.message);
        return status;
    }
    for (uint32_t k = 0; k < n->sig.out_count; k++) {
        const hri_value *v = &g->values[n->out + k];
        if (v->node != at || v->meta.type != out[k].type ||
            !hr_shape_same(&v->meta.shape, &out[k].shape)) {
            snprintf(message, size, "%s: output %u does not match the op's shape rule", n->name, k);
            return HR_E_INTERNAL;
        }
        if (op->updates[k] && op->updates[k] <= n->sig.in_count) {
            const hr_value old = n->in[op->updates[k] - 1];
            if (stale[old] || hr_meta_bytes(&g->values[old].meta) != hr_meta_bytes(&v->meta)) {
                snprintf(message, size, "%s: updates %s twice, or with another size", n->name,
                         g->values[old].name);
                return HR_E_INVALID;
            }
            stale[old] = !n->dropped;
        }
    }
    return HR_OK;
}

hr_status hri_graph_verify(const hr_graph *g, char *message, size_t size) {
    unsigned char *stale = hri_calloc(g->value_count, 1);
    if (!stale) {
        snprintf(message, size, "out of host memory to verify the graph");
        return HR_E_NOMEM_HOST;
    }
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < g->node_count && status == HR_OK; i++) {
        status = verify_node(g, i, stale, message, size);
    }
    hri_free(stale);
    return status;
}

static int updates_something(const hri_node_record *n) {
    for (uint32_t k = 0; k < n->sig.out_count; k++) {
        if (n->sig.op->updates[k] && n->sig.op->updates[k] <= n->sig.in_count) {
            return 1;
        }
    }
    return 0;
}

uint32_t hri_graph_mark_live(hr_graph *g) {
    for (uint32_t i = 0; i < g->node_count; i++) {
        g->nodes[i].live = (uint8_t)(!g->nodes[i].dropped && updates_something(&g->nodes[i]));
    }
    for (uint32_t i = 0; i < g->result_count; i++) {
        const uint32_t node = g->values[g->results[i].value].node;
        if (node != HRI_NO_NODE) {
            g->nodes[node].live = 1;
        }
    }
    uint32_t count = 0;
    for (uint32_t i = g->node_count; i-- > 0;) { /* users come after what they use */
        const hri_node_record *n = &g->nodes[i];
        count += n->live;
        for (uint32_t k = 0; n->live && k < n->sig.in_count; k++) {
            const uint32_t node = g->values[n->in[k]].node;
            if (node != HRI_NO_NODE) {
                g->nodes[node].live = 1;
            }
        }
    }
    return count;
}

/* Room for more is no longer needed.  That it stays is no failure. */
static void shrink(hr_graph *g) {
    hri_value *values = hri_realloc(g->values, g->value_count * sizeof *values);
    g->values = values ? values : g->values;
    g->value_space = values ? g->value_count : g->value_space;
    hri_node_record *nodes =
        g->node_count ? hri_realloc(g->nodes, g->node_count * sizeof *nodes) : NULL;
    g->nodes = nodes ? nodes : g->nodes;
    g->node_space = nodes ? g->node_count : g->node_space;
    hri_intmap_deinit(&g->same);
    g->same = (hri_intmap){0};
}

hr_status hr_graph_freeze(hr_graph *g) {
    if (g->error.code != HR_OK || g->frozen) {
        return g->error.code;
    }
    if (g->depth) {
        hri_graph_fail(g, HR_E_INVALID, "scope \"%s\" was never left (hr_graph_pop)", g->path);
        return g->error.code;
    }
    char message[512] = "";
    const hr_status status = hri_graph_verify(g, message, sizeof message);
    if (status != HR_OK) {
        hri_graph_fail(g, status, "%s", message);
        return status;
    }
    g->live_count = hri_graph_mark_live(g);
    g->frozen = 1;
    shrink(g);
    return HR_OK;
}
