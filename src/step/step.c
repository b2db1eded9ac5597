/* Building the graph of a step: model, precision, gradients, sums, factor, updates; in this order and once each.
 *
 * Nothing here knows a model or computes a number.  Everything that the optimizer needs is a node or a small input, so
 * the planner sees it: without clipping and checks an update depends on its own gradient only and may run as soon as
 * that is there.
 *
 * What is only ever summed is never kept apart.  A weight that is used twice has its gradients in several pieces, and a
 * batch in parts has several of each; where nothing looks at the whole gradient before the update, they go one by one
 * into the sum, or (sgd with momentum) straight into the velocity: v = m v + d1 + d2 + ... + decay w. */
#include <headroom/ops.h>
#include <headroom/train.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "base/number.h"
#include "passes/common/ema.h"
#include "passes/common/masks.h"
#include "step/options.h"
#include "step/step_int.h"

/* ---- small things ---- */

hr_value hri_step_input(hri_step_maker *m, const char *name) {
    return hr_graph_input(m->g, name, HR_TYPE_F32, hr_shape_0());
}

static int is_last(const hri_step_maker *m) {
    return m->kind == HR_STEP_WHOLE || m->kind == HR_STEP_LAST || m->kind == HR_STEP_FOLD_LAST ||
           m->kind == HR_STEP_ROUND_LAST;
}

/* ---- the model ---- */

static hr_status build_model(hri_step_maker *m, hr_build_fn *build, void *user, int64_t batch) {
    hr_graph *g = m->g;
    g->keep_scores = m->o->scores != HR_SCORES_SLICES;
    const hr_status status = build(user, g, batch, m->kind != HR_STEP_EVALUATE);
    if (status != HR_OK) {
        hri_graph_fail(g, status, "the model could not be built: %s", hr_status_text(status));
    }
    if (g->error.code == HR_OK && g->depth) {
        hri_graph_fail(g, HR_E_INVALID, "scope \"%s\" was never left (hr_graph_pop)", g->path);
    }
    return g->error.code;
}

/* Replaces m->g by its copy in the small type.  On failure m->g is the graph that holds the reason. */
static hr_status lower_precision(hri_step_maker *m) {
    hr_graph *small;
    hri_pass_options pass;
    const int bf16 = m->o->precision == HR_PRECISION_BF16;
    hr_status status = hri_pass_parse(bf16 ? "precision:to=bf16" : "precision:to=f16", &pass, NULL);
    if (status != HR_OK) {
        return status;
    }
    status = hr_graph_create(&small);
    if (status != HR_OK) {
        hri_pass_options_deinit(&pass);
        return status;
    }
    status = hri_pass_apply(&pass, m->g, small, &m->map);
    hri_pass_options_deinit(&pass);
    hr_graph_destroy(m->g);
    m->g = small;
    return status;
}

/* Replaces m->g likewise, where that changes something. */
static hr_status take_masks(hri_step_maker *m) {
    hr_graph *masked;
    if (!hri_masks_take(m->g)) {
        return HR_OK;
    }
    hr_status status = hr_graph_create(&masked);
    if (status == HR_OK) {
        status = hri_masks_apply(m->g, masked);
        hr_graph_destroy(m->g);
        m->g = masked;
    }
    return status;
}

/* Predictions are results of an evaluation.  In a training step nobody reads them, and to keep the logits of a language
 * model to its end would cost as much memory as anything else in it.  Spare results are left out of both: an evaluation
 * lies in the arena of the training, and would make its floor. */
static void drop_results(hr_graph *g, int training) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->result_count; i++) {
        const hri_result *r = &g->results[i];
        if (!r->spare && (!training || g->values[r->value].meta.shape.rank == 0)) {
            g->results[kept++] = g->results[i];
        }
    }
    g->result_count = kept;
}

static void find_loss(hri_step_maker *m) {
    const hr_value loss = hr_graph_find(m->g, "loss");
    const hri_value *v = &m->g->values[loss];
    if (loss == HR_NONE || v->meta.shape.rank != 0 || !hr_type_is_real(v->meta.type)) {
        hri_graph_fail(m->g, HR_E_SHAPE,
                       "the model needs a floating-point scalar result named "
                       "\"loss\"");
        return;
    }
    m->loss = v->meta.type == HR_TYPE_F32 ? loss : HRI_NODE(m->g, "cast", NULL, loss);
    for (uint32_t i = 0; i < m->g->result_count; i++) {
        if (m->g->results[i].value == loss) {
            m->g->results[i].value = m->loss;
        }
    }
    drop_results(m->g, m->kind != HR_STEP_EVALUATE);
}

/* ---- gradients ---- */

static hr_status find_params(hri_step_maker *m) {
    const hr_graph *g = m->g;
    m->params = hri_calloc(g->value_count, sizeof *m->params);
    m->reads = hri_calloc(g->value_count, sizeof *m->reads);
    m->grads = hri_calloc(g->value_count, sizeof *m->grads);
    if (!m->params || !m->reads || !m->grads) {
        return HR_E_NOMEM_HOST;
    }
    for (hr_value v = 1; v < g->value_count; v++) {
        if (g->values[v].kind == HR_VALUE_PARAM && hr_type_is_real(g->values[v].meta.type) &&
            !hri_graph_tags(g, v)->frozen) {
            m->params[m->count] = v;
            m->reads[m->count++] = hri_pass_read(&m->map, v);
        }
    }
    return HR_OK;
}

static hr_status differentiate(hri_step_maker *m) {
    hr_status status = find_params(m);
    if (status != HR_OK) {
        return status;
    }
    if (m->o->precision == HR_PRECISION_F16) {
        m->scale = hri_step_input(m, "/train.scale");
    }
    const hr_value seed = hri_step_join_head(m);
    status = hr_graph_differentiate(m->g, m->loss, seed, m->reads, m->count, m->grads);
    if (status != HR_OK) {
        return status;
    }
    size_t kept = 0; /* what the loss does not depend on stays as it is */
    for (size_t i = 0; i < m->count; i++) {
        if (m->grads[i] != HR_NONE) {
            m->params[kept] = m->params[i];
            m->reads[kept] = m->reads[i];
            m->grads[kept++] = m->grads[i];
        }
    }
    m->count = kept;
    if (!kept) {
        hri_graph_fail(m->g, HR_E_INVALID, "the loss does not depend on any parameter");
    }
    return m->g->error.code;
}

/* ---- gradients in pieces ---- */

hr_value hri_step_constant(hri_step_maker *m, hr_value *kept, double number) {
    if (*kept == HR_NONE) {
        *kept = hr_graph_fill(m->g, HR_TYPE_F32, hr_shape_0(), number);
    }
    return *kept;
}

/* The sum itself is made only if somebody reads it. */
size_t hri_step_pieces(const hr_graph *g, hr_value grad, hr_value *pieces, size_t count,
                       size_t most) {
    const hri_node_record *node =
        g->values[grad].node == HRI_NO_NODE ? NULL : &g->nodes[g->values[grad].node];
    if (count + 2 <= most && node && !strcmp(node->sig.op->name, "add") &&
        hr_shape_same(&node->sig.in[0].shape, &node->sig.out[0].shape) &&
        hr_shape_same(&node->sig.in[1].shape, &node->sig.out[0].shape)) {
        const hr_value left = node->in[0], right = node->in[1];
        count = hri_step_pieces(g, left, pieces, count, most - 1);
        return hri_step_pieces(g, right, pieces, count, most);
    }
    pieces[count++] = grad;
    return count;
}

static int in_parts(const hri_step_maker *m) {
    return m->kind != HR_STEP_WHOLE;
}

/* A whole batch has no parts whose weights may turn out to be others.  Masks lie over sums, which is the same on every rank. */
int hri_step_feeds_velocity(const hri_step_maker *m) {
    hr_train_options o = *m->o;
    o.ignored = o.ignored && in_parts(m);
    return m->kind != HR_STEP_UPDATE && hri_train_feeds_velocity(&o) && !hri_step_prunes(m);
}

/* state <- (first of the step ? begin : state) + weight * piece, for pieces[0 .. count). */
static hr_value add_pieces(hri_step_maker *m, const char *op, const char *attributes,
                           hr_value state, const hr_value *pieces, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const hr_value weight = in_parts(m) ? m->weight : hri_step_constant(m, &m->one, 1.0);
        const hr_value first = i             ? hri_step_constant(m, &m->zero, 0.0)
                               : in_parts(m) ? m->first
                                             : hri_step_constant(m, &m->one, 1.0);
        const hr_value in[] = {state, pieces[i], weight, first};
        state = hr_graph_node(m->g, op, in, 4, attributes);
    }
    return state;
}

/* Parts: each gradient becomes the sum so far. */
static void add_to_sums(hri_step_maker *m) {
    for (size_t i = 0; i < m->count; i++) {
        hr_value pieces[HRI_STEP_PIECES];
        const size_t count = hri_step_pieces(m->g, m->grads[i], pieces, 0, HRI_STEP_PIECES);
        const hr_value sum = hri_step_state(m, m->params[i], "sum", HR_KEEP_NOT);
        m->grads[i] = add_pieces(m, "accumulate", NULL, sum, pieces, count);
    }
}

/* ---- clipping, the finite check ---- */

/* Of gradients first .. first + n: the sum of their squares, over all ranks. */
static hr_value square_sum(hri_step_maker *m, size_t first, size_t n) {
    if (!m->shard || m->shard->gather_norm || m->shard->mode == HRI_SHARD_NONE) {
        hr_value wholes[HRI_IN_MAX];
        for (size_t i = 0; i < n; i++) {
            wholes[i] = hri_step_whole(m, m->grads[first + i], m->reads[first + i]);
        }
        return hri_node(m->g, "square_sum", wholes, (uint32_t)n, NULL);
    }
    char text[640];
    size_t at = (size_t)snprintf(text, sizeof text, "ranks=%u", m->shard->ranks);
    for (size_t i = 0; i < n && at < sizeof text; i++) {
        const hr_shape *whole = &m->g->values[m->reads[first + i]].meta.shape;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld",
                               i == 0              ? ",sizes="
                               : i == HRI_DIMS_MAX ? ",more="
                                                   : "x",
                               (long long)hr_shape_count(whole));
    }
    return hr_graph_node(m->g, "square_sum_ranks", m->grads + first, n, text);
}

static void make_factor(hri_step_maker *m) {
    hr_value total = HR_NONE;
    for (size_t i = 0; i < m->count; i += HRI_IN_MAX) {
        const size_t n = m->count - i < HRI_IN_MAX ? m->count - i : HRI_IN_MAX;
        const hr_value sum = square_sum(m, i, n);
        total = total == HR_NONE ? sum : HRI_NODE(m->g, "add", NULL, total, sum);
    }
    char attributes[64];
    const hr_value in[] = {total, m->scale};
    hri_snprintf(attributes, sizeof attributes, "clip=%.17g", m->o->clip);
    m->factor = hr_graph_node(m->g, "update_factor", in, m->scale == HR_NONE ? 1 : 2, attributes);
    hr_graph_result(m->g, m->factor, "train.factor");
    hr_graph_result(m->g, hr_graph_output(m->g, m->factor, 1), "train.norm");
}

/* ---- updates ---- */

/* Sgd whose gradient comes in pieces: all but the last of the step go into the velocity, which is complete with that one
 * and then moves the weight. */
static hr_value update_by_pieces(hri_step_maker *m, hr_value w, hr_value grad) {
    hr_value pieces[HRI_STEP_PIECES];
    char attributes[64];
    const size_t count = hri_step_pieces(m->g, grad, pieces, 0, HRI_STEP_PIECES),
                 last = is_last(m) ? 1 : 0;
    hri_snprintf(attributes, sizeof attributes, "momentum=%.17g", m->o->momentum);
    const hr_value velocity =
        add_pieces(m, "sgd_velocity", attributes,
                   hri_step_state(m, w, "velocity", HR_KEEP_OPTIMIZER), pieces, count - last);
    return last ? hri_step_update_last(m, w, w, velocity, pieces[count - 1],
                                       in_parts(m) ? m->weight : HR_NONE)
                : HR_NONE;
}

void hri_step_make_inputs(hri_step_maker *m) {
    const hr_train_options *o = m->o;
    m->rate = hri_step_input(m, "/train.rate");
    if (o->optimizer == HR_OPTIMIZER_ADAM || o->optimizer == HR_OPTIMIZER_ADAMW ||
        o->optimizer == HR_OPTIMIZER_ADAFACTOR) {
        m->update = hri_step_input(m, "/train.update");
    }
    if (o->clip > 0.0 || o->check || o->precision == HR_PRECISION_F16) {
        make_factor(m);
    }
}

void hri_step_average(hri_step_maker *m, hr_value param, hr_value now) {
    const hr_value ema = now == HR_NONE ? HR_NONE : hri_ema_of(m->g, param);
    if (ema == HR_NONE || m->g->error.code != HR_OK) {
        return;
    }
    const double decay = hri_strtod(hri_graph_find_note(m->g, HRI_EMA_NOTE), NULL);
    const hr_value share = hri_step_constant(m, &m->average, 1.0 - decay);
    (void)hr_graph_node(m->g, "accumulate", (const hr_value[]){ema, now, share, share}, 4, NULL);
}

static void make_updates(hri_step_maker *m) {
    hri_step_make_inputs(m);
    /* Gradients of the last layers are there first. */
    for (size_t i = m->count; i-- > 0 && m->g->error.code == HR_OK;) {
        hr_value pieces[HRI_STEP_PIECES];
        if (hri_step_feeds_velocity(m) &&
            (in_parts(m) || hri_step_pieces(m->g, m->grads[i], pieces, 0, HRI_STEP_PIECES) > 1)) {
            hri_step_average(m, m->params[i], update_by_pieces(m, m->params[i], m->grads[i]));
        } else {
            const hr_value w = m->params[i];
            const int64_t count = hr_shape_count(&m->g->values[w].meta.shape);
            const hr_value now = hri_step_update(m, w, count, w, m->grads[i]);
            hri_step_average(m, w, hri_step_prune(m, w, now, HR_NONE));
        }
    }
}

/* A part that is not the last, whose gradients need no sums. */
static void feed_velocities(hri_step_maker *m) {
    for (size_t i = m->count; i-- > 0 && m->g->error.code == HR_OK;) {
        (void)update_by_pieces(m, m->params[i], m->grads[i]);
    }
}

/* A persistent value of `from` in `to`, under the same name. */
static hr_value copy_value(const hr_graph *from, hr_value v, hr_graph *to) {
    const hri_value *is = &from->values[v];
    char name[300];
    const int n = snprintf(name, sizeof name, "/%s", is->name);
    if (n < 0 || (size_t)n >= sizeof name) {
        hri_graph_fail(to, HR_E_INVALID, "%s: the name is too long", is->name);
        return HR_NONE;
    }
    const hr_type type = (hr_type)is->meta.type;
    const hr_value copy = is->kind == HR_VALUE_PARAM
                              ? hr_graph_param(to, name, type, is->meta.shape, is->init)
                              : hr_graph_state(to, name, type, is->meta.shape, is->init);
    if (is->tags && copy != HR_NONE) {
        hr_tags tags = *is->tags;
        tags.owner =
            tags.owner == HR_NONE ? HR_NONE : hr_graph_find(to, from->values[tags.owner].name);
        hr_graph_set_tags(to, copy, &tags);
    }
    return copy;
}

void hri_step_copy_values(const hr_graph *from, hr_graph *to) {
    for (hr_value v = 1; v < from->value_count; v++) {
        const hr_value_kind kind = from->values[v].kind;
        if (kind == HR_VALUE_PARAM || kind == HR_VALUE_STATE) {
            (void)copy_value(from, v, to);
        }
    }
    hri_graph_copy_notes(from, to);
}

/* Replaces m->g, which has said what is trained, by a graph of persistent values and updates alone: in place of gradients
 * it reads what was added up before.  On failure m->g holds the reason. */
static hr_status update_from_sums(hri_step_maker *m) {
    hr_graph *from = m->g, *to;
    hr_status status = hr_graph_create(&to);
    if (status != HR_OK) {
        return status;
    }
    hri_step_copy_values(from, to);
    m->g = to;
    m->scale = m->scale == HR_NONE ? HR_NONE : hri_step_input(m, "/train.scale");
    for (size_t i = 0; i < m->count && to->error.code == HR_OK; i++) {
        m->params[i] = hr_graph_find(to, from->values[m->params[i]].name);
        m->grads[i] = hri_step_state(m, m->params[i], "sum", HR_KEEP_NOT);
    }
    m->g->phase = HRI_UPDATE;
    if (to->error.code == HR_OK) {
        hri_step_mask_gradients(m);
        make_updates(m);
    }
    m->g->phase = HRI_FORWARD;
    hr_graph_destroy(from);
    return to->error.code;
}

void hri_step_add_up(hri_step_maker *m) {
    if (in_parts(m)) {
        m->weight = hri_step_input(m, "/train.weight");
        m->first = hri_step_input(m, "/train.first");
    }
    if (in_parts(m) && !hri_step_feeds_velocity(m)) {
        add_to_sums(m);
    }
    if (is_last(m) && !hri_step_feeds_velocity(m)) {
        hri_step_mask_gradients(m);
    }
    if (is_last(m)) {
        make_updates(m);
    } else if (hri_step_feeds_velocity(m)) {
        feed_velocities(m);
    }
}

static hr_status learn(hri_step_maker *m) {
    hr_status status = differentiate(m);
    if (status != HR_OK) {
        return status;
    }
    m->g->phase = HRI_UPDATE;
    switch (m->kind) {
    case HR_STEP_UPDATE:
        return update_from_sums(m);
    case HR_STEP_GRADIENTS:
        status = hri_step_keep(m);
        break;
    case HR_STEP_FOLD:
    case HR_STEP_FOLD_LAST:
        status = hri_step_fold(m);
        break;
    case HR_STEP_ROUND:
    case HR_STEP_ROUND_LAST:
        status = hri_step_round(m);
        break;
    default:
        hri_step_add_up(m);
    }
    m->g->phase = HRI_FORWARD;
    return status == HR_OK ? m->g->error.code : status;
}

/* ---- all of it ---- */

static hr_status make(hri_step_maker *m, hr_build_fn *build, void *user, int64_t batch) {
    hr_status status = build_model(m, build, user, batch);
    if (status == HR_OK && m->kind != HR_STEP_EVALUATE) {
        status = take_masks(m);
    }
    if (status == HR_OK && m->o->precision != HR_PRECISION_F32) {
        status = lower_precision(m);
    }
    if (status == HR_OK) {
        find_loss(m);
        status = m->g->error.code;
    }
    if (status == HR_OK && m->shard && m->shard->mode == HRI_SHARD_WEIGHTS) {
        status = hri_step_slice_params(m);
    }
    if (status == HR_OK && m->kind != HR_STEP_EVALUATE) {
        status = learn(m);
    }
    if (status == HR_OK && m->o->precision != HR_PRECISION_F32) {
        status = hri_step_turn_weights(m->g);
    }
    return status == HR_OK ? hr_graph_freeze(m->g) : status;
}

static void explain(hr_error *why, const hr_graph *g, hr_status status, const char *text) {
    if (!why) {
        return;
    }
    *why = (hr_error){.code = status};
    if (g && g->error.code != HR_OK) {
        hr_graph_error(g, why);
    } else {
        snprintf(why->message, sizeof why->message, "%s", text ? text : hr_status_text(status));
    }
}

hr_status hr_step_build(const hr_train_options *o, hr_build_fn *build, void *user,
                        hr_step_kind kind, int64_t batch, hr_graph **out, hr_error *why) {
    return hri_step_build(o, build, user, kind, batch, NULL, out, why);
}

hr_status hri_step_build(const hr_train_options *o, hr_build_fn *build, void *user,
                         hr_step_kind kind, int64_t batch, const hri_shard *shard, hr_graph **out,
                         hr_error *why) {
    hr_train_options settled;
    hri_prose prose = {0};
    hri_step_maker m = {.o = &settled, .kind = kind, .shard = shard};
    hr_status status = hri_take(&settled, sizeof settled, o);
    if (status != HR_OK) {
        explain(why, NULL, status,
                status == HR_E_INVALID
                    ? "hr_train_options: size is not set"
                    : "hr_train_options: an option that this version does not know");
        return status;
    }
    status = hri_train_options_settle(&settled, &prose);
    if (status == HR_OK && !shard && (kind == HR_STEP_ROUND || kind == HR_STEP_ROUND_LAST)) {
        status = hri_prose_set(&prose, HR_E_INVALID, "a round of how many ranks is not said");
    }
    if (status == HR_OK && batch < 1) {
        status = hri_prose_set(&prose, HR_E_RANGE, "a batch of %lld samples", (long long)batch);
    }
    if (status != HR_OK) {
        explain(why, NULL, status, prose.text);
        return status;
    }
    status = hr_graph_create(&m.g);
    if (status == HR_OK) {
        status = make(&m, build, user, batch);
    }
    hri_pass_map_deinit(&m.map);
    hri_free(m.params);
    hri_free(m.reads);
    hri_free(m.grads);
    if (status != HR_OK) {
        explain(why, m.g, status, NULL);
        hr_graph_destroy(m.g);
        return status;
    }
    *out = m.g;
    return HR_OK;
}
