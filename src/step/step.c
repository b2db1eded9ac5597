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
#include "base/hash.h"
#include "base/random.h"
#include "ops/common/adafactor.h"
#include "ops/common/codes.h"
#include "passes/common/ema.h"
#include "passes/common/masks.h"
#include "passes/common/prune.h"
#include "passes/common/rates.h"
#include "step/options.h"
#include "step/step_int.h"

/* ---- small things ---- */

hr_value hri_step_input(hri_step_maker *m, const char *name) {
    return hr_graph_input(m->g, name, HR_TYPE_F32, hr_shape_0());
}

/* A slice has the states of what it is a slice of. */
static size_t name_length(const hri_step_maker *m, const char *name) {
    const size_t length = strlen(name);
    return m->shard && length > 6 && !strcmp(name + length - 6, ".slice") ? length - 6 : length;
}

static hr_value add_state(hri_step_maker *m, hr_value param, const char *what, hr_keep keep,
                          hr_type type, hr_shape shape) {
    char name[300];
    const hri_value *p = &m->g->values[param];
    const int n =
        snprintf(name, sizeof name, "/%.*s.%s", (int)name_length(m, p->name), p->name, what);
    if (n < 0 || (size_t)n >= sizeof name) {
        hri_graph_fail(m->g, HR_E_INVALID, "%s: the name is too long", p->name);
        return HR_NONE;
    }
    /* Only what is f32 is turned in files; a slice has no layout. */
    const int turned = type == HR_TYPE_F32 && hr_shape_same(&shape, &p->meta.shape);
    const hr_tags tags = {.size = sizeof tags,
                          .owner = param,
                          .layout = turned ? hri_graph_tags(m->g, param)->layout : 0,
                          .keep = keep};
    const hr_value state = hr_graph_state(m->g, name, type, shape, hr_init_constant(0.0));
    hr_graph_set_tags(m->g, state, &tags);
    return state;
}

hr_value hri_step_state(hri_step_maker *m, hr_value param, const char *what, hr_keep keep) {
    return add_state(m, param, what, keep, HR_TYPE_F32, m->g->values[param].meta.shape);
}

hr_value hri_step_state_of(hri_step_maker *m, hr_value param, const char *what, hr_keep keep,
                           hr_shape shape) {
    return add_state(m, param, what, keep, HR_TYPE_F32, shape);
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

/* ---- pruning ---- */

/* Of a parameter that is pruned: its mask, HR_NONE for others, and what the pass said of it. */
static hr_value mask_of(const hri_step_maker *m, hr_value param, const char **text) {
    char name[300];
    snprintf(name, sizeof name, "%s" HRI_PRUNE_MASK, m->g->values[param].name);
    *text = hri_graph_find_note(m->g, name);
    return *text ? hr_graph_find(m->g, name) : HR_NONE;
}

int hri_step_is_pruned(const hri_step_maker *m, hr_value param) {
    const char *text;
    return mask_of(m, param, &text) != HR_NONE;
}

static int is_pruned(const hri_step_maker *m) {
    int yes = 0;
    for (size_t i = 0; i < m->count && !yes; i++) {
        const char *text;
        yes = mask_of(m, m->params[i], &text) != HR_NONE;
    }
    return yes;
}

/* Each element of a complete gradient within clip_value. */
static hr_value limited(hri_step_maker *m, hr_value grad) {
    const double most = m->o->clip_value;
    return most > 0 && m->g->error.code == HR_OK
               ? hri_nodef(m->g, "clip", &grad, 1, "low=%.17g,high=%.17g", -most, most)
               : grad;
}

/* The gradient of param, 0 where the parameter is pruned.  Slices of it are sums, which are cleared where they lie. */
static hr_value masked(hri_step_maker *m, size_t i) {
    const char *text;
    const hr_value grad = m->grads[i], mask = mask_of(m, m->params[i], &text);
    const hr_shape shape = m->g->values[grad].meta.shape;
    if (mask == HR_NONE || m->g->error.code != HR_OK) {
        return grad;
    }
    if (m->shard &&
        hr_shape_count(&shape) < hr_shape_count(&m->g->values[m->reads[i]].meta.shape)) {
        return hri_nodef(m->g, "prune_state", (const hr_value[]){grad, mask}, 2,
                         "end=9000000000000000,every=1,ranks=%u", m->shard->ranks);
    }
    const hr_value row = hr_reshape(m->g, grad, hr_shape_2(1, hr_shape_count(&shape)));
    return hr_reshape(m->g, HRI_NODE(m->g, "relu_mask_grad", NULL, row, mask), shape);
}

void hri_step_mask_gradients(hri_step_maker *m) {
    for (size_t i = 0; i < m->count; i++) {
        m->grads[i] = limited(m, masked(m, i));
    }
}

hr_value hri_step_prune(hri_step_maker *m, hr_value param, hr_value now, hr_value whole) {
    const char *text;
    const hr_value mask = mask_of(m, param, &text);
    if (mask == HR_NONE || now == HR_NONE || m->g->error.code != HR_OK) {
        return now;
    }
    const hr_value states = now + 1;
    const uint32_t outputs = m->o->optimizer == HR_OPTIMIZER_ADAFACTOR
                                 ? 1 /* averages of rows and columns stay */
                                 : m->g->nodes[m->g->values[now].node].sig.out_count;
    const uint32_t ranks = whole == HR_NONE ? 1 : m->shard->ranks;
    const char *tail = strstr(text, ",inner=");
    char schedule[256];
    snprintf(schedule, sizeof schedule, "%.*s,ranks=%u",
             tail ? (int)(tail - text) : (int)strlen(text), text, ranks);
    const hr_value in[] = {now, mask, whole};
    const hr_value pruned =
        hri_nodef(m->g, "prune", in, whole == HR_NONE ? 2 : 3, "%s,ranks=%u", text, ranks);
    for (uint32_t k = 1; k < outputs && pruned != HR_NONE; k++) {
        const hr_value state[] = {states + k - 1, pruned + 1};
        (void)hr_graph_node(m->g, "prune_state", state, 2, schedule);
    }
    return pruned;
}

/* A whole batch has no parts whose weights may turn out to be others.  Masks lie over sums, which is the same on every rank. */
int hri_step_feeds_velocity(const hri_step_maker *m) {
    hr_train_options o = *m->o;
    o.ignored = o.ignored && in_parts(m);
    return m->kind != HR_STEP_UPDATE && hri_train_feeds_velocity(&o) && !is_pruned(m);
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
    snprintf(attributes, sizeof attributes, "clip=%.17g", m->o->clip);
    m->factor = hr_graph_node(m->g, "update_factor", in, m->scale == HR_NONE ? 1 : 2, attributes);
    hr_graph_result(m->g, m->factor, "train.factor");
    hr_graph_result(m->g, hr_graph_output(m->g, m->factor, 1), "train.norm");
}

/* ---- updates ---- */

enum { SMALL_FROM = 4096 }; /* elements from which on 8 bits save something that counts */

/* One state of the optimizer for w, which is a tensor of `elements`, or a slice of it. */
static hr_value moment_state(hri_step_maker *m, hr_value w, int64_t elements, const char *what) {
    const hr_shape shape = m->g->values[w].meta.shape;
    if (m->o->moments == HR_MOMENTS_BF16) {
        return add_state(m, w, what, HR_KEEP_OPTIMIZER, HR_TYPE_BF16, shape);
    }
    if (m->o->moments == HR_MOMENTS_8BIT && elements >= SMALL_FROM) {
        return add_state(m, w, what, HR_KEEP_OPTIMIZER, HR_TYPE_U8,
                         hr_shape_1(hri_codes_bytes(hr_shape_count(&shape))));
    }
    return hri_step_state(m, w, what, HR_KEEP_OPTIMIZER);
}

/* ",stream=N" and, of a slice, ",ranks=N": what draws depend on.  Names are the same however a batch or a tensor is cut. */
static void add_stream(const hri_step_maker *m, hr_value w, int64_t elements, char *text,
                       size_t size) {
    const hri_value *p = &m->g->values[w];
    const uint64_t name = hri_hash_bytes(p->name, name_length(m, p->name), 0);
    const int cut = m->shard && hr_shape_count(&p->meta.shape) < elements;
    const size_t at = strlen(text);
    snprintf(text + at, size - at, ",stream=%llu,ranks=%u",
             (unsigned long long)(1 + name % (HRI_RANDOM_NODE_FIRST - 1)),
             cut ? m->shard->ranks : 1);
}

static double decay_of(const hri_step_maker *m, hr_value w) {
    const int32_t tag = hri_graph_tags(m->g, w)->decay;
    const int decays = tag ? tag > 0 : m->g->values[w].meta.shape.rank > 1;
    return m->o->decay_all || decays ? m->o->decay : 0.0;
}

/* The rate of parameter w, or of its slice: equal factors have one value, since updates of one rate are launched together. */
static hr_value rate_of(hri_step_maker *m, hr_value w) {
    char name[300];
    const hri_value *p = &m->g->values[w];
    snprintf(name, sizeof name, "%.*s" HRI_RATES_NOTE, (int)name_length(m, p->name), p->name);
    const char *text = hri_graph_find_note(m->g, name);
    const double factor = text ? strtod(text, NULL) : 1.0;
    if (factor == 1.0) {
        return m->rate;
    }
    for (size_t i = 0; i < m->rate_count; i++) {
        if (m->rates[i].factor == factor) {
            return m->rates[i].value;
        }
    }
    const hr_value made = hri_nodef(m->g, "affine", &m->rate, 1, "scale=%.17g", factor);
    if (m->rate_count < HRI_STEP_RATES) {
        m->rates[m->rate_count].factor = factor;
        m->rates[m->rate_count++].value = made;
    }
    return made;
}

hr_value hri_step_update_last(hri_step_maker *m, hr_value w, hr_value now, hr_value velocity,
                              hr_value piece, hr_value weight) {
    const hr_value in[] = {now, piece, rate_of(m, w), velocity, weight};
    char attributes[64];
    snprintf(attributes, sizeof attributes, "decay=%.17g,momentum=1", decay_of(m, w));
    return hr_graph_node(m->g, "sgd_momentum", in, weight == HR_NONE ? 4 : 5, attributes);
}

/* Sgd whose gradient comes in pieces: all but the last of the step go into the velocity, which is complete with that one
 * and then moves the weight. */
static hr_value update_by_pieces(hri_step_maker *m, hr_value w, hr_value grad) {
    hr_value pieces[HRI_STEP_PIECES];
    char attributes[64];
    const size_t count = hri_step_pieces(m->g, grad, pieces, 0, HRI_STEP_PIECES),
                 last = is_last(m) ? 1 : 0;
    snprintf(attributes, sizeof attributes, "momentum=%.17g", m->o->momentum);
    const hr_value velocity =
        add_pieces(m, "sgd_velocity", attributes,
                   hri_step_state(m, w, "velocity", HR_KEEP_OPTIMIZER), pieces, count - last);
    return last ? hri_step_update_last(m, w, w, velocity, pieces[count - 1],
                                       in_parts(m) ? m->weight : HR_NONE)
                : HR_NONE;
}

/* Averages of rows and columns: what they are of cannot be seen in a slice. */
static hr_value update_adafactor(hri_step_maker *m, hr_value w, int64_t elements, hr_value now,
                                 hr_value grad, double decay) {
    const hr_shape shape = m->g->values[w].meta.shape;
    int64_t rows, columns;
    if (hr_shape_count(&shape) != elements) {
        hri_graph_fail(m->g, HR_E_UNSUPPORTED,
                       "adafactor needs whole parameters and does not work with slices of them "
                       "(shard); its state is small without");
        return HR_NONE;
    }
    hri_adafactor_cut(&shape, &rows, &columns);
    const hr_value in[] = {
        now,
        grad,
        rate_of(m, w),
        m->update,
        add_state(m, w, "rows", HR_KEEP_OPTIMIZER, HR_TYPE_F32, hr_shape_1(rows)),
        add_state(m, w, "columns", HR_KEEP_OPTIMIZER, HR_TYPE_F32, hr_shape_1(columns)),
        m->factor};
    return hri_nodef(m->g, "adafactor", in, m->factor == HR_NONE ? 6 : 7,
                     "decay=%.17g,clip=%.17g,relative=%s", decay, m->o->update_clip,
                     m->o->relative_step ? "yes" : "no");
}

hr_value hri_step_update(hri_step_maker *m, hr_value w, int64_t elements, hr_value now,
                         hr_value grad) {
    const hr_train_options *o = m->o;
    const double decay = decay_of(m, w);
    hr_value in[7] = {now, grad, rate_of(m, w)};
    size_t n = 3;
    const char *op = "sgd";
    char attributes[256];
    snprintf(attributes, sizeof attributes, "decay=%.17g", decay);
    switch (o->optimizer) {
    case HR_OPTIMIZER_SGD:
        if (o->momentum > 0.0) {
            op = "sgd_momentum";
            in[n++] = moment_state(m, w, elements, "velocity");
            snprintf(attributes, sizeof attributes, "decay=%.17g,momentum=%.17g,nesterov=%d", decay,
                     o->momentum, o->nesterov);
        }
        break;
    case HR_OPTIMIZER_RMSPROP:
        op = o->momentum > 0.0 ? "rmsprop_momentum" : "rmsprop";
        in[n++] = moment_state(m, w, elements, "average");
        int at = snprintf(attributes, sizeof attributes, "decay=%.17g,alpha=%.17g,epsilon=%.17g",
                          decay, o->alpha, o->epsilon);
        if (o->momentum > 0.0 && at > 0) {
            in[n++] = moment_state(m, w, elements, "velocity");
            snprintf(attributes + at, sizeof attributes - (size_t)at, ",momentum=%.17g",
                     o->momentum);
        }
        break;
    case HR_OPTIMIZER_ADAFACTOR:
        return update_adafactor(m, w, elements, now, grad, decay);
    case HR_OPTIMIZER_LION:
        op = "lion";
        in[n++] = moment_state(m, w, elements, "first");
        snprintf(attributes, sizeof attributes, "decay=%.17g,beta1=%.17g,beta2=%.17g", decay,
                 o->beta1, o->beta2);
        break;
    default:
        op = o->optimizer == HR_OPTIMIZER_ADAMW ? "adamw" : "adam";
        in[n++] = m->update;
        in[n++] = moment_state(m, w, elements, "first");
        in[n++] = moment_state(m, w, elements, "second");
        snprintf(attributes, sizeof attributes, "decay=%.17g,beta1=%.17g,beta2=%.17g,epsilon=%.17g",
                 decay, o->beta1, o->beta2, o->epsilon);
        break;
    }
    if (o->moments != HR_MOMENTS_F32 && strcmp(op, "sgd") != 0) {
        add_stream(m, w, elements, attributes, sizeof attributes);
    }
    if (m->factor != HR_NONE) {
        in[n++] = m->factor;
    }
    return hr_graph_node(m->g, op, in, n, attributes);
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
    const double decay = strtod(hri_graph_find_note(m->g, HRI_EMA_NOTE), NULL);
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
