/* See shrinking.h. */
#include "passes/common/shrinking.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/dims.h"
#include "ops/common/box.h"
#include "ops/common/conv.h"
#include "passes/common/pass.h"

static int is_persistent(const hr_graph *g, hr_value v) {
    const hri_value *value = &g->values[v];
    return value->node == HRI_NO_NODE &&
           (value->kind == HR_VALUE_PARAM || value->kind == HR_VALUE_STATE);
}

/* ---- cuts ---- */

/* The places of `count` elements from `first` on that are gone; *kept: how many are not. */
static const uint8_t *places(hri_cuts *cuts, const hri_channels *c, const uint8_t *gone,
                             uint32_t first, uint32_t count, uint32_t *kept) {
    uint8_t *at = HRI_ARENA_ARRAY(&cuts->arena, uint8_t, count + 1);
    *kept = count;
    for (uint32_t i = 0; at && i < count; i++) {
        at[i] = gone[hri_channels_unit(c, first + i)];
        *kept -= at[i];
    }
    return at;
}

static hr_status cut_value(hri_cuts *cuts, const hri_channels *c, const uint8_t *gone, hr_value v) {
    hri_cut cut = {.last_count = hri_channels_size(c, v),
                   .before_count = hri_channels_before(c, v)};
    const uint32_t first = c->first[v];
    cut.last = places(cuts, c, gone, first, cut.last_count, &cut.last_kept);
    cut.before = places(cuts, c, gone, first + cut.last_count, cut.before_count, &cut.before_kept);
    cut.name = hri_arena_strdup(&cuts->arena, c->g->values[v].name);
    if (!cut.last || !cut.before || !cut.name) {
        return HR_E_NOMEM_HOST;
    }
    if (cut.last_kept == cut.last_count && cut.before_kept == cut.before_count) {
        return HR_OK;
    }
    cuts->of[cuts->count] = cut;
    return hri_strmap_put(&cuts->names, cut.name, cuts->count++);
}

hr_status hri_cuts_init(hri_cuts *out, const hri_channels *c, const uint8_t *gone) {
    hri_cuts cuts = {.count = 0};
    cuts.of = HRI_ARENA_ARRAY(&cuts.arena, hri_cut, c->g->value_count);
    hr_status status = cuts.of ? HR_OK : HR_E_NOMEM_HOST;
    for (hr_value v = 1; v < c->g->value_count && status == HR_OK; v++) {
        status = is_persistent(c->g, v) && c->axis[v] >= 0 ? cut_value(&cuts, c, gone, v) : HR_OK;
    }
    if (status != HR_OK) {
        hri_cuts_deinit(&cuts);
        return status;
    }
    *out = cuts;
    return HR_OK;
}

void hri_cuts_deinit(hri_cuts *cuts) {
    hri_strmap_deinit(&cuts->names);
    hri_arena_deinit(&cuts->arena);
    *cuts = (hri_cuts){.count = 0};
}

const hri_cut *hri_cuts_find(const hri_cuts *cuts, const char *name) {
    uint64_t index;
    return hri_strmap_get_n(&cuts->names, name, strlen(name), &index) ? &cuts->of[index] : NULL;
}

/* ---- the graph ---- */

enum { STAYS = 1, GOES = 2 };

typedef struct work {
    const hri_cuts *cuts;
    hri_channels c;
    uint8_t *fate; /* by unit: STAYS, GOES; 0: nobody said */
} work;

static int goes(const work *w, uint32_t element) {
    return w->fate[hri_channels_unit(&w->c, element)] & GOES;
}

/* What the cuts say of a parameter's elements. */
static void read_cut(work *w, hr_value v, const hri_cut *cut) {
    const uint32_t last = hri_channels_size(&w->c, v), before = hri_channels_before(&w->c, v);
    for (uint32_t i = 0; i < last + before; i++) {
        const int gone = !cut ? 0 : i < last ? cut->last[i] : cut->before[i - last];
        w->fate[hri_channels_unit(&w->c, w->c.first[v] + i)] |= gone ? GOES : STAYS;
    }
}

static void read_cuts(work *w, hr_graph *to) {
    const hr_graph *g = w->c.g;
    for (hr_value v = 1; v < g->value_count && to->error.code == HR_OK; v++) {
        const hri_cut *cut = is_persistent(g, v) ? hri_cuts_find(w->cuts, g->values[v].name) : NULL;
        if (cut && (cut->last_count != hri_channels_size(&w->c, v) ||
                    cut->before_count != hri_channels_before(&w->c, v))) {
            hri_graph_fail(to, HR_E_SHAPE, "%s has another shape than the model that was shrunk",
                           cut->name);
        } else if (is_persistent(g, v)) {
            read_cut(w, v, cut);
        }
    }
    for (uint32_t i = 0; i < w->c.count && to->error.code == HR_OK; i++) {
        const uint32_t unit = hri_channels_unit(&w->c, i);
        if ((w->fate[unit] & GOES) && ((w->fate[unit] & STAYS) || w->c.fixed[unit])) {
            hri_graph_fail(to, HR_E_UNSUPPORTED,
                           "the graphs for training and evaluation tie its channels differently");
        }
    }
}

/* How many of `count` elements stay. */
static int64_t left(const work *w, uint32_t first, uint32_t count) {
    int64_t n = count;
    for (uint32_t i = 0; i < count; i++) {
        n -= goes(w, first + i) ? 1 : 0;
    }
    return n;
}

static hr_shape shape_of(const work *w, hr_value v) {
    hr_shape s = w->c.g->values[v].meta.shape;
    const uint32_t last = hri_channels_size(&w->c, v), before = hri_channels_before(&w->c, v);
    if (w->c.axis[v] >= 0) {
        s.dim[w->c.axis[v]] = left(w, w->c.first[v], last);
    }
    if (before) {
        s.dim[s.rank - 2] = left(w, w->c.first[v] + last, before);
    }
    return s;
}

static hr_value take_source(hri_rewrite *r, hr_value v) {
    const work *w = r->user;
    const hri_value *value = &r->from->values[v];
    const hr_shape shape = shape_of(w, v);
    char name[280] = "/";
    if (hr_shape_same(&shape, &value->meta.shape) || value->kind == HR_VALUE_INPUT) {
        return HR_NONE;
    }
    if (!is_persistent(r->from, v)) { /* one number for all elements, or it would stay */
        return hr_graph_fill(r->to, value->meta.type, shape, value->init.a);
    }
    if (strlen(value->name) + 2 > sizeof name) {
        hri_graph_fail(r->to, HR_E_INVALID, "%s: the name is too long", value->name);
        return HRI_REWRITE_GONE;
    }
    strcat(name, value->name);
    const hr_value made = value->kind == HR_VALUE_PARAM
                              ? hr_graph_param(r->to, name, value->meta.type, shape, value->init)
                              : hr_graph_state(r->to, name, value->meta.type, shape, value->init);
    if (value->tags && made != HR_NONE) {
        hr_tags tags = *value->tags;
        tags.owner = r->values[tags.owner];
        hr_graph_set_tags(r->to, made, &tags);
    }
    return made == HR_NONE ? HRI_REWRITE_GONE : made;
}

/* Channels that are picked stay (channels.c), but those before them may be fewer. */
static hr_value take_slice(hri_rewrite *r, const hri_node_record *n, hr_value *in) {
    const work *w = r->user;
    hri_attr_slice attr = *(const hri_attr_slice *)n->sig.attr;
    const hr_shape *x = &n->sig.in[0].shape;
    const int d = x->rank - 1;
    if (d >= 0 && attr.begin.count > d && x->dim[d] != n->sig.out[0].shape.dim[d]) {
        const int64_t begin = attr.begin.at[d];
        attr.begin.at[d] =
            left(w, w->c.first[n->in[0]], (uint32_t)(begin < 0 ? begin + x->dim[d] : begin));
    }
    if (d >= 0 && attr.size.count > d) {
        attr.size.at[d] = shape_of(w, n->out).dim[d];
    }
    return hri_graph_add(r->to, n->sig.op, in, n->sig.in_count, &attr);
}

static hr_value take_node(hri_rewrite *r, const hri_node_record *n, hr_value *in) {
    const work *w = r->user;
    if (!strcmp(n->sig.op->name, "reshape")) {
        const hr_shape shape = shape_of(w, n->out);
        if (!hr_shape_same(&shape, &n->sig.out[0].shape)) {
            const hri_attr_dims to = {hri_dims_of(&shape)};
            return hri_graph_add(r->to, n->sig.op, in, n->sig.in_count, &to);
        }
    }
    if (!strcmp(n->sig.op->name, "slice")) {
        return take_slice(r, n, in);
    }
    if (!strcmp(n->sig.op->name, "conv2d")) {
        hri_conv_attr attr = *(const hri_conv_attr *)n->sig.attr;
        const hr_shape *x = &n->sig.in[0].shape;
        if (attr.groups > 1 && attr.groups == x->dim[3]) { /* depthwise: a group a channel */
            attr.groups = shape_of(w, n->in[0]).dim[3];
            return hri_graph_add(r->to, n->sig.op, in, n->sig.in_count, &attr);
        }
    }
    return hri_rewrite_keep(r, n, in);
}

hr_status hri_shrink_graph(const hri_cuts *cuts, const hr_graph *from, hr_graph *to) {
    work w = {.cuts = cuts};
    hri_rewrite r = {.from = from, .to = to, .source = take_source, .node = take_node, .user = &w};
    hr_status status = hri_channels_init(&w.c, from);
    if (status == HR_OK) {
        w.fate = hri_calloc((size_t)w.c.count + 1, 1);
        status = w.fate ? HR_OK : HR_E_NOMEM_HOST;
    }
    if (status == HR_OK) {
        read_cuts(&w, to);
        status = to->error.code == HR_OK ? hri_rewrite_graph(&r) : to->error.code;
    }
    hri_free(r.values);
    hri_free(w.fate);
    hri_channels_deinit(&w.c);
    return status;
}
