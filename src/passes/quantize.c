/* quantize: layers that compute in bytes.
 *
 *   i8        sites (common/quantizing.h) become conv2d_i8, depthwise_i8 and matmul_i8 with weights of i8 and a scale for each output, sums
 *             add_i8, max pools max_pool_i8; values of bytes have states <name>.scale and <name>.zero_point
 *   fold      batch norms go into the weights and biases of the layers before them, and nothing else changes
 *   observe   nothing changes, but every value that would be bytes is counted in a histogram, <name>.histogram
 *   f8        sites become conv2d_f8 and matmul_f8 with weights of 8-bit floats and a scale for each output, what they read is
 *             rounded to 8-bit floats with a state <name>.scale, and everything between them is real
 *   observe-f8   as observe, for f8
 *
 * The graph does not depend on numbers: they are states, which a quantized checkpoint fills.  For evaluation alone: a model
 * that trains is refused. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/common/histogram.h"
#include "passes/common/pass.h"
#include "passes/common/quantizing.h"

static const char *const targets[] = {"i8", "fold", "observe", "f8", "observe-f8", NULL};

static const hri_field fields[] = {{"to", "what it makes", offsetof(hri_quantize_options, to),
                                    HRI_FIELD_ENUM, "i8", .choices = targets},
                                   {0}};

typedef struct work {
    hri_quantizing q;
    int to;
    hr_value *bytes; /* by value of `from`: the same as bytes in `to` */
    hr_value *scale; /* by value of `from` with a range of its own; the zero point follows */
    uint8_t *seen;   /* by value of `from`: it is observed */
    uint8_t *gone;   /* by value of `from`: it is folded away */
    uint32_t *site;  /* by value of `from`: 1 + the site whose weight it is */
} work;

static hr_value state(hri_rewrite *r, const char *name, const char *end, hr_type type,
                      hr_shape shape, double init) {
    char text[340];
    if (snprintf(text, sizeof text, "/%s%s", name, end) >= (int)sizeof text) {
        hri_graph_fail(r->to, HR_E_INVALID, "%s: the name is too long", name);
        return HR_NONE;
    }
    return hr_graph_state(r->to, text, type, shape, hr_init_constant(init));
}

/* ---- values ---- */

static hr_value scale_of(hri_rewrite *r, hr_value v) {
    work *w = r->user;
    const hr_value own = w->q.range[v];
    if (w->scale[own] == HR_NONE) {
        w->scale[own] = state(r, w->q.name[own], HRI_RANGE_SCALE, HR_TYPE_F32, hr_shape_0(), 1.0);
        if (w->to == HRI_QUANTIZE_I8) {
            state(r, w->q.name[own], HRI_RANGE_ZERO, HR_TYPE_U8, hr_shape_0(), 0.0);
        }
    }
    return w->scale[own];
}

static hr_value real(hri_rewrite *r, hr_value v) {
    const work *w = r->user;
    if (r->values[v] == HR_NONE && w->bytes[v] != HR_NONE) {
        const hr_value scale = scale_of(r, v);
        r->values[v] = HRI_NODE(r->to, "dequantize", NULL, w->bytes[v], scale, scale + 1);
    }
    return r->values[v];
}

static hr_value bytes(hri_rewrite *r, hr_value v) {
    work *w = r->user;
    if (w->bytes[v] == HR_NONE) {
        const hr_value scale = scale_of(r, v);
        w->bytes[v] = w->to == HRI_QUANTIZE_F8
                          ? HRI_NODE(r->to, "quantize_f8", NULL, r->values[v], scale)
                          : HRI_NODE(r->to, "quantize", NULL, r->values[v], scale, scale + 1);
    }
    return w->bytes[v];
}

static int is_result(const hr_graph *g, hr_value v) {
    for (uint32_t i = 0; i < g->result_count; i++) {
        if (g->results[i].value == v) {
            return 1;
        }
    }
    return 0;
}

/* Value v of `from` is made as bytes; results are real as well. */
static hr_value made_bytes(hri_rewrite *r, hr_value v, hr_value made) {
    work *w = r->user;
    w->bytes[v] = made;
    return is_result(r->from, v) ? real(r, v) : HR_NONE;
}

/* ---- sources ---- */

static hr_value take_weight(hri_rewrite *r, hr_value v, const hri_site *s) {
    const hri_value *value = &r->from->values[v];
    const hr_type type = ((const work *)r->user)->to == HRI_QUANTIZE_F8 ? HR_TYPE_U8 : HR_TYPE_I8;
    const hr_value made = state(r, value->name, "", type, value->meta.shape, 0.0);
    hr_tags tags = *hri_graph_tags(r->from, v);
    tags.owner = HR_NONE;
    if (made != HR_NONE) {
        hr_graph_set_tags(r->to, made, &tags);
    }
    state(r, s->scale_name, "", HR_TYPE_F32, hr_shape_1(s->columns), 1.0);
    return made == HR_NONE ? HRI_REWRITE_GONE : made; /* its scale follows it */
}

/* Whether layers compute in bytes. */
static int is_target(const work *w) {
    return w->to == HRI_QUANTIZE_I8 || w->to == HRI_QUANTIZE_F8;
}

static hr_value take_source(hri_rewrite *r, hr_value v) {
    const work *w = r->user;
    if (w->gone[v]) {
        return HRI_REWRITE_GONE;
    }
    return is_target(w) && w->site[v] ? take_weight(r, v, &w->q.sites[w->site[v] - 1]) : HR_NONE;
}

/* ---- nodes ---- */

static hr_value bias_of(hri_rewrite *r, const hri_site *s) {
    return s->bias != HR_NONE
               ? r->values[s->bias]
               : state(r, s->bias_name, "", HR_TYPE_F32, hr_shape_1(s->columns), 0.0);
}

/* "stride=2,pad=1" of the layer, without what the op for bytes does not have. */
static void attributes(const hri_site *s, const hri_node_record *n, char *text, size_t size) {
    char all[400];
    hri_attr_print(n->sig.op, n->sig.attr, all, sizeof all);
    if (s->conv) {
        snprintf(text, size, "%s%s%s", all, all[0] && s->relu ? "," : "", s->relu ? "relu" : "");
    } else {
        snprintf(text, size, "%s%s%s", s->turned ? "transpose-b" : "",
                 s->turned && s->relu ? "," : "", s->relu ? "relu" : "");
    }
}

static hr_value make_site(hri_rewrite *r, const hri_site *s) {
    const work *w = r->user;
    const hri_node_record *n = &r->from->nodes[s->node];
    const hr_value weight = r->values[s->weight], x_scale = scale_of(r, s->in);
    const int small = w->q.bytes[s->out];
    const hr_value y_scale = small ? scale_of(r, s->out) : HR_NONE;
    const hr_value in[] = {bytes(r, s->in), weight,      weight + 1, bias_of(r, s),
                           x_scale,         x_scale + 1, y_scale,    y_scale + 1};
    char text[420];
    attributes(s, n, text, sizeof text);
    const char *op = s->depthwise ? "depthwise_i8" : s->conv ? "conv2d_i8" : "matmul_i8";
    const hr_value made = hr_graph_node(r->to, op, in, small ? 8 : 6, text);
    if (!small && s->cap > 0.0) { /* bytes end by themselves */
        return hri_nodef(r->to, "clip", &made, 1, "low=0,high=%.17g", s->cap);
    }
    return small ? made_bytes(r, s->out, made) : made;
}

static hr_value make_site_f8(hri_rewrite *r, const hri_site *s) {
    const hr_value weight = r->values[s->weight];
    const hr_value x = bytes(r, s->in);
    const hr_value in[] = {x, weight, weight + 1, bias_of(r, s), scale_of(r, s->in)};
    char text[420];
    attributes(s, &r->from->nodes[s->node], text, sizeof text);
    const hr_value made = hr_graph_node(r->to, s->conv ? "conv2d_f8" : "matmul_f8", in, 5, text);
    return s->cap > 0.0 ? hri_nodef(r->to, "clip", &made, 1, "low=0,high=%.17g", s->cap) : made;
}

static hr_value make_sum(hri_rewrite *r, const hri_node_record *last, uint32_t add) {
    const work *w = r->user;
    const hri_node_record *n = &r->from->nodes[add];
    const hr_value a = bytes(r, n->in[0]), b = bytes(r, n->in[1]);
    const hr_value sa = scale_of(r, n->in[0]), sb = scale_of(r, n->in[1]);
    const hr_value sy = scale_of(r, last->out);
    const hr_value in[] = {a, b, sa, sa + 1, sb, sb + 1, sy, sy + 1};
    return made_bytes(r, last->out,
                      hr_graph_node(r->to, "add_i8", in, 8, w->q.relu[add] ? "relu" : NULL));
}

static hr_value make_pool(hri_rewrite *r, const hri_node_record *n) {
    const hr_value x = bytes(r, n->in[0]);
    char text[400];
    hri_attr_print(n->sig.op, n->sig.attr, text, sizeof text);
    return made_bytes(r, n->out, hr_graph_node(r->to, "max_pool_i8", &x, 1, text));
}

static hr_value make_mean(hri_rewrite *r, const hri_node_record *n) {
    const hr_value x = bytes(r, n->in[0]), sx = scale_of(r, n->in[0]), sy = scale_of(r, n->out);
    const hr_value in[] = {x, sx, sx + 1, sy, sy + 1};
    return made_bytes(r, n->out, hr_graph_node(r->to, "global_avg_pool_i8", in, 5, NULL));
}

static hr_value take_node(hri_rewrite *r, const hri_node_record *n, hr_value *in) {
    const work *w = r->user;
    const uint32_t number = (uint32_t)(n - r->from->nodes);
    const hr_value x = n->sig.in_count ? n->in[0] : HR_NONE;
    switch (w->q.part[number]) {
    case HRI_PART_SKIP:
        return HR_NONE;
    case HRI_PART_SITE:
        return w->to == HRI_QUANTIZE_F8 ? make_site_f8(r, &w->q.sites[w->q.of[number]])
                                        : make_site(r, &w->q.sites[w->q.of[number]]);
    case HRI_PART_ADD:
        return make_sum(r, n, w->q.of[number]);
    case HRI_PART_POOL:
        return make_pool(r, n);
    case HRI_PART_MEAN:
        return make_mean(r, n);
    case HRI_PART_SHAPE: {
        const hr_value from = bytes(r, x);
        return made_bytes(r, n->out, hri_rewrite_keep(r, n, &from));
    }
    default:
        for (uint32_t i = 0; i < n->sig.in_count; i++) {
            in[i] = real(r, n->in[i]);
        }
        return hri_rewrite_keep(r, n, in);
    }
}

/* ---- folding ---- */

static hr_value fold_node(hri_rewrite *r, const hri_node_record *n, hr_value *in) {
    const work *w = r->user;
    const uint32_t number = (uint32_t)(n - r->from->nodes);
    for (size_t i = 0; i < w->q.site_count; i++) {
        const hri_site *s = &w->q.sites[i];
        if (s->norm != HRI_NO_NODE && s->node == number) {
            return HR_NONE;
        }
        if (s->norm == number) {
            const hri_node_record *of = &r->from->nodes[s->node];
            const hr_value from[] = {r->values[s->in], r->values[s->weight], bias_of(r, s)};
            return hri_graph_add(r->to, of->sig.op, from, 3, of->sig.attr);
        }
    }
    return hri_rewrite_keep(r, n, in);
}

/* ---- observing ---- */

static void observe(hri_rewrite *r, hr_value v) {
    work *w = r->user;
    const hr_value own = w->q.range[v];
    if (!w->q.bytes[v] || own != v || w->seen[v]) {
        return;
    }
    w->seen[v] = 1;
    const hr_value h = state(r, w->q.name[v], HRI_RANGE_HISTOGRAM, HR_TYPE_I64,
                             hr_shape_1(HRI_HISTOGRAM_WORDS), 0.0);
    if (h != HR_NONE) {
        hr_graph_set_tags(r->to, h, &(hr_tags){.size = sizeof(hr_tags), .keep = HR_KEEP_NOT});
    }
    HRI_NODE(r->to, "observe", NULL, r->values[v], h);
}

/* Whatever is bytes is read by somebody. */
static hr_value observe_node(hri_rewrite *r, const hri_node_record *n, hr_value *in) {
    for (uint32_t i = 0; i < n->sig.in_count; i++) {
        observe(r, n->in[i]);
    }
    return hri_rewrite_keep(r, n, in);
}

/* ---- the pass ---- */

static int is_observing(const work *w) {
    return w->to == HRI_QUANTIZE_OBSERVE || w->to == HRI_QUANTIZE_OBSERVE_F8;
}

static void mark(work *w) {
    for (size_t i = 0; i < w->q.site_count; i++) {
        const hri_site *s = &w->q.sites[i];
        w->site[s->weight] = (uint32_t)i + 1;
        for (uint32_t k = 1; k < 5 && s->norm != HRI_NO_NODE && !is_observing(w); k++) {
            w->gone[w->q.g->nodes[s->norm].in[k]] = 1;
        }
    }
}

static hr_status rewrite(work *w, hri_rewrite *r) {
    mark(w);
    r->source = take_source;
    r->node = is_target(w) ? take_node : w->to == HRI_QUANTIZE_FOLD ? fold_node : observe_node;
    return hri_rewrite_graph(r);
}

static hr_status apply(const void *given, const hr_graph *from, hr_graph *to, hri_pass_map *map) {
    const size_t count = from->value_count;
    work w = {.to = ((const hri_quantize_options *)given)->to,
              .bytes = hri_calloc(count, sizeof *w.bytes),
              .scale = hri_calloc(count, sizeof *w.scale),
              .seen = hri_calloc(count, sizeof *w.seen),
              .gone = hri_calloc(count, sizeof *w.gone),
              .site = hri_calloc(count, sizeof *w.site)};
    hri_rewrite r = {.from = from, .to = to, .user = &w};
    hr_status status =
        w.bytes && w.scale && w.seen && w.gone && w.site
            ? hri_quantizing_init(&w.q, from,
                                  w.to == HRI_QUANTIZE_F8 || w.to == HRI_QUANTIZE_OBSERVE_F8)
            : HR_E_NOMEM_HOST;
    if (status == HR_OK && !w.q.site_count) {
        hri_graph_fail(to, HR_E_UNSUPPORTED,
                       "the model has no convolution or linear layer that can be quantized");
        status = to->error.code;
    }
    status = status == HR_OK ? rewrite(&w, &r) : status;
    *map = (hri_pass_map){.values = r.values, .value_count = from->value_count};
    hri_quantizing_deinit(&w.q);
    hri_free(w.bytes);
    hri_free(w.scale);
    hri_free(w.seen);
    hri_free(w.gone);
    hri_free(w.site);
    return status;
}

const hri_pass hri_pass_quantize = {.name = "quantize",
                                    .help = "compute in bytes",
                                    .changes_result = 1,
                                    .by_user = 1,
                                    .evaluation_only = 1,
                                    .fields = fields,
                                    .options_bytes = sizeof(hri_quantize_options),
                                    .apply = apply};
