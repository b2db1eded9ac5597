/* Finding sites, the ways that bytes take, and ranges; see quantizing.h. */
#include "passes/common/quantizing.h"

#include <stdio.h>
#include <string.h>

#include "ops/common/batch_norm.h"
#include "ops/common/clip.h"
#include "ops/common/conv.h"
#include "ops/common/requantize.h"

/* ---- who reads what ---- */

typedef struct uses {
    uint32_t *count;  /* by value: inputs of nodes, and results */
    uint32_t *reader; /* by value: the last node that reads it */
} uses;

static int is_op(const hr_graph *g, uint32_t node, const char *name) {
    return node != HRI_NO_NODE && !strcmp(g->nodes[node].sig.op->name, name);
}

static hr_status count_uses(hri_quantizing *q, uses *u) {
    const hr_graph *g = q->g;
    u->count = HRI_ARENA_ARRAY(&q->arena, uint32_t, g->value_count);
    u->reader = HRI_ARENA_ARRAY(&q->arena, uint32_t, g->value_count);
    if (!u->count || !u->reader) {
        return HR_E_NOMEM_HOST;
    }
    for (uint32_t n = 0; n < g->node_count; n++) {
        for (uint32_t i = 0; i < g->nodes[n].sig.in_count; i++) {
            u->count[g->nodes[n].in[i]]++;
            u->reader[g->nodes[n].in[i]] = n;
        }
    }
    for (uint32_t i = 0; i < g->result_count; i++) {
        u->count[g->results[i].value] += 2; /* nobody's alone */
    }
    return HR_OK;
}

/* The node that alone reads v, as its first input; HRI_NO_NODE: there is none. */
static uint32_t follower(const hri_quantizing *q, const uses *u, hr_value v, const char *op) {
    const uint32_t n = u->count[v] == 1 ? u->reader[v] : HRI_NO_NODE;
    return is_op(q->g, n, op) && q->g->nodes[n].in[0] == v ? n : HRI_NO_NODE;
}

/* A parameter or state that one node reads. */
static int is_own(const hri_quantizing *q, const uses *u, hr_value v) {
    const hri_value *x = &q->g->values[v];
    return x->node == HRI_NO_NODE && x->meta.type == HR_TYPE_F32 && u->count[v] == 1 &&
           (x->kind == HR_VALUE_PARAM || x->kind == HR_VALUE_STATE);
}

/* ---- sites ---- */

static bool flag_of(const hri_sig *s, const char *name) {
    for (const hri_field *f = s->op->fields; f && f->name && s->attr; f++) {
        if (f->type == HRI_FIELD_BOOL && !strcmp(f->name, name)) {
            return *(const bool *)((const char *)s->attr + f->offset);
        }
    }
    return false;
}

static int shape_site(const hr_graph *g, const hri_node_record *n, hri_site *s) {
    const hr_shape *w = &g->values[s->weight].meta.shape;
    if (s->conv) {
        s->depth = w->dim[0] * w->dim[1] * w->dim[2];
        s->columns = w->dim[3];
        const int64_t groups = ((const hri_conv_attr *)n->sig.attr)->groups;
        s->depthwise = groups > 1 && w->dim[2] == 1 && w->dim[3] == groups;
        return 1;
    }
    s->turned = flag_of(&n->sig, "transpose-b");
    s->depth = w->rank == 2 ? w->dim[s->turned ? 1 : 0] : 0;
    s->columns = w->rank == 2 ? w->dim[s->turned ? 0 : 1] : 0;
    return w->rank == 2 && !flag_of(&n->sig, "transpose-a");
}

/* The batch norm and the relu behind it. */
static void follow(const hri_quantizing *q, const uses *u, hri_site *s) {
    const hr_graph *g = q->g;
    s->norm = follower(q, u, s->out, "batch_norm_inference");
    for (uint32_t i = 1; i < 5 && s->norm != HRI_NO_NODE; i++) {
        s->norm = is_own(q, u, g->nodes[s->norm].in[i]) ? s->norm : HRI_NO_NODE;
    }
    if (s->norm != HRI_NO_NODE) {
        s->out = g->nodes[s->norm].out;
        s->last = s->norm;
        s->eps = ((const hri_batch_norm_attr *)g->nodes[s->norm].sig.attr)->eps;
    }
    const uint32_t relu = follower(q, u, s->out, "relu");
    if (relu != HRI_NO_NODE) {
        s->out = g->nodes[relu].out;
        s->last = relu;
        s->relu = 1;
    }
    const uint32_t clip = relu == HRI_NO_NODE ? follower(q, u, s->out, "clip") : HRI_NO_NODE;
    const hri_attr_clip *held = clip == HRI_NO_NODE ? NULL : g->nodes[clip].sig.attr;
    if (held && held->low == 0.0 && held->high > 0.0) {
        s->out = g->nodes[clip].out;
        s->last = clip;
        s->relu = 1;
        s->cap = held->high;
    }
}

/* "conv1.weight" -> "conv1" + end */
static const char *name_of(hri_quantizing *q, const char *weight, const char *end) {
    static const char tail[] = ".weight";
    const size_t n = strlen(weight), k = sizeof tail - 1;
    const size_t layer = n > k && !strcmp(weight + n - k, tail) ? n - k : n;
    char *text = HRI_ARENA_ARRAY(&q->arena, char, layer + strlen(end) + 1);
    if (text) {
        memcpy(text, weight, layer);
        memcpy(text + layer, end, strlen(end) + 1);
    }
    return text;
}

static hr_status find_site(hri_quantizing *q, const uses *u, uint32_t number) {
    const hr_graph *g = q->g;
    const hri_node_record *n = &g->nodes[number];
    const int conv = is_op(g, number, "conv2d");
    if (!conv && !is_op(g, number, "matmul")) {
        return HR_OK;
    }
    hri_site s = {.node = number,
                  .last = number,
                  .norm = HRI_NO_NODE,
                  .in = n->in[0],
                  .weight = n->in[1],
                  .bias = n->sig.in_count > 2 ? n->in[2] : HR_NONE,
                  .out = n->out,
                  .conv = (uint8_t)conv};
    if (!is_own(q, u, s.weight)) {
        return HR_OK; /* no layer */
    }
    if (!shape_site(g, n, &s) || s.depth < 1 || s.depth > HRI_I8_DEPTH_MAX ||
        n->sig.in[0].type != HR_TYPE_F32 || (s.bias != HR_NONE && !is_own(q, u, s.bias))) {
        q->left_out++;
        return HR_OK;
    }
    follow(q, u, &s);
    s.weight_name = g->values[s.weight].name;
    s.scale_name = name_of(q, s.weight_name, ".weight_scale");
    s.bias_name = s.bias != HR_NONE ? g->values[s.bias].name : name_of(q, s.weight_name, ".bias");
    q->sites[q->site_count++] = s;
    return s.scale_name && s.bias_name ? HR_OK : HR_E_NOMEM_HOST;
}

static void claim_sites(hri_quantizing *q) {
    for (size_t i = 0; i < q->site_count; i++) {
        const hri_site *s = &q->sites[i];
        q->part[s->node] = HRI_PART_SKIP;
        if (s->norm != HRI_NO_NODE) {
            q->part[s->norm] = HRI_PART_SKIP;
        }
        q->part[s->last] = HRI_PART_SITE;
        q->of[s->last] = (uint32_t)i;
    }
}

/* ---- the ways of bytes ---- */

/* Whether v comes from a site through nothing but what can be bytes. */
static int is_made(const hri_quantizing *q, hr_value v) {
    const hr_graph *g = q->g;
    for (uint32_t n = g->values[v].node; n != HRI_NO_NODE; n = g->values[g->nodes[n].in[0]].node) {
        if (q->part[n] == HRI_PART_SITE || is_op(g, n, "add")) {
            return 1;
        }
        if (is_op(g, n, "relu") && is_op(g, g->values[g->nodes[n].in[0]].node, "add")) {
            return 1;
        }
        if (!is_op(g, n, "max_pool") && !is_op(g, n, "reshape") && !is_op(g, n, "transpose") &&
            !is_op(g, n, "global_avg_pool")) {
            return 0;
        }
    }
    return 0;
}

/* A sum, with its relu, whose result is wanted as bytes; `last` makes it. */
static void claim_sum(hri_quantizing *q, uint32_t last, uint32_t add) {
    const hr_graph *g = q->g;
    const hri_node_record *n = &g->nodes[add];
    if (n->sig.in[0].type != HR_TYPE_F32 ||
        !hr_shape_same(&n->sig.in[0].shape, &n->sig.in[1].shape) ||
        (!is_made(q, n->in[0]) && !is_made(q, n->in[1]))) {
        return;
    }
    q->part[add] = HRI_PART_SKIP;
    q->part[last] = HRI_PART_ADD;
    q->of[last] = add;
    q->relu[add] = last != add;
    q->bytes[n->in[0]] = q->bytes[n->in[1]] = 1;
}

static void go_back(hri_quantizing *q, const uses *u, uint32_t number) {
    const hr_graph *g = q->g;
    const hri_node_record *n = &g->nodes[number];
    if (q->part[number] == HRI_PART_SITE) {
        q->bytes[q->sites[q->of[number]].in] = 1;
        return;
    }
    if (q->part[number] != HRI_PART_KEEP) {
        return;
    }
    if ((is_op(g, number, "global_avg_pool") || is_op(g, number, "avg_pool")) &&
        is_made(q, n->in[0])) {
        q->bytes[n->in[0]] = 1; /* the sum before it is small, too */
        if (q->bytes[n->out] && is_op(g, number, "global_avg_pool")) {
            q->part[number] = HRI_PART_MEAN;
        }
        return;
    }
    if (!q->bytes[n->out]) {
        return;
    }
    if (is_op(g, number, "relu") && u->count[n->in[0]] == 1 &&
        is_op(g, g->values[n->in[0]].node, "add")) {
        claim_sum(q, number, g->values[n->in[0]].node);
    } else if (is_op(g, number, "add")) {
        claim_sum(q, number, number);
    } else if (is_op(g, number, "max_pool") && u->count[n->out + 1] == 0 && is_made(q, n->in[0])) {
        q->part[number] = HRI_PART_POOL;
        q->bytes[n->in[0]] = 1;
    } else if ((is_op(g, number, "reshape") || is_op(g, number, "transpose")) &&
               is_made(q, n->in[0])) {
        q->part[number] = HRI_PART_SHAPE;
        q->bytes[n->in[0]] = 1;
    }
}

/* ---- ranges ---- */

static const char *range_name(hri_quantizing *q, hr_value v, size_t copy) {
    /* An image has one name, whether its bytes are made real by the graph or before it. */
    const hri_value *x = &q->g->values[v];
    x = is_op(q->g, x->node, "normalise") ? &q->g->values[q->g->nodes[x->node].in[0]] : x;
    const char *base = x->node == HRI_NO_NODE ? x->name : q->g->nodes[x->node].name;
    char text[320];
    const int n = copy ? snprintf(text, sizeof text, "%s.%zu", base, copy)
                       : snprintf(text, sizeof text, "%s", base);
    return n > 0 && (size_t)n < sizeof text ? hri_arena_strdup(&q->arena, text) : NULL;
}

/* How many nodes before have the same name: nodes of one scope are told apart by it. */
static size_t copy_of(const hri_quantizing *q, hr_value v) {
    const uint32_t node = q->g->values[v].node;
    size_t copies = 0;
    for (uint32_t n = 0; node != HRI_NO_NODE && n < node; n++) {
        copies += !strcmp(q->g->nodes[n].name, q->g->nodes[node].name);
    }
    return copies;
}

static hr_status find_range(hri_quantizing *q, hr_value v) {
    const uint32_t node = q->g->values[v].node;
    if (node != HRI_NO_NODE &&
        (q->part[node] == HRI_PART_POOL || q->part[node] == HRI_PART_SHAPE)) {
        q->range[v] = q->range[q->g->nodes[node].in[0]]; /* was there before */
        return HR_OK;
    }
    q->range[v] = v;
    q->range_count++;
    q->name[v] = range_name(q, v, copy_of(q, v));
    return q->name[v] ? HR_OK : HR_E_NOMEM_HOST;
}

hr_status hri_quantizing_init(hri_quantizing *q, const hr_graph *g, int f8) {
    *q = (hri_quantizing){.g = g};
    uses u = {0};
    const size_t nodes = g->node_count + 1, values = g->value_count;
    q->sites = HRI_ARENA_ARRAY(&q->arena, hri_site, nodes);
    q->part = HRI_ARENA_ARRAY(&q->arena, uint8_t, nodes);
    q->of = HRI_ARENA_ARRAY(&q->arena, uint32_t, nodes);
    q->relu = HRI_ARENA_ARRAY(&q->arena, uint8_t, nodes);
    q->bytes = HRI_ARENA_ARRAY(&q->arena, uint8_t, values);
    q->range = HRI_ARENA_ARRAY(&q->arena, hr_value, values);
    q->name = HRI_ARENA_ARRAY(&q->arena, const char *, values);
    hr_status status = q->sites && q->part && q->of && q->relu && q->bytes && q->range && q->name
                           ? count_uses(q, &u)
                           : HR_E_NOMEM_HOST;
    for (uint32_t n = 0; n < g->node_count && status == HR_OK; n++) {
        status = find_site(q, &u, n);
    }
    if (status == HR_OK) {
        claim_sites(q);
        for (uint32_t n = g->node_count; n-- > 0;) {
            if (!f8 || q->part[n] == HRI_PART_SITE) {
                go_back(q, &u, n);
            }
        }
    }
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        status = q->bytes[v] ? find_range(q, v) : HR_OK;
    }
    if (status != HR_OK) {
        hri_quantizing_deinit(q);
    }
    return status;
}

void hri_quantizing_deinit(hri_quantizing *q) {
    hri_arena_deinit(&q->arena);
    *q = (hri_quantizing){0};
}
