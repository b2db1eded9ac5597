/* See channels.h. */
#include "passes/common/channels.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/dims.h"
#include "ops/common/box.h"
#include "ops/common/conv.h"

/* ---- elements ---- */

static int is_persistent(const hr_graph *g, hr_value v) {
    const hri_value *value = &g->values[v];
    return value->node == HRI_NO_NODE &&
           (value->kind == HR_VALUE_PARAM || value->kind == HR_VALUE_STATE);
}

/* Parameters and states of two dimensions and more have elements along the last two. */
static int is_weight(const hr_graph *g, hr_value v) {
    return is_persistent(g, v) && g->values[v].meta.shape.rank > 1;
}

static int64_t last_of(const hr_graph *g, hr_value v) {
    const hr_shape *s = &g->values[v].meta.shape;
    return s->rank ? s->dim[s->rank - 1] : 0;
}

uint32_t hri_channels_size(const hri_channels *c, hr_value v) {
    return c->axis[v] < 0 ? 0 : (uint32_t)c->g->values[v].meta.shape.dim[c->axis[v]];
}

uint32_t hri_channels_before(const hri_channels *c, hr_value v) {
    const hr_shape *s = &c->g->values[v].meta.shape;
    return is_weight(c->g, v) ? (uint32_t)s->dim[s->rank - 2] : 0;
}

uint32_t hri_channels_unit(const hri_channels *c, uint32_t element) {
    while (c->up[element] != element) {
        element = c->up[element];
    }
    return element;
}

/* The same, and the way is half as long the next time. */
static uint32_t find(hri_channels *c, uint32_t element) {
    while (c->up[element] != element) {
        element = c->up[element] = c->up[c->up[element]];
    }
    return element;
}

static void tie(hri_channels *c, uint32_t a, uint32_t b) {
    a = find(c, a);
    b = find(c, b);
    if (a == b) {
        return;
    }
    const uint32_t low = a < b ? a : b, high = a < b ? b : a;
    c->fixed[low] |= c->fixed[high];
    c->up[high] = low;
}

static void fix(hri_channels *c, hr_value v) {
    const uint32_t n = hri_channels_size(c, v) + hri_channels_before(c, v);
    for (uint32_t i = 0; i < n; i++) {
        c->fixed[hri_channels_unit(c, c->first[v] + i)] = 1;
    }
}

/* 1: its channels are in its last dimension, and nothing else of it is tied. */
static int is_plain(const hri_channels *c, hr_value v) {
    return !is_weight(c->g, v) && c->axis[v] == c->g->values[v].meta.shape.rank - 1;
}

/* Channels of a and b, one by one; a value of one channel for all of the other's stays. */
static void tie_values(hri_channels *c, hr_value a, hr_value b) {
    const uint32_t na = hri_channels_size(c, a), nb = hri_channels_size(c, b);
    if (!na || !nb) {
        return; /* a scalar */
    }
    if (!is_plain(c, a) || !is_plain(c, b) || (na != nb && na != 1 && nb != 1)) {
        fix(c, a);
        fix(c, b);
    } else if (na != nb) {
        fix(c, na == 1 ? a : b);
    } else {
        for (uint32_t i = 0; i < na; i++) {
            tie(c, c->first[a] + i, c->first[b] + i);
        }
    }
}

static void fix_all(hri_channels *c, const hri_node_record *n) {
    for (uint32_t i = 0; i < n->sig.in_count; i++) {
        fix(c, n->in[i]);
    }
    for (uint32_t k = 0; k < n->sig.out_count; k++) {
        fix(c, n->out + k);
    }
}

/* ---- what ops do ---- */

/* Every input and output has the channels of the first output, or is a scalar. */
static void tie_all(hri_channels *c, const hri_node_record *n) {
    for (uint32_t i = 0; i < n->sig.in_count; i++) {
        tie_values(c, n->in[i], n->out);
    }
    for (uint32_t k = 1; k < n->sig.out_count; k++) {
        tie_values(c, n->out + k, n->out);
    }
}

/* One output of the input's channels; what else comes out has its own shape and nobody's channels. */
static void tie_first(hri_channels *c, const hri_node_record *n) {
    tie_values(c, n->in[0], n->out);
}

static void tie_conv(hri_channels *c, const hri_node_record *n) {
    const hr_value x = n->in[0], w = n->in[1], y = n->out;
    const int64_t groups = ((const hri_conv_attr *)n->sig.attr)->groups;
    const uint32_t ins = hri_channels_size(c, x), outs = hri_channels_size(c, y);
    const uint32_t each = groups > 0 ? ins / (uint32_t)groups : 0;
    if (!is_weight(c->g, w) || !is_plain(c, x) || !each) {
        fix_all(c, n);
        return;
    }
    const uint32_t w_out = c->first[w], w_in = w_out + outs;
    for (uint32_t i = 0; i < outs; i++) {
        tie(c, w_out + i, c->first[y] + i);
    }
    if (n->sig.in_count > 2) {
        tie_values(c, n->in[2], y);
    }
    if (each == 1 && groups > 1) { /* depthwise: its outputs go with their input */
        for (uint32_t i = 0; i < outs; i++) {
            tie(c, c->first[y] + i, c->first[x] + i / (outs / ins));
        }
        c->fixed[hri_channels_unit(c, w_in)] = 1;
        return;
    }
    for (uint32_t i = 0; i < ins; i++) {
        tie(c, c->first[x] + i, w_in + i % each);
    }
    for (uint32_t i = 0; i < outs; i++) { /* the same places of all groups */
        tie(c, c->first[y] + i, c->first[y] + i % (outs / (uint32_t)groups));
    }
}

static bool flag_of(const hri_sig *s, const char *name) {
    for (const hri_field *f = s->op->fields; f && f->name && s->attr; f++) {
        if (f->type == HRI_FIELD_BOOL && !strcmp(f->name, name)) {
            return *(const bool *)((const char *)s->attr + f->offset);
        }
    }
    return false;
}

static void tie_matmul(hri_channels *c, const hri_node_record *n) {
    const hr_value x = n->in[0], w = n->in[1], y = n->out;
    if (!is_weight(c->g, w) || c->g->values[w].meta.shape.rank != 2 || !is_plain(c, x) ||
        !is_plain(c, y) || flag_of(&n->sig, "transpose-a")) {
        fix_all(c, n);
        return;
    }
    const uint32_t last = c->first[w], before = last + hri_channels_size(c, w);
    const int turned = flag_of(&n->sig, "transpose-b");
    for (uint32_t i = 0; i < hri_channels_size(c, x); i++) {
        tie(c, c->first[x] + i, (turned ? last : before) + i);
    }
    for (uint32_t i = 0; i < hri_channels_size(c, y); i++) {
        tie(c, c->first[y] + i, (turned ? before : last) + i);
    }
    if (n->sig.in_count > 2) {
        tie_values(c, n->in[2], y);
    }
}

/* Scores are not channels: what is read of x goes with the weight's depth. */
static void tie_head(hri_channels *c, const hri_node_record *n) {
    const hr_value x = n->in[0], w = n->in[1];
    if (!is_weight(c->g, w) || c->g->values[w].meta.shape.rank != 2 || !is_plain(c, x)) {
        fix_all(c, n);
        return;
    }
    for (uint32_t i = 0; i < hri_channels_size(c, x); i++) {
        tie(c, c->first[x] + i, c->first[w] + i);
    }
    for (uint32_t i = 0; i < hri_channels_before(c, w); i++) {
        c->fixed[hri_channels_unit(c, c->first[w] + hri_channels_size(c, w) + i)] = 1;
    }
    for (uint32_t k = 0; k < n->sig.out_count; k++) {
        fix(c, n->out + k);
    }
}

static void tie_concat(hri_channels *c, const hri_node_record *n) {
    const int rank = c->g->values[n->out].meta.shape.rank;
    const int64_t given = *(const int64_t *)n->sig.attr; /* its only attribute */
    const int64_t axis = given < 0 ? given + rank : given;
    uint32_t at = 0;
    for (uint32_t i = 0; i < n->sig.in_count; i++) {
        const hr_value x = n->in[i];
        const uint32_t size = hri_channels_size(c, x);
        if (!is_plain(c, x) || rank < 2) {
            fix_all(c, n);
            return;
        }
        for (uint32_t k = 0; k < size; k++) {
            tie(c, c->first[x] + k, c->first[n->out] + at + k);
        }
        at += axis == rank - 1 ? size : 0;
    }
}

/* The channel of an element of the new last dimension does not depend on the row where whole channels lie in it. */
static void tie_reshape(hri_channels *c, const hri_node_record *n) {
    const hr_value x = n->in[0], y = n->out;
    const hr_shape *from = &c->g->values[x].meta.shape;
    const uint32_t channels = hri_channels_size(c, x), last = hri_channels_size(c, y);
    uint32_t inner = 1;
    for (int d = c->axis[x] + 1; d < from->rank; d++) {
        inner *= (uint32_t)from->dim[d];
    }
    if (!channels || !last || is_weight(c->g, x) ||
        (last % (inner * channels) != 0 && (inner != 1 || channels % last != 0))) {
        fix_all(c, n);
        return;
    }
    for (uint32_t i = 0; i < (last > channels ? last : channels); i++) {
        tie(c, c->first[y] + i % last, c->first[x] + i / inner % channels);
    }
}

static void tie_transpose(hri_channels *c, const hri_node_record *n) {
    const hr_value x = n->in[0], y = n->out;
    if (is_weight(c->g, x) || c->axis[y] < 0) {
        fix_all(c, n);
        return;
    }
    for (uint32_t i = 0; i < hri_channels_size(c, x); i++) {
        tie(c, c->first[x] + i, c->first[y] + i);
    }
}

/* Reductions: channels stay where the last dimension does. */
static void tie_reduce(hri_channels *c, const hri_node_record *n) {
    const int rank = c->g->values[n->in[0]].meta.shape.rank;
    uint32_t axes;
    const hri_dims *given = n->sig.attr; /* the first of its attributes */
    if (!rank || hri_dims_axes(given, rank, &axes) || axes >> (rank - 1) & 1u) {
        fix_all(c, n);
        return;
    }
    tie_first(c, n);
}

static void tie_pad(hri_channels *c, const hri_node_record *n) {
    const hr_shape *x = &c->g->values[n->in[0]].meta.shape;
    const hri_attr_pad *p = n->sig.attr;
    const int d = x->rank - 1;
    if (d < 0 || (p->before.count > d && p->before.at[d]) ||
        (p->after.count > d && p->after.at[d])) {
        fix_all(c, n);
        return;
    }
    tie_first(c, n);
}

/* Channels that are picked by their numbers stay, the others are free. */
static void tie_slice(hri_channels *c, const hri_node_record *n) {
    const hri_attr_slice *p = n->sig.attr;
    const hr_value x = n->in[0], y = n->out;
    const int d = c->g->values[x].meta.shape.rank - 1;
    const int64_t begin = d >= 0 && p->begin.count > d ? p->begin.at[d] : 0;
    const uint32_t from = (uint32_t)(begin < 0 ? begin + last_of(c->g, x) : begin);
    if (hri_channels_size(c, x) == hri_channels_size(c, y)) {
        tie_first(c, n);
        return;
    }
    if (!is_plain(c, x) || !is_plain(c, y) || hri_box_step(&p->step, d) != 1) {
        fix_all(c, n);
        return;
    }
    for (uint32_t i = 0; i < hri_channels_size(c, y); i++) {
        tie(c, c->first[x] + from + i, c->first[y] + i);
    }
    fix(c, y);
}

typedef struct rule {
    const char *op;
    void (*tie)(hri_channels *c, const hri_node_record *n);
} rule;

static const rule rules[] = {
    {"conv2d", tie_conv},
    {"matmul", tie_matmul},
    {"linear_cross_entropy", tie_head},
    {"concat", tie_concat},
    {"reshape", tie_reshape},
    {"transpose", tie_transpose},
    {"mean", tie_reduce},
    {"sum", tie_reduce},
    {"pad", tie_pad},
    {"slice", tie_slice},
    {"bias_add", tie_all},
    {"batch_norm", tie_all},
    {"batch_norm_relu", tie_all},
    {"batch_norm_add_relu", tie_all},
    {"batch_norm_inference", tie_all},
    {"batch_norm_moments", tie_all},
    {"batch_norm_apply", tie_all},
    {"batch_norm_stats", tie_all},
    {"add", tie_all},
    {"sub", tie_all},
    {"mul", tie_all},
    {"div", tie_all},
    {"maximum", tie_all},
    {"minimum", tie_all},
    {"prelu", tie_all},
    {"max_pool", tie_all},
    {"avg_pool", tie_first},
    {"global_avg_pool", tie_first},
    {"resize", tie_first},
    {"relu", tie_first},
    {"relu_mask", tie_first},
    {"gelu", tie_first},
    {"silu", tie_first},
    {"sigmoid", tie_first},
    {"tanh", tie_first},
    {"function", tie_first},
    {"clip", tie_first},
    {"abs", tie_first},
    {"exp", tie_first},
    {"log", tie_first},
    {"sqrt", tie_first},
    {"rsqrt", tie_first},
    {"power", tie_first},
    {"affine", tie_first},
    {"cast", tie_first},
    {"dropout", tie_first},
    {"noise", tie_first},
    {"stop_gradient", tie_first},
};

static void tie_node(hri_channels *c, const hri_node_record *n) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (!strcmp(n->sig.op->name, rules[i].op)) {
            rules[i].tie(c, n);
            return;
        }
    }
    fix_all(c, n);
}

/* ---- the whole ---- */

/* Channels lie in the last dimension but behind a transpose, which may move them. */
static int8_t axis_of(const hri_channels *c, hr_value v) {
    const hri_value *value = &c->g->values[v];
    const int rank = value->meta.shape.rank;
    if (value->node == HRI_NO_NODE || strcmp(c->g->nodes[value->node].sig.op->name, "transpose")) {
        return (int8_t)(rank - 1);
    }
    const hri_node_record *n = &c->g->nodes[value->node];
    const hri_attr_dims *p = n->sig.attr;
    for (int d = 0; d < rank; d++) {
        if ((p->to.count ? p->to.at[d] : rank - 1 - d) == c->axis[n->in[0]]) {
            return (int8_t)d;
        }
    }
    return -1;
}

static hr_status count_elements(hri_channels *c) {
    uint64_t count = 0;
    for (hr_value v = 1; v < c->g->value_count; v++) {
        c->axis[v] = axis_of(c, v);
        c->first[v] = (uint32_t)count;
        count += (uint64_t)hri_channels_size(c, v) + hri_channels_before(c, v);
        if (count > INT32_MAX) {
            return HR_E_UNSUPPORTED;
        }
    }
    c->count = (uint32_t)count;
    return HR_OK;
}

static void find_layers(hri_channels *c) {
    for (uint32_t i = 0; i < c->g->node_count; i++) {
        const hri_node_record *n = &c->g->nodes[i];
        const int conv = !strcmp(n->sig.op->name, "conv2d");
        if ((!conv && strcmp(n->sig.op->name, "matmul") != 0) || !is_weight(c->g, n->in[1]) ||
            (!conv && (c->g->values[n->in[1]].meta.shape.rank != 2))) {
            continue;
        }
        const uint32_t last = c->first[n->in[1]];
        const uint32_t before = last + hri_channels_size(c, n->in[1]);
        hri_channel_layer l = {.node = i,
                               .in = n->in[0],
                               .weight = n->in[1],
                               .bias = n->sig.in_count > 2 ? n->in[2] : HR_NONE,
                               .out = n->out,
                               .conv = (uint8_t)conv,
                               .turned = !conv && flag_of(&n->sig, "transpose-b"),
                               .groups = 1};
        l.in_first = l.turned ? last : before;
        l.out_first = l.turned ? before : last;
        l.ins = l.turned ? last_of(c->g, l.weight) : hri_channels_before(c, l.weight);
        l.outs = l.turned ? hri_channels_before(c, l.weight) : last_of(c->g, l.weight);
        if (conv) {
            l.groups = ((const hri_conv_attr *)n->sig.attr)->groups;
            l.depthwise = l.groups > 1 && l.ins == 1;
        }
        c->layers[c->layer_count++] = l;
    }
}

static void fix_ends(hri_channels *c) {
    for (hr_value v = 1; v < c->g->value_count; v++) {
        const hri_value *value = &c->g->values[v];
        /* Constants with numbers of their own stay; one number for all elements can be made in any length. */
        if (value->kind == HR_VALUE_INPUT ||
            (value->node == HRI_NO_NODE && !is_persistent(c->g, v) && value->data)) {
            fix(c, v);
        }
    }
    for (uint32_t i = 0; i < c->g->result_count; i++) {
        fix(c, c->g->results[i].value);
    }
}

/* Every element points at its unit; the first of a unit comes before the others. */
static void flatten(hri_channels *c) {
    for (uint32_t i = 0; i < c->count; i++) {
        c->up[i] = c->up[c->up[i]];
    }
}

hr_status hri_channels_init(hri_channels *out, const hr_graph *g) {
    hri_channels c = {.g = g};
    c.axis = HRI_ARENA_ARRAY(&c.arena, int8_t, g->value_count);
    c.first = HRI_ARENA_ARRAY(&c.arena, uint32_t, g->value_count);
    c.layers = HRI_ARENA_ARRAY(&c.arena, hri_channel_layer, g->node_count + 1);
    hr_status status = c.axis && c.first && c.layers ? count_elements(&c) : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        c.up = HRI_ARENA_ARRAY(&c.arena, uint32_t, c.count + 1);
        c.fixed = HRI_ARENA_ARRAY(&c.arena, uint8_t, c.count + 1);
        status = c.up && c.fixed ? HR_OK : HR_E_NOMEM_HOST;
    }
    if (status != HR_OK) {
        hri_channels_deinit(&c);
        return status;
    }
    for (uint32_t i = 0; i < c.count; i++) {
        c.up[i] = i;
    }
    find_layers(&c);
    for (uint32_t i = 0; i < g->node_count; i++) {
        tie_node(&c, &g->nodes[i]);
    }
    fix_ends(&c);
    flatten(&c);
    *out = c;
    return HR_OK;
}

hr_status hri_channels_join(hri_channels *c, const hri_channels *other) {
    uint32_t *here = hri_calloc((size_t)other->count + 1, sizeof *here); /* 1 + an element of c */
    if (!here) {
        return HR_E_NOMEM_HOST;
    }
    for (hr_value v = 1; v < other->g->value_count; v++) {
        const hr_value w =
            is_persistent(other->g, v) ? hr_graph_find(c->g, other->g->values[v].name) : HR_NONE;
        const uint32_t n = hri_channels_size(other, v) + hri_channels_before(other, v);
        if (w == HR_NONE || hri_channels_size(c, w) + hri_channels_before(c, w) != n) {
            continue;
        }
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t unit = hri_channels_unit(other, other->first[v] + i);
            const uint32_t mine = c->first[w] + i;
            if (here[unit]) {
                tie(c, here[unit] - 1, mine);
            }
            here[unit] = mine + 1;
            c->fixed[find(c, mine)] |= other->fixed[unit];
        }
    }
    flatten(c);
    hri_free(here);
    return HR_OK;
}

void hri_channels_deinit(hri_channels *c) {
    hri_arena_deinit(&c->arena);
    *c = (hri_channels){0};
}
