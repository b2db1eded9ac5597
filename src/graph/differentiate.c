/* Reverse-mode differentiation, graph to graph.
 *
 * Nodes are walked from the loss backwards; each op's own rule appends the nodes of its gradient.  There is no
 * knowledge of any op here.  A value used twice gets its contributions added by an "add" node, which may overwrite
 * the first of them, so that accumulation needs no memory of its own.
 *
 * Only paths that lead from a wanted value to the loss are followed: `reach` says which values depend on a wanted
 * one, so gradients of inputs, of labels and of frozen weights are never made. */
#include "graph/graph.h"

#include <string.h>

#include "base/alloc.h"

typedef struct walk {
    hr_graph *g;
    uint32_t value_count; /* of the forward graph; ids from here on are new */
    unsigned char *reach; /* [value_count] depends on a wanted value */
    hr_value *grad;       /* [value_count] what has been summed so far */
    const hr_value *wrt;
    size_t wrt_count;
} walk;

static void mark_reach(walk *w, const hr_value *wrt, size_t count) {
    const hr_graph *g = w->g;
    for (size_t i = 0; i < count; i++) {
        w->reach[wrt[i]] = 1;
    }
    for (uint32_t n = 0; n < g->node_count; n++) {
        const hri_node_record *node = &g->nodes[n];
        if (!node->sig.op->grad) {
            continue;
        }
        unsigned char any = 0;
        for (uint32_t i = 0; i < node->sig.in_count; i++) {
            any |= w->reach[node->in[i]];
        }
        for (uint32_t k = 0; any && k < node->sig.out_count; k++) {
            const hri_value *out = &g->values[node->out + k];
            w->reach[node->out + k] |=
                (unsigned char)(hr_type_is_real(out->meta.type) && !(node->sig.op->aux >> k & 1));
        }
    }
}

/* Adds `more` to what is known of the gradient of v. */
static void accumulate(walk *w, hr_value v, hr_value more) {
    if (w->g->error.code != HR_OK || more == HR_NONE) {
        return;
    }
    const hr_meta *want = &w->g->values[v].meta, *is = &w->g->values[more].meta;
    if (want->type != is->type || !hr_shape_same(&want->shape, &is->shape)) {
        char a[256], b[256];
        hri_graph_fail(w->g, HR_E_INTERNAL, "%s: its gradient is %s, expected %s",
                       w->g->values[v].name, hr_meta_print(is, a, sizeof a),
                       hr_meta_print(want, b, sizeof b));
        return;
    }
    w->grad[v] = w->grad[v] == HR_NONE ? more : HRI_NODE(w->g, "add", NULL, w->grad[v], more);
}

static int is_among(hr_value v, const hr_value *list, uint32_t count, uint32_t mask) {
    for (uint32_t i = 0; i < count; i++) {
        if (list[i] == v && mask >> i & 1) {
            return 1;
        }
    }
    return 0;
}

/* The descriptor says what a gradient keeps of the forward pass; a rule that reads more would make memory that nobody
 * expects.  `first` is the first node that the rule made. */
static void check_keeps(const hri_grad *c, uint32_t first) {
    const uint32_t all = UINT32_MAX, ins = c->sig->in_count, outs = c->sig->out_count;
    hri_keeps may = {0};
    for (uint32_t i = 0; i < ins; i++) {
        if (HRI_NEEDS(c, i)) {
            const hri_keeps one = hri_op_keeps(c->sig->op, i);
            may.in = (uint16_t)(may.in | one.in);
            may.out = (uint16_t)(may.out | one.out);
        }
    }
    for (uint32_t n = first; n < c->g->node_count && c->g->error.code == HR_OK; n++) {
        for (uint32_t i = 0; i < c->g->nodes[n].sig.in_count; i++) {
            const hr_value v = c->g->nodes[n].in[i];
            const int forward = is_among(v, c->in, ins, all) || is_among(v, c->out, outs, all);
            if (v != HR_NONE && forward && !is_among(v, c->dout, outs, all) &&
                !is_among(v, c->in, ins, may.in) && !is_among(v, c->out, outs, may.out)) {
                hri_graph_fail(c->g, HR_E_INTERNAL,
                               "%s: the gradient reads %s, which the op's descriptor does not "
                               "keep",
                               c->sig->op->name, c->g->nodes[n].name);
                return;
            }
        }
    }
}

int hri_grad_reaches(const hri_grad *c, hr_value v) {
    return c->reach[v] != 0;
}

int hri_grad_wanted(const hri_grad *c, hr_value v) {
    for (size_t i = 0; i < c->wrt_count; i++) {
        if (c->wrt[i] == v) {
            return 1;
        }
    }
    return 0;
}

/* Asks the rule of node `at`, if the loss depends on its outputs. */
static void back(walk *w, uint32_t at) {
    hr_graph *g = w->g;
    const hri_node_record node = g->nodes[at]; /* a copy: the rule grows the array */
    hr_value out[HRI_OUT_MAX], dout[HRI_OUT_MAX] = {0}, din[HRI_IN_MAX] = {0};
    uint32_t need = 0, any = 0;
    for (uint32_t k = 0; k < node.sig.out_count; k++) {
        out[k] = node.out + k;
        dout[k] = w->grad[out[k]];
        dout[k] = node.sig.op->aux >> k & 1 ? HR_NONE : dout[k];
        any |= dout[k] != HR_NONE;
    }
    for (uint32_t i = 0; i < node.sig.in_count; i++) {
        need |= (uint32_t)w->reach[node.in[i]] << i;
    }
    if (!any || !need || !node.sig.op->grad) {
        return;
    }
    char path[sizeof g->path];
    memcpy(path, g->path, sizeof path);
    /* Gradient nodes are named under the scope of the node they belong to. */
    const size_t length = strlen(node.name) - strlen(node.sig.op->name);
    const size_t scope = length ? length - 1 : 0;
    memcpy(g->path, node.name, scope);
    g->path[scope] = '\0';
    g->forward = at;
    hri_grad c = {.g = g,
                  .sig = &node.sig,
                  .in = node.in,
                  .out = out,
                  .dout = dout,
                  .need = need,
                  .din = din,
                  .reach = w->reach,
                  .wrt = w->wrt,
                  .wrt_count = w->wrt_count};
    const uint32_t first = g->node_count;
    node.sig.op->grad(&c);
    check_keeps(&c, first);
    for (uint32_t i = 0; i < node.sig.in_count; i++) {
        if (HRI_NEEDS(&c, i)) {
            accumulate(w, node.in[i], din[i]);
        }
    }
    for (uint32_t i = 0; i < 2 && c.also[i].of != HR_NONE; i++) {
        accumulate(w, c.also[i].of, c.also[i].grad);
    }
    memcpy(g->path, path, sizeof path);
}

static int check_request(hr_graph *g, hr_value loss, hr_value seed, const hr_value *wrt,
                         size_t count) {
    const int there = loss != HR_NONE && loss < g->value_count;
    if (!there || !hr_type_is_real(g->values[loss].meta.type) || g->values[loss].meta.shape.rank) {
        char text[256] = "no value";
        if (there) {
            hr_meta_print(&g->values[loss].meta, text, sizeof text);
        }
        hri_graph_fail(g, HR_E_SHAPE, "the loss must be a floating-point scalar, not %s", text);
    } else if (seed != HR_NONE && (seed >= g->value_count || g->values[seed].meta.shape.rank != 0 ||
                                   g->values[seed].meta.type != g->values[loss].meta.type)) {
        hri_graph_fail(g, HR_E_SHAPE, "the initial gradient must be a scalar of the loss's type");
    }
    for (size_t i = 0; i < count && g->error.code == HR_OK; i++) {
        if (wrt[i] == HR_NONE || wrt[i] >= g->value_count ||
            !hr_type_is_real(g->values[wrt[i]].meta.type)) {
            hri_graph_fail(g, HR_E_INVALID, "no gradient with respect to value %u (%s)", wrt[i],
                           hr_graph_name(g, wrt[i]));
        }
    }
    return g->error.code == HR_OK;
}

hr_status hr_graph_differentiate(hr_graph *g, hr_value loss, hr_value seed, const hr_value *wrt,
                                 size_t count, hr_value *grads) {
    if (g->frozen) {
        hri_graph_fail(g, HR_E_BUSY, "the graph is frozen; it cannot be differentiated");
    }
    if (g->error.code != HR_OK || !check_request(g, loss, seed, wrt, count)) {
        return g->error.code;
    }
    walk w = {.g = g, .value_count = g->value_count, .wrt = wrt, .wrt_count = count};
    w.reach = hri_calloc(g->value_count, 1);
    w.grad = hri_calloc(g->value_count, sizeof *w.grad);
    if (!w.reach || !w.grad) {
        hri_graph_fail(g, HR_E_NOMEM_HOST, "out of host memory to differentiate the graph");
    } else {
        const hri_phase phase = g->phase;
        const uint32_t forward = g->forward, last = g->node_count;
        mark_reach(&w, wrt, count);
        g->phase = HRI_BACKWARD;
        if (w.reach[loss]) {
            w.grad[loss] = seed != HR_NONE ? seed
                                           : hr_graph_fill(g, g->values[loss].meta.type,
                                                           g->values[loss].meta.shape, 1.0);
        }
        for (uint32_t n = last; n-- > 0 && g->error.code == HR_OK;) {
            back(&w, n);
        }
        g->phase = phase;
        g->forward = forward;
    }
    for (size_t i = 0; i < count && g->error.code == HR_OK; i++) {
        grads[i] = w.grad[wrt[i]];
    }
    hri_free(w.reach);
    hri_free(w.grad);
    return g->error.code;
}
