/* Pruning while training: weights of small magnitude become 0 and stay it, more of them as the schedule says.
 *
 * Here it is only said which weights and when; a weight that is pruned gets a mask of one bit an element, and a note with the
 * schedule.  The graph of a step does the rest (step/step.c): gradients are 0 where the mask is, before their norm is taken,
 * and behind the update the op `prune` chooses another mask in the steps in which it changes, and puts zeros into weights and
 * optimizer states.  With w, its states and its gradient 0 every optimizer leaves w at exactly 0, so no optimizer knows
 * of masks.
 *
 * What is pruned: matrices and convolutions that products read.  The first convolution and the last layer, which are small and
 * matter most, only when `layers` names them.  2:4 leaves two of every four weights along the inputs that are summed, in layers
 * whose number of inputs is a multiple of four. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "ops/common/sparsity.h"
#include "passes/common/lora.h"
#include "passes/common/pass.h"
#include "passes/common/pattern.h"
#include "passes/common/prune.h"

#define AT(FIELD) offsetof(hri_prune, FIELD)

static const hri_field fields[] = {
    {"sparsity", "share of zeros at the end (0.8), from one share to another (0.5:0.8), or 2:4",
     AT(sparsity), HRI_FIELD_STRING, "0.5"},
    {"begin", "step of the first change", AT(begin), HRI_FIELD_INT, "0", .min = 0, .max = 9e15},
    {"end", "step of the last change; auto: three quarters of --steps, or 1000 after begin",
     AT(end), HRI_FIELD_INT, "auto", .min = 0, .max = 9e15, .word = "auto"},
    {"every", "steps between changes", AT(every), HRI_FIELD_INT, "100", .min = 1, .max = 9e15},
    {"layers", "layers to prune: names joined by +, * for any letters", AT(layers),
     HRI_FIELD_STRING, NULL},
    {0}};

/* The share of zeros at both ends; 2:4 is one half. */
static int read_sparsity(const char *text, double *initial, double *final, int *two_of_four) {
    char *end = NULL;
    *two_of_four = !strcmp(text, "2:4");
    if (*two_of_four) {
        *initial = *final = 0.5;
        return 1;
    }
    *initial = 0.0;
    *final = hri_strtod(text, &end);
    if (end == text) {
        return 0;
    }
    if (*end == ':') {
        const char *second = end + 1;
        *initial = *final;
        *final = hri_strtod(second, &end);
        if (end == second) {
            return 0;
        }
    }
    return !*end && *initial >= 0 && *final >= *initial && *final <= 0.9999;
}

double hri_prune_final(const hri_prune *o) {
    double initial, final;
    int two_of_four;
    return read_sparsity(o->sparsity, &initial, &final, &two_of_four) ? final : 0.0;
}

static hr_status check(const void *options, hri_prose *why) {
    const hri_prune *o = options;
    double initial, final;
    int two_of_four;
    hri_prose inner = {""};
    if (!o->sparsity || !read_sparsity(o->sparsity, &initial, &final, &two_of_four)) {
        return hri_prose_set(why, HR_E_INVALID,
                             "sparsity: \"%s\" is not a share up to 0.9999 (0.8), a rising pair of "
                             "them (0.5:0.8), or 2:4",
                             o->sparsity ? o->sparsity : "");
    }
    if (o->end != INT64_MIN && o->end < o->begin) {
        return hri_prose_set(why, HR_E_INVALID, "end=%lld is before begin=%lld", (long long)o->end,
                             (long long)o->begin);
    }
    const hr_status status = o->layers ? hri_pattern_check(o->layers, &inner) : HR_OK;
    return status == HR_OK ? HR_OK : hri_prose_set(why, status, "layers: %s", inner.text);
}

/* ---- which ---- */

typedef struct pruning {
    const hri_prune *o;
    double initial, final;
    int two_of_four;
    hr_value first, last; /* that are left out unless they are named */
    size_t count;
} pruning;

/* The weight of a product: the input that is a parameter of two dimensions or more. */
static hr_value weight_of(const hr_graph *g, const hri_node_record *n) {
    for (uint32_t i = 0; n->sig.op->product && i < n->sig.in_count; i++) {
        const hri_value *v = &g->values[n->in[i]];
        if (v->kind == HR_VALUE_PARAM && v->meta.shape.rank > 1 && v->meta.type == HR_TYPE_F32) {
            return n->in[i];
        }
    }
    return HR_NONE;
}

static void find_ends(pruning *x, const hr_graph *g) {
    int begun = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const hr_value w = weight_of(g, &g->nodes[i]);
        if (w != HR_NONE) {
            x->first = !begun && !strcmp(g->nodes[i].sig.op->name, "conv2d") ? w : x->first;
            x->last = w;
            begun = 1;
        }
    }
}

static int is_read_by_products(const hr_graph *g, hr_value v) {
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (weight_of(g, &g->nodes[i]) == v) {
            return 1;
        }
    }
    return 0;
}

/* Of 2:4: how far apart weights of one sum lie; 0: they cannot be put into groups. */
static int64_t inner_of(const hr_graph *g, hr_value v) {
    const hr_shape *s = &g->values[v].meta.shape;
    if (s->rank == 4) { /* (KH, KW, C, O) */
        return s->dim[2] % 4 ? 0 : s->dim[3];
    }
    const int in_first = s->rank == 2 ? hri_lora_in_first(g, v) : -1;
    return in_first < 0 || s->dim[in_first ? 0 : 1] % 4 ? 0 : in_first ? s->dim[1] : 1;
}

static int is_pruned(const pruning *x, const hr_graph *g, hr_value v) {
    const hri_value *value = &g->values[v];
    if (value->kind != HR_VALUE_PARAM || value->meta.shape.rank < 2 ||
        hr_shape_count(&value->meta.shape) < 1 || hri_graph_tags(g, v)->frozen ||
        hri_lora_is_adapter(g, v)) {
        return 0;
    }
    const int named =
        x->o->layers ? hri_pattern_has(x->o->layers, value->name) : v != x->first && v != x->last;
    return named && is_read_by_products(g, v) && (!x->two_of_four || inner_of(g, v) > 0);
}

/* ---- the graph ---- */

hr_value hri_prune_mask_of(const hr_graph *g, hr_value param) {
    char name[300];
    snprintf(name, sizeof name, "%s" HRI_PRUNE_MASK, g->values[param].name);
    return hri_graph_find_note(g, name) ? hr_graph_find(g, name) : HR_NONE;
}

static void add_mask(pruning *x, hri_rewrite *r, hr_value v) {
    const hri_value *value = &r->from->values[v];
    char name[300], text[256];
    const int length = snprintf(name, sizeof name, "/%s" HRI_PRUNE_MASK, value->name);
    if (length < 0 || (size_t)length >= sizeof name) {
        hri_graph_fail(r->to, HR_E_INVALID, "%s: the name is too long", value->name);
        return;
    }
    const hr_tags tags = {.size = sizeof tags, .owner = r->values[v], .keep = HR_KEEP_OPTIMIZER};
    const hr_value mask = hr_graph_state(
        r->to, name, HR_TYPE_U8, hr_shape_2(1, hri_mask_bytes(hr_shape_count(&value->meta.shape))),
        hr_init_constant(255));
    hr_graph_set_tags(r->to, mask, &tags);
    const int used = hri_snprintf(
        text, sizeof text, "initial=%.17g,final=%.17g,begin=%lld,end=%lld,every=%lld", x->initial,
        x->final, (long long)x->o->begin, (long long)x->o->end, (long long)x->o->every);
    if (x->two_of_four && used > 0) {
        snprintf(text + used, sizeof text - (size_t)used, ",inner=%lld",
                 (long long)inner_of(r->from, v));
    }
    hri_graph_note(r->to, name + 1, text);
    x->count++;
}

static hr_status apply(const void *given, const hr_graph *from, hr_graph *to, hri_pass_map *map) {
    pruning x = {.o = given};
    hri_rewrite r = {.from = from, .to = to};
    (void)read_sparsity(x.o->sparsity, &x.initial, &x.final, &x.two_of_four);
    if (x.o->end == INT64_MIN) {
        hri_graph_fail(to, HR_E_INVALID,
                       "prune: end=STEP is missing: the last change of the masks");
        return to->error.code;
    }
    find_ends(&x, from);
    hr_status status = hri_rewrite_graph(&r);
    for (hr_value v = 1; v < from->value_count && status == HR_OK; v++) {
        if (is_pruned(&x, from, v)) {
            add_mask(&x, &r, v);
            status = to->error.code;
        }
    }
    if (status == HR_OK && !x.count) {
        hri_graph_fail(to, HR_E_INVALID, "prune: no layer %s%s",
                       x.o->layers ? "matches layers=" : "can be pruned",
                       x.o->layers ? x.o->layers : "");
        status = to->error.code;
    }
    *map = (hri_pass_map){.values = r.values, .value_count = from->value_count};
    return status;
}

const hri_pass hri_pass_prune = {.name = "prune",
                                 .help = "small weights become zero while training",
                                 .changes_result = 1,
                                 .by_user = 1,
                                 .training_only = 1,
                                 .fields = fields,
                                 .options_bytes = sizeof(hri_prune),
                                 .check = check,
                                 .apply = apply};
