/* Training with fake quantization: the model computes with weights and activations as they are after being 8 bits.
 *
 * Which layers and activations these are, and what an activation is called, common/quantizing.h says, so that it is what the pass
 * `quantize` makes bytes of; and the rounding is that of its kernels.  Weights have a scale for each output, which comes from the
 * weights themselves.  Batch norm needs no folding here: it multiplies outputs, and a factor of an output changes its scale and not its codes.
 * Activations have a learned range each (ops/common/learned_range.h), a state "<activation>.range".
 *
 *   from step `begin`    weights and activations are rounded; before, ranges are only watched
 *   from step `norms`    batch norms use their running statistics, which stand still, as the folded layer does
 *   from step `freeze`   ranges stand still
 *
 * The evaluation of a model with it rounds as well, from `begin` on.  Ranges are moved behind everything else, so whatever reads them is
 * computed before. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "passes/common/pass.h"
#include "passes/common/qat.h"
#include "passes/common/quantizing.h"

#define AT(FIELD) offsetof(hri_qat, FIELD)

enum { STEPS_MOST = 2000000000 };

static const hri_field fields[] = {
    {"begin", "first step that rounds", AT(begin), HRI_FIELD_INT, "0", .min = 0, .max = STEPS_MOST},
    {"norms",
     "first step with batch norm statistics that stand still, -1: none; auto: 3/8 of the steps",
     AT(norms), HRI_FIELD_INT, "auto", .min = -1, .max = STEPS_MOST, .word = "auto"},
    {"freeze", "first step with ranges that stand still; auto: half of the steps", AT(freeze),
     HRI_FIELD_INT, "auto", .min = 1, .max = STEPS_MOST, .word = "auto"},
    {"keep", "share of a range that stays in each step", AT(keep), HRI_FIELD_DOUBLE, "0.99",
     .min = 0, .max = 0.999999},
    {0}};

static hr_status check(const void *options, hri_prose *why) {
    const hri_qat *o = options;
    if (o->freeze != INT64_MIN && o->freeze <= o->begin) {
        return hri_prose_set(why, HR_E_INVALID, "freeze=%lld is not after begin=%lld",
                             (long long)o->freeze, (long long)o->begin);
    }
    if (o->norms != INT64_MIN && o->norms >= 0 && o->norms < o->begin) {
        return hri_prose_set(why, HR_E_INVALID, "norms=%lld is before begin=%lld",
                             (long long)o->norms, (long long)o->begin);
    }
    return HR_OK;
}

int hri_qat_is_range(const hr_graph *g, hr_value v) {
    const hri_value *x = &g->values[v];
    const size_t n = strlen(x->name), k = sizeof HRI_QAT_RANGE - 1;
    return x->kind == HR_VALUE_STATE && x->meta.shape.rank == 1 &&
           x->meta.shape.dim[0] == HRI_LEARNED_RANGE && n > k &&
           !strcmp(x->name + n - k, HRI_QAT_RANGE);
}

void hri_qat_settle(hri_qat *o, uint64_t steps) {
    const int64_t all = steps ? (int64_t)steps : o->begin + 1000;
    const int64_t left = all > o->begin ? all - o->begin : 0;
    if (o->norms == INT64_MIN) {
        o->norms = o->begin + left / 8 * 3;
    }
    if (o->freeze == INT64_MIN) {
        o->freeze = o->begin + (left / 2 > 0 ? left / 2 : 1);
    }
}

int64_t hri_qat_settled(const hri_qat *o) {
    return o->norms > o->freeze ? o->norms : o->freeze;
}

typedef struct work {
    const hri_qat *o;
    int training;
    hri_evaluated e; /* in training: what is rewritten */
    hri_quantizing q;
    hr_value *state;  /* by value with a range of its own: the range, in `to` */
    hr_value *scale;  /* the same: scale and zero point */
    hr_value *fake;   /* the same: rounded */
    hr_value *seen;   /* the same: least and greatest */
    hr_value *drop;   /* by value: what dropout leaves of it */
    hr_value *weight; /* by site: rounded */
} work;

/* ---- values ---- */

static hr_value scale_of(hri_rewrite *r, hr_value v) {
    work *w = r->user;
    char name[340];
    if (w->scale[v] != HR_NONE) {
        return w->scale[v];
    }
    if (snprintf(name, sizeof name, "/%s" HRI_QAT_RANGE, w->q.name[v]) >= (int)sizeof name) {
        hri_graph_fail(r->to, HR_E_INVALID, "%s: the name is too long", w->q.name[v]);
        return HR_NONE;
    }
    w->state[v] = hr_graph_state(r->to, name, HR_TYPE_F32, hr_shape_1(HRI_LEARNED_RANGE),
                                 hr_init_constant(0.0));
    w->scale[v] = hri_nodef(r->to, "range_scale", &w->state[v], 1, "begin=%lld,keep=%.17g%s",
                            (long long)w->o->begin, w->o->keep, w->training ? "" : ",evaluate");
    return w->scale[v];
}

/* Value v of the graph before, rounded. */
static hr_value rounded(hri_rewrite *r, hr_value v) {
    work *w = r->user;
    if (w->q.range[v] != v) {
        return r->values[v]; /* of numbers that were */
    }
    if (w->fake[v] == HR_NONE) {
        const hr_value scale = scale_of(r, v), x = r->values[v];
        w->seen[v] = w->training ? HRI_NODE(r->to, "min_max", NULL, x) : HR_NONE;
        w->fake[v] = HRI_NODE(r->to, "fake_quantize", NULL, x, scale);
    }
    return w->fake[v];
}

/* Would the integer graph make it as bytes? */
static int is_bytes(const work *w, hr_value v) {
    const uint32_t node = w->q.g->values[v].node;
    return w->q.bytes[v] && node != HRI_NO_NODE && w->q.part[node] != HRI_PART_KEEP &&
           w->q.part[node] != HRI_PART_SKIP;
}

/* Does node `number` read input i as bytes? */
static int reads_bytes(const work *w, uint32_t number, uint32_t i) {
    const hri_node_record *n = &w->q.g->nodes[number];
    if (!w->q.bytes[n->in[i]]) {
        return 0;
    }
    if (w->q.part[number] == HRI_PART_POOL || w->q.part[number] == HRI_PART_MEAN ||
        w->q.part[number] == HRI_PART_SHAPE) {
        return i == 0;
    }
    for (size_t k = 0; k < w->q.site_count; k++) {
        if (w->q.sites[k].node == number) {
            return i == 0;
        }
    }
    for (uint32_t k = 0; k < w->q.g->node_count; k++) {
        if (w->q.part[k] == HRI_PART_ADD && w->q.of[k] == number) {
            return i < 2;
        }
    }
    return 0;
}

/* What dropout leaves of `made`, which is value v or what became of it. */
static hr_value dropped(hri_rewrite *r, hr_value v, hr_value made) {
    work *w = r->user;
    const uint32_t node = w->training ? w->e.drop[v] : 0;
    if (!node || made == HR_NONE) {
        return made;
    }
    if (w->drop[v] == HR_NONE) {
        const hri_node_record *n = &w->e.from->nodes[node - 1];
        w->drop[v] = hri_graph_add(r->to, n->sig.op, &made, 1, n->sig.attr);
    }
    return w->drop[v];
}

/* ---- nodes ---- */

static hr_value weight_of(hri_rewrite *r, size_t site) {
    work *w = r->user;
    const hri_site *s = &w->q.sites[site];
    if (w->weight[site] == HR_NONE) {
        const hr_value in[] = {r->values[s->weight], scale_of(r, w->q.range[s->in])};
        w->weight[site] =
            hr_graph_node(r->to, "fake_quantize_weight", in, 2, s->turned ? "rows" : NULL);
    }
    return w->weight[site];
}

/* Its own statistics, later the running ones; these are copied, because they are moved before gradients read them. */
static hr_value train_norm(hri_rewrite *r, const hri_node_record *n, const hr_value *in) {
    const work *w = r->user;
    const hr_graph *from = w->e.from;
    const hri_node_record *apply = &from->nodes[w->e.norm[n - r->from->nodes] - 1];
    const hr_value mean_before = apply->in[3];
    const hri_node_record *moments = &from->nodes[from->values[mean_before].node];
    const hri_node_record *stats =
        &from->nodes[hri_evaluated_reader(from, mean_before, 2, "batch_norm_stats")];
    char text[400];
    hri_attr_print(stats->sig.op, stats->sig.attr, text, sizeof text);
    const hr_value mean = hri_graph_add(r->to, moments->sig.op, in, 1, moments->sig.attr);
    const hr_value apart[] = {in[0], in[1], in[2], mean, mean + 1};
    hr_value y = hr_graph_node(r->to, "batch_norm_apply", apart, 5, NULL);
    if (w->o->norms >= 0 && y != HR_NONE) {
        const hr_value still =
            hri_nodef(r->to, "from_step", &in[3], 1, "step=%lld", (long long)w->o->norms);
        const hr_value with[] = {in[0], in[1], in[2], HRI_NODE(r->to, "affine", NULL, in[3]),
                                 HRI_NODE(r->to, "affine", NULL, in[4])};
        const hr_value running = hri_graph_add(r->to, n->sig.op, with, 5, n->sig.attr);
        y = HRI_NODE(r->to, "where", NULL, still, running, y);
    }
    const hr_value move[] = {in[3], in[4], mean, mean + 1};
    if (w->o->norms >= 0) {
        hri_nodef(r->to, "batch_norm_stats", move, 4, "%s,until=%lld", text,
                  (long long)w->o->norms);
    } else {
        hr_graph_node(r->to, "batch_norm_stats", move, 4, text);
    }
    return y;
}

static hr_value take_node(hri_rewrite *r, const hri_node_record *n, hr_value *in) {
    work *w = r->user;
    const uint32_t number = (uint32_t)(n - r->from->nodes);
    for (uint32_t i = 0; i < n->sig.in_count; i++) {
        const hr_value v = n->in[i];
        const int small = reads_bytes(w, number, i) || is_bytes(w, v);
        in[i] = dropped(r, v, small ? rounded(r, v) : in[i]);
    }
    for (size_t k = 0; k < w->q.site_count; k++) {
        if (w->q.sites[k].node == number) {
            in[1] = weight_of(r, k);
        }
    }
    return w->training && w->e.norm[number] ? train_norm(r, n, in) : hri_rewrite_keep(r, n, in);
}

static void move_ranges(hri_rewrite *r) {
    const work *w = r->user;
    for (hr_value v = 1; v < r->from->value_count && r->to->error.code == HR_OK; v++) {
        if (w->seen[v] != HR_NONE) {
            const hr_value in[] = {w->state[v], w->seen[v]};
            hri_nodef(r->to, "range_move", in, 2, "until=%lld,keep=%.17g", (long long)w->o->freeze,
                      w->o->keep);
        }
    }
}

/* ---- the pass ---- */

static hr_status rewrite(work *w, const hr_graph *from, hr_graph *to) {
    hri_rewrite r = {.from = from, .to = to, .node = take_node, .user = w};
    hr_status status = hri_quantizing_init(&w->q, from, 0);
    if (status != HR_OK) {
        return status;
    }
    if (!w->q.site_count) {
        hri_graph_fail(to, HR_E_UNSUPPORTED,
                       "qat: the model has no convolution or linear layer that can be quantized");
        return to->error.code;
    }
    hr_value *all = hri_calloc(5 * (size_t)from->value_count + w->q.site_count, sizeof *all);
    if (!all) {
        return HR_E_NOMEM_HOST;
    }
    w->state = all;
    w->scale = all + from->value_count;
    w->fake = all + 2 * (size_t)from->value_count;
    w->seen = all + 3 * (size_t)from->value_count;
    w->drop = all + 4 * (size_t)from->value_count;
    w->weight = all + 5 * (size_t)from->value_count;
    status = hri_rewrite_graph(&r);
    if (status == HR_OK) {
        move_ranges(&r);
        status = to->error.code;
    }
    hri_free(r.values);
    hri_free(all);
    return status;
}

/* Which value became which nobody asks of it. */
static hr_status no_map(hri_pass_map *map, const hr_graph *from, hr_status status) {
    hr_value *values = status == HR_OK ? hri_calloc(from->value_count, sizeof *values) : NULL;
    *map = (hri_pass_map){.values = values, .value_count = values ? from->value_count : 0};
    return status == HR_OK && !values ? HR_E_NOMEM_HOST : status;
}

static hr_status apply(const void *given, const hr_graph *from, hr_graph *to, hri_pass_map *map) {
    work w = {.o = given, .training = 1};
    if (w.o->norms == INT64_MIN || w.o->freeze == INT64_MIN) {
        hri_graph_fail(to, HR_E_INVALID, "qat: norms=STEP and freeze=STEP are missing");
        return to->error.code;
    }
    hr_status status = hri_evaluated_init(&w.e, from);
    if (status == HR_OK) {
        status = rewrite(&w, w.e.g, to);
    } else if (status != HR_E_NOMEM_HOST) {
        hri_graph_fail(to, status, "qat: %s", w.e.g ? w.e.g->error.message : "");
    }
    hri_quantizing_deinit(&w.q);
    hri_evaluated_deinit(&w.e);
    return no_map(map, from, status);
}

static hr_status apply_evaluate(const void *given, const hr_graph *from, hr_graph *to,
                                hri_pass_map *map) {
    work w = {.o = given};
    const hr_status status = rewrite(&w, from, to);
    hri_quantizing_deinit(&w.q);
    return no_map(map, from, status);
}

const hri_pass hri_pass_qat = {.name = "qat",
                               .help = "train with weights and activations rounded to 8 bits",
                               .changes_result = 1,
                               .by_user = 1,
                               .fields = fields,
                               .options_bytes = sizeof(hri_qat),
                               .check = check,
                               .apply = apply,
                               .apply_evaluate = apply_evaluate};
