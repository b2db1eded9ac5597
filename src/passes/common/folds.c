/* Where a 1 x 1 convolution makes many channels of few, and batch norm with an addend and relu follows, batch_norm_apply_mask becomes
 * conv_norm_apply_mask: the gradient of both is one op, which needs no output of the convolution.
 *
 * Done to every model that is trained in bf16, after its precision is lowered.  Whether is decided by the shape of a sample alone, so that it is the
 * same for every batch, budget and device: the op makes products with K x K matrices in place of passes over N channels, which pays where
 * K is small beside N and beside the number of pixels. */
#include <string.h>

#include "base/alloc.h"
#include "ops/common/conv.h"
#include "passes/common/folds.h"
#include "passes/common/pass.h"

enum { MOST_CHANNELS = 256, LEAST_PIXELS = 196, WHOLE = 8 };

static const hri_node_record *maker_of(const hr_graph *g, hr_value v) {
    const uint32_t node = g->values[v].node;
    return node == HRI_NO_NODE ? NULL : &g->nodes[node];
}

static int is_op(const hri_node_record *n, const char *name) {
    return n && !strcmp(n->sig.op->name, name);
}

static int is_result(const hr_graph *g, hr_value v) {
    for (uint32_t i = 0; i < g->result_count; i++) {
        if (g->results[i].value == v) {
            return 1;
        }
    }
    return 0;
}

static uint32_t readers_of(const hr_graph *g, hr_value v) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < g->node_count; n++) {
        for (uint32_t i = 0; i < g->nodes[n].sig.in_count; i++) {
            count += g->nodes[n].in[i] == v;
        }
    }
    return count;
}

/* A parameter that is trained, or its cast. */
static int is_trained(const hr_graph *g, hr_value v) {
    const hri_node_record *cast = maker_of(g, v);
    const hr_value of = is_op(cast, "cast") ? cast->in[0] : v;
    return g->values[of].kind == HR_VALUE_PARAM && !hri_graph_tags(g, of)->frozen;
}

static int pays(const hri_conv *v) {
    return v->c <= MOST_CHANNELS && 2 * v->c <= v->o && v->h * v->w >= LEAST_PIXELS &&
           v->c % WHOLE == 0 && v->o % WHOLE == 0;
}

static int is_of_pixels(const hri_conv *v) {
    return v->kh == 1 && v->kw == 1 && v->sh == 1 && v->sw == 1 && !v->ph && !v->pw &&
           !v->ph_after && !v->pw_after && v->groups == 1;
}

/* The convolution of batch norm `n`; NULL: it stays as it is. */
static const hri_node_record *taken(const hr_graph *g, const hri_node_record *n) {
    if (!is_op(n, "batch_norm_apply_mask") || n->sig.in[0].type != HR_TYPE_BF16) {
        return NULL;
    }
    const hr_value x = n->in[0];
    const hri_node_record *conv = maker_of(g, x), *moments = maker_of(g, n->in[3]);
    if (!is_op(conv, "conv2d") || conv->sig.in_count != 2 || !is_op(moments, "batch_norm_moments") ||
        moments->in[0] != x || n->in[3] != moments->out || n->in[4] != moments->out + 1) {
        return NULL;
    }
    const hri_conv v =
        hri_conv_of(conv->sig.attr, &conv->sig.in[0].shape, &conv->sig.in[1].shape);
    const hri_node_record *a = maker_of(g, conv->in[0]);
    return is_of_pixels(&v) && pays(&v) && a && is_trained(g, conv->in[1]) &&
                   is_trained(g, n->in[1]) && is_trained(g, n->in[2]) && !is_result(g, x) &&
                   readers_of(g, x) == 2
               ? conv
               : NULL;
}

int hri_folds_take(const hr_graph *g) {
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (taken(g, &g->nodes[i])) {
            return 1;
        }
    }
    return 0;
}

static hr_value take_node(hri_rewrite *r, const hri_node_record *n, hr_value *in) {
    const hri_node_record *conv = taken(r->from, n);
    if (!conv) {
        return hri_rewrite_keep(r, n, in);
    }
    in[6] = r->values[conv->in[0]];
    in[7] = r->values[conv->in[1]];
    return hr_graph_node(r->to, "conv_norm_apply_mask", in, 8, NULL);
}

hr_status hri_folds_apply(const hr_graph *from, hr_graph *to) {
    hri_rewrite r = {.from = from, .to = to, .node = take_node};
    hr_status status = hri_rewrite_graph(&r);
    for (hr_value v = 1; status == HR_OK && v < from->value_count; v++) {
        if (r.values[v] != v) {
            hri_graph_fail(to, HR_E_INTERNAL, "value %u became %u", v, r.values[v]);
            status = to->error.code;
        }
    }
    hri_free(r.values);
    return status;
}
