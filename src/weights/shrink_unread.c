/* Channels that nothing reads; see shrink.h.
 *
 * The one idea: walk the evaluation graph and know of every channel whether it is a constant.  Where a layer's weights for an output are
 * zero, the output is its bias; a batch norm makes a constant of a constant, or of anything where its gamma is 0; ReLU makes 0 of what is
 * below.  A layer reads a channel when the channel is not constant 0 and some weight for it is not 0.  Ops that are not known here
 * make what varies, so nothing is called unread that is read. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/common/batch_norm.h"
#include "ops/common/clip.h"
#include "ops/common/functions.h"
#include "ops/common/box.h"
#include "weights/shrink.h"

typedef struct walk {
    const hri_shrinking *x;
    const hri_channels *c;
    double *level; /* by element: the constant; NaN: it varies */
    uint8_t *read; /* by unit */
    hri_prose *why;
} walk;

static double level_at(const walk *w, hr_value v, uint32_t i) {
    const uint32_t n = hri_channels_size(w->c, v);
    return n ? w->level[w->c->first[v] + (n == 1 ? 0 : i)] : NAN;
}

/* ---- what is there from the start ---- */

static hr_status read_vector(walk *w, hr_value v) {
    const uint32_t n = hri_channels_size(w->c, v);
    float *numbers = hri_calloc((size_t)n + 1, sizeof *numbers);
    if (!numbers) {
        return HR_E_NOMEM_HOST;
    }
    const hr_status status = hri_shrink_read(w->x, v, numbers, w->why);
    for (uint32_t i = 0; i < n && status == HR_OK; i++) {
        w->level[w->c->first[v] + i] = (double)numbers[i];
    }
    hri_free(numbers);
    return status;
}

static hr_status read_sources(walk *w) {
    const hr_graph *g = w->c->g;
    hr_status status = HR_OK;
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        const hri_value *value = &g->values[v];
        const int persistent = value->kind == HR_VALUE_PARAM || value->kind == HR_VALUE_STATE;
        if (value->node != HRI_NO_NODE || value->meta.type != HR_TYPE_F32 ||
            value->kind == HR_VALUE_INPUT) {
            continue;
        }
        if (persistent && value->meta.shape.rank == 1) {
            status = read_vector(w, v);
        } else if (!persistent && !value->data) {
            for (uint32_t i = 0; i < hri_channels_size(w->c, v); i++) {
                w->level[w->c->first[v] + i] = value->init.a;
            }
        }
    }
    return status;
}

/* ---- layers ---- */

/* Channel of the input that output o reads through place i of the weight's inputs. */
static uint32_t input_of(const hri_channel_layer *l, int64_t i, int64_t o) {
    return (uint32_t)(l->groups == 1 ? i : o / (l->outs / l->groups) * l->ins + i);
}

static hr_status walk_layer(walk *w, const hri_channel_layer *l) {
    const hr_meta *meta = &w->c->g->values[l->weight].meta;
    const int64_t count = hr_shape_count(&meta->shape);
    const uint32_t in = w->c->first[l->in], out = w->c->first[l->out];
    if (meta->type != HR_TYPE_F32) {
        return hri_prose_set(w->why, HR_E_UNSUPPORTED, "%s is not f32",
                             w->c->g->values[l->weight].name);
    }
    float *weight = hri_calloc((size_t)count + 1, sizeof *weight);
    uint8_t *varies = hri_calloc((size_t)l->outs + 1, 1);
    hr_status status =
        weight && varies ? hri_shrink_read(w->x, l->weight, weight, w->why) : HR_E_NOMEM_HOST;
    for (int64_t q = 0; q < count && status == HR_OK; q++) {
        const int64_t row = l->turned ? q / l->ins : q / l->outs;
        const int64_t o = l->turned ? row : q % l->outs;
        const int64_t i = l->turned ? q % l->ins : row % l->ins;
        const uint32_t from = in + input_of(l, i, o);
        if (weight[q] != 0.0F && w->level[from] != 0.0) { /* NaN is not 0 */
            varies[o] = 1;
            w->read[hri_channels_unit(w->c, from)] = 1;
        }
    }
    for (int64_t o = 0; o < l->outs && status == HR_OK; o++) {
        w->level[out + o] = varies[o]            ? (double)NAN
                            : l->bias != HR_NONE ? level_at(w, l->bias, (uint32_t)o)
                                                 : 0.0;
    }
    hri_free(weight);
    hri_free(varies);
    return status;
}

/* ---- the other ops ---- */

static double norm_of(const walk *w, const hri_node_record *n, uint32_t i) {
    const double x = level_at(w, n->in[0], i), gamma = level_at(w, n->in[1], i);
    const double beta = level_at(w, n->in[2], i), mean = level_at(w, n->in[3], i);
    const double var = level_at(w, n->in[4], i);
    const hri_batch_norm_attr *attr = n->sig.attr;
    return gamma == 0.0 ? beta : (x - mean) / sqrt(var + attr->eps) * gamma + beta;
}

#define PLACE(NAME, VALUE, SLOPE) F_##NAME,
enum { HRI_FUNCTIONS(PLACE) };
#undef PLACE

static double function_of(const hri_attr_function *p, double a) {
    typedef double T;
    if (isnan(a)) {
        return NAN;
    }
    switch (p->f) {
#define CASE(NAME, VALUE, SLOPE)                                                                   \
    case F_##NAME:                                                                                 \
        return VALUE;
        HRI_FUNCTIONS(CASE)
#undef CASE
    default:
        return NAN;
    }
}

/* What one op makes of constants a and b (b: NaN without a second input).  NaN: it is not known. */
static double value_of(const hri_node_record *n, double a, double b) {
    static const char *const keep_zero[] = {"gelu",    "silu",     "tanh", "abs",  "sqrt", "cast",
                                            "dropout", "avg_pool", "pad",  "mean", "sum",  "slice"};
    static const char *const same[] = {"max_pool", "global_avg_pool", "resize",
                                       "reshape",  "transpose",       "stop_gradient"};
    const char *op = n->sig.op->name;
    if (!strcmp(op, "relu")) {
        return a < 0 ? 0.0 : a;
    }
    if (!strcmp(op, "function")) {
        return function_of(n->sig.attr, a);
    }
    if (!strcmp(op, "clip")) {
        const hri_attr_clip *p = n->sig.attr;
        return a < p->low ? p->low : a > p->high ? p->high : a;
    }
    if (!strcmp(op, "add") || !strcmp(op, "bias_add")) {
        return a + b;
    }
    if (!strcmp(op, "mul")) {
        return a == 0.0 || b == 0.0 ? 0.0 : a * b;
    }
    if (!strcmp(op, "prelu")) {
        return a >= 0 ? a : a * b;
    }
    for (size_t i = 0; i < sizeof keep_zero / sizeof keep_zero[0]; i++) {
        if (!strcmp(op, keep_zero[i])) {
            const int border =
                !strcmp(op, "pad") && ((const hri_attr_pad *)n->sig.attr)->value != 0;
            return a == 0.0 && !border ? 0.0 : (double)NAN;
        }
    }
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        if (!strcmp(op, same[i])) {
            return a;
        }
    }
    return NAN;
}

static void walk_concat(walk *w, const hri_node_record *n) {
    const uint32_t size = hri_channels_size(w->c, n->out);
    uint32_t at = 0;
    for (uint32_t i = 0; i < n->sig.in_count; i++) {
        const uint32_t k = hri_channels_size(w->c, n->in[i]);
        for (uint32_t e = 0; e < k && k < size; e++) { /* along channels; else it varies */
            w->level[w->c->first[n->out] + at + e] = w->level[w->c->first[n->in[i]] + e];
        }
        at += k < size ? k : 0;
    }
}

/* Elements of the output whose channel lies elsewhere in its input: reshape's rule of channels.c, read backwards. */
static uint32_t place_in(const walk *w, const hri_node_record *n, uint32_t i) {
    const hr_shape *from = &w->c->g->values[n->in[0]].meta.shape;
    uint32_t inner = 1;
    if (strcmp(n->sig.op->name, "reshape") != 0) {
        return i;
    }
    for (int d = w->c->axis[n->in[0]] + 1; d < from->rank; d++) {
        inner *= (uint32_t)from->dim[d];
    }
    return i / inner % hri_channels_size(w->c, n->in[0]);
}

static void walk_other(walk *w, const hri_node_record *n) {
    const char *op = n->sig.op->name;
    const uint32_t size = hri_channels_size(w->c, n->out);
    if (!strcmp(op, "concat")) {
        walk_concat(w, n);
        return;
    }
    if (!n->sig.in_count || (!strcmp(op, "reshape") && size < hri_channels_size(w->c, n->in[0]))) {
        return;
    }
    for (uint32_t i = 0; i < size; i++) {
        const double made =
            !strcmp(op, "batch_norm_inference")
                ? norm_of(w, n, i)
                : value_of(n, level_at(w, n->in[0], place_in(w, n, i)),
                           n->sig.in_count > 1 ? level_at(w, n->in[1], i) : (double)NAN);
        w->level[w->c->first[n->out] + i] = made;
    }
}

/* Who is no layer but multiplies channels by weights all the same. */
static void walk_head(walk *w, const hri_node_record *n) {
    for (uint32_t i = 0; i < hri_channels_size(w->c, n->in[0]); i++) {
        w->read[hri_channels_unit(w->c, w->c->first[n->in[0]] + i)] |=
            level_at(w, n->in[0], i) != 0.0;
    }
}

hr_status hri_shrink_find_read(const hri_shrinking *x, uint8_t *read, hri_prose *why) {
    walk w = {.x = x, .c = &x->c, .read = read, .why = why};
    w.level = hri_calloc((size_t)x->c.count + 1, sizeof *w.level);
    if (!w.level) {
        return HR_E_NOMEM_HOST;
    }
    for (uint32_t i = 0; i <= x->c.count; i++) {
        w.level[i] = NAN;
    }
    uint32_t layer = 0;
    hr_status status = read_sources(&w);
    for (uint32_t i = 0; i < x->g->node_count && status == HR_OK; i++) {
        const hri_node_record *n = &x->g->nodes[i];
        if (layer < x->c.layer_count && x->c.layers[layer].node == i) {
            status = walk_layer(&w, &x->c.layers[layer++]);
        } else if (!strcmp(n->sig.op->name, "linear_cross_entropy")) {
            walk_head(&w, n);
        } else {
            walk_other(&w, n);
        }
    }
    hri_free(w.level);
    return status;
}
