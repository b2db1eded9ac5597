/* LoRA: the weights of the model stay as they are, and beside each product x W two thin ones are trained (Hu et al. 2021).
 *
 *   y = x W + b + (alpha / rank) (x A^T) B^T        A (rank, in) uniform in +- 1 / sqrt(in), B (out, rank) zeros
 *
 * B begins with zeros, so the first step is that of the model itself, to the bit.  Every parameter of the model is frozen:
 * it has no gradient, no optimizer state and no accumulator, in the plan as in memory.  What is trained beside the
 * adapters is the head, the last linear layer, where its weight is its own: with other classes it begins anew.
 *
 * A layer can have adapters when its weight is a matrix that products alone read, as their right factor: a table of words
 * that is the head, too, cannot.  Weights of 8 and 4 bits (the pass `weights`) have adapters as others have.  Adapters are parameters "<layer>.lora_A.weight" and "<layer>.lora_B.weight", as peft
 * names them, owned by the weight. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "passes/common/lora.h"
#include "passes/common/pass.h"
#include "passes/common/pattern.h"
#include "passes/common/weights.h"

#define AT(FIELD) offsetof(hri_lora, FIELD)

static const hri_field fields[] = {
    {"rank", "rank of the adapters", AT(rank), HRI_FIELD_INT, "8", .min = 1, .max = 65536},
    {"alpha", "adapters are scaled by alpha / rank; auto: the rank", AT(alpha), HRI_FIELD_DOUBLE,
     "auto", .min = 1e-6, .max = 1e9, .word = "auto"},
    {"layers",
     "layers with adapters: names joined by +, * for any letters; default: all linear layers",
     AT(layers), HRI_FIELD_STRING, NULL},
    {"train", "layers that are trained whole: names as in layers, head, or none", AT(train),
     HRI_FIELD_STRING, "head"},
    {0}};

static hr_status check(const void *options, hri_prose *why) {
    const hri_lora *o = options;
    hri_prose inner = {""};
    hr_status status = o->layers ? hri_pattern_check(o->layers, &inner) : HR_OK;
    if (status != HR_OK) {
        return hri_prose_set(why, status, "layers: %s", inner.text);
    }
    status = hri_pattern_check(o->train ? o->train : "", &inner);
    return status == HR_OK ? HR_OK : hri_prose_set(why, status, "train: %s", inner.text);
}

/* ---- names ---- */

double hri_lora_scale(const hri_lora *o) {
    return isnan(o->alpha) ? 1.0 : o->alpha / (double)o->rank;
}

size_t hri_lora_layer(const char *weight) {
    static const char *const ends[] = {".weight", HRI_WEIGHTS_CODES};
    const size_t n = strlen(weight);
    for (size_t i = 0; i < 2; i++) {
        const size_t k = strlen(ends[i]);
        if (n > k && !strcmp(weight + n - k, ends[i])) {
            return n - k;
        }
    }
    return n;
}

/* "/h.0.attn.c_attn.lora_A.weight"; 0: it is too long. */
static int name_adapter(const char *weight, const char *which, char *out, size_t size) {
    const int n = snprintf(out, size, "/%.*s%s", (int)hri_lora_layer(weight), weight, which);
    return n > 0 && (size_t)n < size;
}

hr_value hri_lora_find(const hr_graph *g, const char *weight, const char *which) {
    char name[300];
    return name_adapter(weight, which, name, sizeof name) ? hr_graph_find(g, name + 1) : HR_NONE;
}

int hri_lora_is_adapter(const hr_graph *g, hr_value v) {
    return g->values[v].kind == HR_VALUE_PARAM && hri_graph_tags(g, v)->owner != HR_NONE;
}

/* ---- which weights ---- */

/* A yes or no of a node, by its name. */
static bool attribute(const hri_sig *s, const char *name) {
    for (const hri_field *f = s->op->fields; f && f->name && s->attr; f++) {
        if (f->type == HRI_FIELD_BOOL && !f->wide && !strcmp(f->name, name)) {
            return *(const bool *)((const char *)s->attr + f->offset);
        }
    }
    return false;
}

static int is_product(const hri_node_record *n) {
    return !strcmp(n->sig.op->name, "matmul") && n->sig.in[1].shape.rank == 2 &&
           !attribute(&n->sig, "transpose-a");
}

static int is_packed(const hri_node_record *n) {
    return !strcmp(n->sig.op->name, "matmul_codes") && !attribute(&n->sig, "back");
}

int hri_lora_in_first(const hr_graph *g, hr_value weight) {
    int found = -1;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const hri_node_record *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->sig.in_count && n->phase == HRI_FORWARD; k++) {
            if (n->in[k] != weight) {
                continue;
            }
            const int way = k == 1 && is_product(n)            ? !attribute(&n->sig, "transpose-b")
                            : k == 1 && is_packed(n)           ? attribute(&n->sig, "in-first")
                            : !strcmp(n->sig.op->name, "cast") ? hri_lora_in_first(g, n->out)
                                                               : -1;
            if (way < 0 || (found >= 0 && way != found)) {
                return -1;
            }
            found = way;
        }
    }
    return found;
}

enum { FROZEN, ADAPTED, TRAINED };

typedef struct adapting {
    const hri_lora *o;
    unsigned char *kind; /* by value of `from`: what becomes of a parameter */
    hr_value *a, *b;     /* by value of `from`: its adapters in `to`, once they are there */
    size_t count;        /* of weights with adapters */
} adapting;

/* The weight of the last product in the graph; HR_NONE: it is not its alone. */
static hr_value find_head(const hr_graph *g) {
    for (uint32_t i = g->node_count; i-- > 0;) {
        const hri_node_record *n = &g->nodes[i];
        if (is_product(n) && g->values[n->in[1]].kind == HR_VALUE_PARAM) {
            return hri_lora_in_first(g, n->in[1]) >= 0 ? n->in[1] : HR_NONE;
        }
    }
    return HR_NONE;
}

/* Is v a parameter of the layer whose weight is `head`? */
static int is_beside(const hr_graph *g, hr_value v, hr_value head) {
    const char *weight = g->values[head].name, *name = g->values[v].name;
    const size_t n = hri_lora_layer(weight);
    return v == head || (weight[n] && !strncmp(name, weight, n + 1));
}

static int is_trained(const hri_lora *o, const hr_graph *g, hr_value v, hr_value head) {
    if (!strcmp(o->train, "head")) {
        return head != HR_NONE && is_beside(g, v, head);
    }
    return strcmp(o->train, "none") != 0 && hri_pattern_has(o->train, g->values[v].name);
}

/* Weights and codes can have adapters. */
static int may_adapt(const hr_graph *g, hr_value v) {
    const hri_value *value = &g->values[v];
    const int codes = value->kind == HR_VALUE_STATE && value->node == HRI_NO_NODE &&
                      value->meta.type != HR_TYPE_F32;
    return (value->kind == HR_VALUE_PARAM || codes) && value->meta.shape.rank == 2 &&
           hri_lora_in_first(g, v) >= 0;
}

static void choose(adapting *x, const hr_graph *g) {
    const hr_value head = find_head(g);
    for (hr_value v = 1; v < g->value_count; v++) {
        const hri_value *value = &g->values[v];
        if (value->kind != HR_VALUE_PARAM && value->kind != HR_VALUE_STATE) {
            continue;
        }
        const int named = x->o->layers && hri_pattern_has(x->o->layers, value->name);
        const int trained = is_trained(x->o, g, v, head);
        const int wanted = x->o->layers ? named : v != head && !trained;
        if (wanted && may_adapt(g, v)) {
            x->kind[v] = ADAPTED;
            x->count++;
        } else if (trained) {
            x->kind[v] = TRAINED;
        }
    }
}

/* Nothing was chosen: says what could be. */
static void fail_empty(const adapting *x, const hr_graph *g, hr_graph *to) {
    char names[200] = "";
    size_t used = 0, count = 0;
    for (hr_value v = 1; v < g->value_count; v++) {
        const hri_value *value = &g->values[v];
        if (may_adapt(g, v) && count++ < 3) {
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%.*s", used ? ", " : "",
                                     (int)hri_lora_layer(value->name), value->name);
            used = used < sizeof names ? used : sizeof names - 1;
        }
    }
    if (count) {
        hri_graph_fail(to, HR_E_INVALID, "lora: no linear layer matches layers=%s; there are %s%s",
                       x->o->layers ? x->o->layers : "", names, count > 3 ? ", ..." : "");
    } else {
        hri_graph_fail(to, HR_E_INVALID,
                       "lora: the model has no linear layer for adapters; convolutions have none");
    }
}

/* ---- the graph ---- */

static hr_value take_source(hri_rewrite *r, hr_value v) {
    const adapting *x = r->user;
    const hri_value *value = &r->from->values[v];
    char name[300];
    if (value->kind != HR_VALUE_PARAM || x->kind[v] == TRAINED) {
        return HR_NONE;
    }
    snprintf(name, sizeof name, "/%s", value->name);
    const hr_value made =
        hr_graph_param(r->to, name, (hr_type)value->meta.type, value->meta.shape, value->init);
    hr_tags tags = *hri_graph_tags(r->from, v);
    tags.owner = tags.owner == HR_NONE ? HR_NONE : r->values[tags.owner];
    tags.frozen = 1;
    hr_graph_set_tags(r->to, made, &tags);
    return made == HR_NONE ? HRI_REWRITE_GONE : made;
}

static hr_value add_adapter(hri_rewrite *r, hr_value weight, const char *which, hr_shape shape,
                            hr_init init) {
    char name[300];
    const char *of = r->from->values[weight].name;
    if (!name_adapter(of, which, name, sizeof name)) {
        hri_graph_fail(r->to, HR_E_INVALID, "%s: the name is too long", of);
        return HR_NONE;
    }
    const hr_tags tags = {.size = sizeof tags, .owner = r->values[weight]};
    const hr_value made = hr_graph_param(r->to, name, HR_TYPE_F32, shape, init);
    hr_graph_set_tags(r->to, made, &tags);
    return made;
}

static hr_value take_node(hri_rewrite *r, const hri_node_record *n, hr_value *in) {
    adapting *x = r->user;
    const hr_value y = hri_rewrite_keep(r, n, in);
    const int product = n->sig.in_count > 1 && (is_product(n) || is_packed(n));
    const hr_value w = product ? n->in[1] : HR_NONE;
    if (y == HR_NONE || w == HR_NONE || x->kind[w] != ADAPTED) {
        return y;
    }
    const hr_shape *of_x = &n->sig.in[0].shape, *of_y = &n->sig.out[0].shape;
    const int64_t from = of_x->dim[of_x->rank - 1], to = of_y->dim[of_y->rank - 1];
    if (x->a[w] == HR_NONE) {
        const double bound = 1.0 / sqrt((double)(from ? from : 1));
        x->a[w] = add_adapter(r, w, HRI_LORA_A, hr_shape_2(x->o->rank, from),
                              hr_init_uniform(-bound, bound));
        x->b[w] = add_adapter(r, w, HRI_LORA_B, hr_shape_2(to, x->o->rank), hr_init_constant(0.0));
    }
    hr_graph_push(r->to, "lora");
    const double scale = hri_lora_scale(x->o);
    hr_value low = hri_nodef(r->to, "matmul", (const hr_value[]){in[0], x->a[w]}, 2, "transpose-b");
    if (scale != 1.0) {
        low = hri_nodef(r->to, "affine", &low, 1, "scale=%.17g", scale);
    }
    const hr_value high =
        hri_nodef(r->to, "matmul", (const hr_value[]){low, x->b[w]}, 2, "transpose-b");
    const hr_value sum = hr_graph_node(r->to, "add", (const hr_value[]){y, high}, 2, NULL);
    hr_graph_pop(r->to);
    return sum;
}

static hr_status apply(const void *given, const hr_graph *from, hr_graph *to, hri_pass_map *map) {
    adapting x = {.o = given,
                  .kind = hri_calloc(from->value_count, sizeof *x.kind),
                  .a = hri_calloc(from->value_count, sizeof *x.a),
                  .b = hri_calloc(from->value_count, sizeof *x.b)};
    hri_rewrite r = {.from = from, .to = to, .node = take_node, .source = take_source, .user = &x};
    hr_status status = x.kind && x.a && x.b ? HR_OK : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        choose(&x, from);
        if (!x.count) {
            fail_empty(&x, from, to);
        }
        status = x.count ? hri_rewrite_graph(&r) : to->error.code;
    }
    *map = (hri_pass_map){.values = r.values, .value_count = from->value_count};
    hri_free(x.kind);
    hri_free(x.a);
    hri_free(x.b);
    return status;
}

const hri_pass hri_pass_lora = {.name = "lora",
                                .help = "train low-rank adapters of linear layers, nothing else",
                                .changes_result = 1,
                                .by_user = 1,
                                .fields = fields,
                                .options_bytes = sizeof(hri_lora),
                                .check = check,
                                .apply = apply};
