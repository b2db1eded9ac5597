/* weights: linear layers read their weights in 8 or 4 bits; everything else stays f32.
 *
 * Each matmul whose weight is a matrix that products alone read becomes matmul_codes, with states <layer>.weight_packed,
 * <layer>.weight_scale and, with 4 bits, <layer>.weight_zero_point (ops/common/weight_codes.h).  The head and tables of words
 * stay.  Codes are not trained: over such a model the pass `lora` trains adapters.  The graph does not depend on numbers:
 * they are states, which a quantized checkpoint fills. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ops/common/weight_codes.h"
#include "passes/common/lora.h"
#include "passes/common/pass.h"
#include "passes/common/weights.h"

#define AT(FIELD) offsetof(hri_weights_options, FIELD)

static const hri_field fields[] = {
    {"bits", "bits of a weight: 8 or 4", AT(bits), HRI_FIELD_INT, "8", .min = 4, .max = 8},
    {"group", "weights with one scale; 0: a row of 8 bits, 64 of 4", AT(group), HRI_FIELD_INT, "0",
     .min = 0, .max = 1e9},
    {0}};

static hr_status check(const void *options, hri_prose *why) {
    const hri_weights_options *o = options;
    return o->bits == 4 || o->bits == 8
               ? HR_OK
               : hri_prose_set(why, HR_E_INVALID, "bits=%lld: weights have 8 or 4 bits",
                               (long long)o->bits);
}

/* ---- which weights ---- */

/* The last matrix among the parameters that a node reads. */
static hr_value find_head(const hr_graph *g) {
    for (uint32_t i = g->node_count; i-- > 0;) {
        for (uint32_t k = 0; k < g->nodes[i].sig.in_count; k++) {
            const hr_value v = g->nodes[i].in[k];
            if (g->values[v].kind == HR_VALUE_PARAM && g->values[v].meta.shape.rank == 2 &&
                !hri_lora_is_adapter(g, v)) {
                return v;
            }
        }
    }
    return HR_NONE;
}

int hri_weights_takes(const hr_graph *g, hr_value v) {
    const hri_value *x = &g->values[v];
    return x->kind == HR_VALUE_PARAM && x->meta.type == HR_TYPE_F32 && x->meta.shape.rank == 2 &&
           hr_shape_count(&x->meta.shape) > 0 && !hri_lora_is_adapter(g, v) &&
           hri_lora_in_first(g, v) >= 0 && v != find_head(g);
}

int hri_weights_name(const char *weight, const char *end, char *out, size_t size) {
    const int n = snprintf(out, size, "%.*s%s", (int)hri_lora_layer(weight), weight, end);
    return n > 0 && (size_t)n < size;
}

void hri_weights_sizes(const hr_graph *g, hr_value v, int64_t *out, int64_t *in) {
    const int in_first = hri_lora_in_first(g, v);
    *out = g->values[v].meta.shape.dim[in_first ? 1 : 0];
    *in = g->values[v].meta.shape.dim[in_first ? 0 : 1];
}

/* ---- the graph ---- */

typedef struct work {
    const hri_weights_options *o;
    size_t count; /* of weights that became codes */
} work;

static hr_value state(hri_rewrite *r, hr_value weight, const char *end, hr_type type,
                      hr_shape shape) {
    char name[340] = "/";
    const char *of = r->from->values[weight].name;
    if (!hri_weights_name(of, end, name + 1, sizeof name - 1)) {
        hri_graph_fail(r->to, HR_E_INVALID, "%s: the name is too long", of);
        return HR_NONE;
    }
    return hr_graph_state(r->to, name, type, shape, hr_init_constant(0.0));
}

/* Scales follow the codes, and zero points those. */
static hr_value take_source(hri_rewrite *r, hr_value v) {
    work *w = r->user;
    int64_t out, in;
    if (!hri_weights_takes(r->from, v)) {
        return HR_NONE;
    }
    hri_weights_sizes(r->from, v, &out, &in);
    const int bits = (int)w->o->bits;
    const int64_t groups = hri_weight_groups(in, hri_weight_group(bits, w->o->group, in));
    const hr_value made = state(r, v, HRI_WEIGHTS_CODES, hri_weight_code_type(bits),
                                hr_shape_2(out, hri_weight_row_bytes(bits, in)));
    state(r, v, HRI_WEIGHTS_SCALE, hri_weight_scale_type(bits), hr_shape_2(out, groups));
    if (bits == 4) {
        state(r, v, HRI_WEIGHTS_ZERO, HR_TYPE_U8, hr_shape_2(out, (groups + 1) / 2));
    }
    w->count++;
    return made == HR_NONE ? HRI_REWRITE_GONE : made;
}

static hr_value take_node(hri_rewrite *r, const hri_node_record *n, hr_value *in) {
    const work *w = r->user;
    const hr_value weight = n->sig.in_count > 1 ? n->in[1] : HR_NONE;
    if (weight == HR_NONE || !hri_weights_takes(r->from, weight)) {
        return hri_rewrite_keep(r, n, in);
    }
    int64_t rows, depth;
    hri_weights_sizes(r->from, weight, &rows, &depth);
    const int four = w->o->bits == 4;
    const hr_value codes = r->values[weight];
    hr_value from[5] = {in[0], codes, codes + 1, codes + 2};
    uint32_t count = four ? 4 : 3;
    if (n->sig.in_count > 2) {
        from[count++] = in[2];
    }
    return hri_nodef(r->to, "matmul_codes", from, count, "bits=%d,group=%lld,depth=%lld%s",
                     (int)w->o->bits,
                     (long long)hri_weight_group((int)w->o->bits, w->o->group, depth),
                     (long long)depth, hri_lora_in_first(r->from, weight) ? ",in-first" : "");
}

static hr_status apply(const void *given, const hr_graph *from, hr_graph *to, hri_pass_map *map) {
    work w = {.o = given};
    hri_rewrite r = {.from = from, .to = to, .node = take_node, .source = take_source, .user = &w};
    hr_status status = hri_rewrite_graph(&r);
    if (status == HR_OK && !w.count) {
        hri_graph_fail(to, HR_E_UNSUPPORTED,
                       "weights: the model has no linear layer but its head, so no weight becomes "
                       "smaller");
        status = to->error.code;
    }
    *map = (hri_pass_map){.values = r.values, .value_count = from->value_count};
    return status;
}

const hri_pass hri_pass_weights = {.name = "weights",
                                   .help = "weights of linear layers in 8 or 4 bits",
                                   .changes_result = 1,
                                   .by_user = 1,
                                   .fields = fields,
                                   .options_bytes = sizeof(hri_weights_options),
                                   .check = check,
                                   .apply = apply};
