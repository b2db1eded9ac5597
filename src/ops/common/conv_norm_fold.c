/* Which gradients are folded: where a 1 x 1 convolution makes many channels of few, and batch norm, plain or with an addend and relu, is all that reads them.
 *
 * Whether is decided by the type and the shape of a sample alone, so that it is the same for every batch, budget and device.  The op makes products
 * with K x K matrices in place of passes over N channels, which pays where K is small beside N and beside the number of pixels.  In f32 the
 * gradient stays in two ops: there it was not measured, and products may be rounded to tf32 on a GPU. */
#include <string.h>

#include "graph/graph.h"
#include "ops/common/conv.h"
#include "ops/common/conv_norm.h"

enum { MOST_CHANNELS = 256, LEAST_PIXELS = 196, WHOLE = 8 };

static const hri_node_record *maker_of(const hr_graph *g, hr_value v) {
    const uint32_t node = g->values[v].node;
    return node == HRI_NO_NODE ? NULL : &g->nodes[node];
}

static int is_op(const hri_node_record *n, const char *name) {
    return n && !strcmp(n->sig.op->name, name);
}

/* How often it is read but by gradients. */
static uint32_t readers_of(const hr_graph *g, hr_value v) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < g->node_count; n++) {
        for (uint32_t i = 0; g->nodes[n].phase != HRI_BACKWARD && i < g->nodes[n].sig.in_count;
             i++) {
            count += g->nodes[n].in[i] == v;
        }
    }
    return count;
}

static int is_of_pixels(const hri_conv *v) {
    return v->kh == 1 && v->kw == 1 && v->sh == 1 && v->sw == 1 && !v->ph && !v->pw &&
           !v->ph_after && !v->pw_after && v->groups == 1;
}

static int pays(const hri_conv *v) {
    return v->c <= MOST_CHANNELS && 2 * v->c <= v->o && v->h * v->w >= LEAST_PIXELS &&
           v->c % WHOLE == 0 && v->o % WHOLE == 0;
}

/* The convolution that made x; NULL: the gradient stays in two ops. */
static const hri_node_record *taken(const hri_grad *c) {
    const hr_graph *g = c->g;
    const hr_value x = c->in[0];
    if (c->sig->in[0].type != HR_TYPE_BF16 || g->error.code != HR_OK) {
        return NULL;
    }
    const hri_node_record *conv = maker_of(g, x), *moments = maker_of(g, c->in[3]);
    if (!is_op(conv, "conv2d") || conv->sig.in_count != 2 ||
        !is_op(moments, "batch_norm_moments") || moments->in[0] != x || c->in[3] != moments->out ||
        c->in[4] != moments->out + 1 || readers_of(g, x) != 2) {
        return NULL;
    }
    const hri_conv v = hri_conv_of(conv->sig.attr, &conv->sig.in[0].shape, &conv->sig.in[1].shape);
    return is_of_pixels(&v) && pays(&v) ? conv : NULL;
}

int hri_conv_norm_fold(hri_grad *c) {
    const hri_node_record *conv = taken(c);
    if (!conv || !HRI_NEEDS(c, 1) || !HRI_NEEDS(c, 2) || hri_grad_wanted(c, c->in[0]) ||
        !hri_grad_reaches(c, conv->in[0]) || !hri_grad_reaches(c, conv->in[1])) {
        return 0;
    }
    const hr_value a = conv->in[0], w = conv->in[1];
    const int masked = c->sig->out_count > 1;
    const hr_value from[] = {c->dout[0], a, w, c->in[1], c->in[4], masked ? c->out[1] : HR_NONE};
    const hr_value da = hri_node(c->g, "conv_norm_grad", from, masked ? 6 : 5, NULL);
    c->also[0] = (hri_grad_also){a, da};
    c->also[1] = (hri_grad_also){w, hr_graph_output(c->g, da, HRI_CN_DW)};
    c->din[1] = hr_graph_output(c->g, da, HRI_CN_DGAMMA);
    c->din[2] = hr_graph_output(c->g, da, HRI_CN_DBETA);
    if (masked && HRI_NEEDS(c, 5)) {
        c->din[5] = hr_graph_output(c->g, da, HRI_CN_DZ);
    }
    return 1;
}
