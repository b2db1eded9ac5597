/* The graph of a round: one part on each rank, exchanged, folded and updated in slices; see shard.h.
 *
 * What is folded, and in which order, is what replica.c and step.c do with whole gradients, part after part; so every bit
 * is that of one replica.  Tensors that are not cut (graph/slices.h) every rank takes whole, of all parts, and does the
 * same with them.
 *
 * Where nothing else is in slices (HRI_SHARD_NONE), the slices of a sum are gathered when it is complete, and every rank updates
 * all of it.  A velocity that takes the parts as they come has no sum: each rank folds into its slice of the whole, the last
 * round updates the slice, and both it and the parameter are gathered. */
#include "step/step_int.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "graph/dims.h"
#include "graph/slices.h"

enum { NAME = 320 };

const char *const hri_shard_names[] = {"none", "states", "weights", NULL};

static int64_t count_of(const hr_graph *g, hr_value v) {
    return hr_shape_count(&g->values[v].meta.shape);
}

/* Whether a parameter decays is a matter of its shape, which a slice does not have. */
static hr_tags slice_tags(const hr_graph *g, hr_value whole) {
    hr_tags tags = *hri_graph_tags(g, whole);
    tags.size = sizeof tags;
    tags.decay = tags.decay ? tags.decay : g->values[whole].meta.shape.rank > 1 ? 1 : -1;
    tags.owner = HR_NONE;
    tags.layout = 0; /* a slice has none */
    return tags;
}

/* ---- parameters in slices ---- */

typedef struct slicing {
    const hri_shard *shard;
    hr_value *slices;   /* by value of `from`: the slice in `to`; HR_NONE: it is not cut */
    hr_value *gathered; /* and the whole, once somebody reads it */
} slicing;

hr_value hri_step_gather(hr_graph *g, hr_value slice, const hr_shape *to, uint32_t ranks) {
    char text[256];
    size_t at = (size_t)snprintf(text, sizeof text, "ranks=%u", ranks);
    for (int d = 0; d < to->rank && at < sizeof text; d++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld",
                               d ? "x" : ",to=", (long long)to->dim[d]);
    }
    return hr_graph_node(g, "gather_slices", &slice, 1, text);
}

hr_value hri_step_whole(hri_step_maker *m, hr_value v, hr_value like) {
    if (!m->shard) {
        return v; /* `like` may be of another graph then */
    }
    const hr_shape to = m->g->values[like].meta.shape;
    return count_of(m->g, v) == hr_shape_count(&to)
               ? v
               : hri_step_gather(m->g, v, &to, m->shard->ranks);
}

static hr_value with_slices(hri_rewrite *r, const hri_node_record *n, hr_value *in) {
    slicing *s = r->user;
    for (uint32_t i = 0; i < n->sig.in_count; i++) {
        const hr_value from = n->in[i];
        if (s->slices[from] != HR_NONE) {
            if (s->gathered[from] == HR_NONE) {
                s->gathered[from] = hri_step_gather(
                    r->to, s->slices[from], &r->from->values[from].meta.shape, s->shard->ranks);
            }
            in[i] = s->gathered[from];
        }
    }
    const hr_value out = hri_rewrite_keep(r, n, in);
    if (out != HR_NONE) { /* gathers between them do not change what is drawn */
        r->to->nodes[r->to->values[out].node].counter = n->counter;
    }
    return out;
}

static hr_value slice_source(hri_rewrite *r, hr_value v) {
    slicing *s = r->user;
    const hri_value *value = &r->from->values[v];
    const int64_t count = count_of(r->from, v), slice = hri_slice_count(count, s->shard->ranks);
    char name[NAME];
    if (value->kind != HR_VALUE_PARAM || slice == count || !hr_type_is_real(value->meta.type) ||
        hri_graph_tags(r->from, v)->frozen) {
        return HR_NONE;
    }
    if (snprintf(name, sizeof name, "/%s", value->name) >= NAME) {
        hri_graph_fail(r->to, HR_E_INVALID, "%s: the name is too long", value->name);
    }
    hr_tags tags = slice_tags(r->from, v);
    tags.owner = r->values[hri_graph_tags(r->from, v)->owner];
    const hr_value made = hr_graph_param(r->to, name, (hr_type)value->meta.type, hr_shape_1(slice),
                                         hr_init_constant(0.0));
    if (made != HR_NONE) {
        hr_graph_set_tags(r->to, made, &tags);
    }
    return s->slices[v] = made;
}

/* Reads of the new graph: the whole in place of the slice, or what is made of it. */
static hr_status map_reads(hri_step_maker *m, const hri_rewrite *r, const slicing *s) {
    hri_pass_map map = {.read_count = r->to->value_count};
    map.reads = hri_calloc(map.read_count, sizeof *map.reads);
    if (!map.reads) {
        return HR_E_NOMEM_HOST;
    }
    for (hr_value v = 1; v < r->from->value_count; v++) {
        if (r->from->values[v].kind == HR_VALUE_PARAM && r->values[v] != HR_NONE) {
            const hr_value read = hri_pass_read(&m->map, v);
            map.reads[r->values[v]] = read != v                 ? r->values[read]
                                      : s->slices[v] != HR_NONE ? s->gathered[v]
                                                                : HR_NONE;
        }
    }
    m->loss = r->values[m->loss];
    hri_pass_map_deinit(&m->map);
    m->map = map;
    return HR_OK;
}

hr_status hri_step_slice_params(hri_step_maker *m) {
    hr_graph *from = m->g;
    slicing s = {.shard = m->shard};
    hri_rewrite r = {.from = from, .node = with_slices, .source = slice_source, .user = &s};
    s.slices = hri_calloc(from->value_count, sizeof *s.slices);
    s.gathered = hri_calloc(from->value_count, sizeof *s.gathered);
    hr_status status = s.slices && s.gathered ? hr_graph_create(&r.to) : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        status = hri_rewrite_graph(&r);
        status = status == HR_OK ? map_reads(m, &r, &s) : status;
        m->g = r.to;
        hr_graph_destroy(from);
    }
    hri_free(r.values);
    hri_free(s.slices);
    hri_free(s.gathered);
    return status;
}

/* ---- what the parts give ---- */

/* Row `row` of what was exchanged, in the shape of `like`. */
static hr_value row_of(hri_step_maker *m, hr_value rows, uint32_t row, const hr_shape *like) {
    char text[64];
    snprintf(text, sizeof text, "begin=%u,size=1", row);
    const hri_attr_dims to = {hri_dims_of(like)};
    return HRI_NODE(m->g, "reshape", &to, hr_graph_node(m->g, "slice", &rows, 1, text));
}

/* A node by which the model changes a state: its operands, exchanged; HR_NONE: what it changes. */
typedef struct change {
    uint32_t node;
    hri_step_moved *operands; /* those that are exchanged, in their order */
} change;

/* Lists its operands, behind those of others. */
static size_t list_operands(hri_step_maker *m, uint32_t node, hri_step_moved *list, change *out) {
    const hri_node_record *n = &m->g->nodes[node];
    size_t count = 0;
    for (uint32_t k = 0; k < n->sig.in_count; k++) {
        if (!hri_step_is_changed(n, k)) {
            list[count++].value = n->in[k];
        }
    }
    *out = (change){node, list};
    m->g->nodes[node].dropped = 1;
    return count;
}

enum { ALL_ROWS = UINT32_MAX };

/* Every rank does it with the operands of all parts; now[origin]: the version of a state so far. */
static void change_by_row(hri_step_maker *m, const change *c, uint32_t row, hr_value *now) {
    const hri_node_record is = m->g->nodes[c->node];
    const hri_step_moved *operand = c->operands;
    hr_value in[HRI_IN_MAX], origins[HRI_IN_MAX];
    for (uint32_t k = 0; k < is.sig.in_count; k++) {
        const hr_shape like = is.sig.in[k].shape;
        origins[k] = m->g->values[is.in[k]].origin;
        if (hri_step_is_changed(&is, k)) {
            in[k] = now[origins[k]] == HR_NONE ? origins[k] : now[origins[k]];
        } else {
            const hr_value rows = (operand++)->rows;
            in[k] = row == ALL_ROWS ? rows : row_of(m, rows, row, &like);
        }
    }
    const hr_value out = hri_graph_add(m->g, is.sig.op, in, is.sig.in_count, is.sig.attr);
    for (uint32_t k = 0; k < is.sig.out_count && out != HR_NONE; k++) {
        const uint32_t input = is.sig.op->updates[k];
        if (input && input <= is.sig.in_count) {
            now[origins[input - 1]] = out + k;
        }
    }
}

/* Does one of the nodes before number i change a state that it changes? */
static int is_changed_before(const hri_step_maker *m, const change *changes, uint32_t i) {
    const hri_node_record *n = &m->g->nodes[changes[i].node];
    for (uint32_t j = 0; j < i; j++) {
        const hri_node_record *other = &m->g->nodes[changes[j].node];
        for (uint32_t k = 0; k < n->sig.in_count * other->sig.in_count; k++) {
            const uint32_t a = k / other->sig.in_count, b = k % other->sig.in_count;
            if (hri_step_is_changed(n, a) && hri_step_is_changed(other, b) &&
                m->g->values[n->in[a]].origin == m->g->values[other->in[b]].origin) {
                return 1;
            }
        }
    }
    return 0;
}

/* Can each node do all parts at once?  Not where another one changes the same state. */
static int are_apart(const hri_step_maker *m, const change *changes, uint32_t count) {
    int apart = 1;
    for (uint32_t i = 0; i < count && apart; i++) {
        apart = m->g->nodes[changes[i].node].sig.op->by_parts && !is_changed_before(m, changes, i);
    }
    return apart;
}

/* Part after part, as one replica would: a state may be changed by several nodes. */
static hr_status change_states(hri_step_maker *m) {
    const uint32_t nodes = m->g->node_count;
    hr_value *now = hri_calloc(m->g->value_count, sizeof *now);
    change *changes = hri_calloc(nodes, sizeof *changes);
    hri_step_moved *operands = NULL;
    uint32_t count = 0;
    size_t used = 0;
    hr_status status = now && changes ? HR_OK : HR_E_NOMEM_HOST;
    for (uint32_t n = 0; n < nodes && status == HR_OK; n++) {
        if (hri_step_changes_state(&m->g->nodes[n])) {
            status = hri_step_check_change(m, n);
            count++;
        }
    }
    if (status == HR_OK && count) {
        operands = hri_calloc((size_t)count * HRI_IN_MAX, sizeof *operands);
        status = operands ? HR_OK : HR_E_NOMEM_HOST;
    }
    count = 0;
    for (uint32_t n = 0; n < nodes && status == HR_OK; n++) {
        if (hri_step_changes_state(&m->g->nodes[n])) {
            used += list_operands(m, n, operands + used, &changes[count++]);
        }
    }
    if (status == HR_OK) {
        hri_step_exchange(m, operands, used, 1);
        status = m->g->error.code;
    }
    const int at_once = status == HR_OK && are_apart(m, changes, count);
    for (uint32_t row = 0; row < (at_once ? 1 : m->shard->rows) && status == HR_OK; row++) {
        for (uint32_t i = 0; i < count && status == HR_OK; i++) {
            change_by_row(m, &changes[i], at_once ? ALL_ROWS : row, now);
            status = m->g->error.code;
        }
    }
    hri_free(now);
    hri_free(changes);
    hri_free(operands);
    return status;
}

/* ---- one parameter ---- */

typedef struct share {
    hr_value w;     /* what is updated here: the parameter, or its slice */
    hr_value whole; /* the parameter that w is a slice of; HR_NONE: w is all there is */
    hr_value
        velocity; /* whole, too, where only a slice of it is updated here; HR_NONE: it is not */
    size_t count; /* pieces */
    hri_step_moved *pieces; /* exchanged */
    hr_value now[2];        /* slices when they are updated: of the parameter, of the velocity */
} share;

static int64_t slice_of(const hri_step_maker *m, size_t i) {
    return hri_slice_count(count_of(m->g, m->reads[i]), m->shard->ranks);
}

static int is_cut(const hri_step_maker *m, size_t i) {
    return slice_of(m, i) < count_of(m->g, m->reads[i]);
}

/* "<param>.slice" or "<param>.<what>.slice": this rank's slice, while it is updated. */
static hr_value slice_state(hri_step_maker *m, hr_value param, const char *what, int64_t slice) {
    char name[NAME];
    if (snprintf(name, sizeof name, "/%s%s.slice", m->g->values[param].name, what) >= NAME) {
        name[0] = '\0'; /* refused by the graph */
    }
    hr_tags tags = slice_tags(m->g, param);
    tags.keep = HR_KEEP_NOT;
    const hr_value state = hr_graph_state(m->g, name, (hr_type)m->g->values[param].meta.type,
                                          hr_shape_1(slice), hr_init_constant(0.0));
    if (state != HR_NONE) {
        hr_graph_set_tags(m->g, state, &tags);
    }
    return state;
}

/* Lists the summands of the gradient, behind those of others. */
static size_t list_pieces(hri_step_maker *m, size_t i, hri_step_moved *list, share *out) {
    const int none = m->shard->mode == HRI_SHARD_NONE;
    const int cut = is_cut(m, i) &&
                    (m->shard->mode == HRI_SHARD_STATES || (none && hri_step_feeds_velocity(m)));
    hr_value pieces[HRI_STEP_PIECES];
    out->w = cut ? slice_state(m, m->params[i], "", slice_of(m, i)) : m->params[i];
    out->whole = cut ? m->params[i] : HR_NONE;
    out->velocity =
        cut && none ? hri_step_state(m, m->params[i], "velocity", HR_KEEP_OPTIMIZER) : HR_NONE;
    out->count = hri_step_pieces(m->g, m->grads[i], pieces, 0, HRI_STEP_PIECES - 3);
    out->pieces = list;
    for (size_t k = 0; k < out->count; k++) {
        list[k].value = pieces[k];
    }
    return out->count;
}

static hr_status exchange_gradients(hri_step_maker *m, share *shares, hri_step_moved *pieces) {
    size_t used = 0;
    for (size_t i = m->count; i-- > 0 && m->g->error.code == HR_OK;) {
        used += list_pieces(m, i, pieces + used, &shares[i]);
    }
    if (m->g->error.code == HR_OK) {
        hri_step_exchange(m, pieces, used, 0);
    }
    return m->g->error.code;
}

static hr_value fold(hri_step_maker *m, const share *s, hr_value state, const char *attributes) {
    hr_value in[HRI_IN_MAX] = {state, m->weight, m->first};
    for (size_t k = 0; k < s->count; k++) {
        in[3 + k] = s->pieces[k].rows;
    }
    return hr_graph_node(m->g, "fold_parts", in, s->count + 3, attributes);
}

static hr_value fold_sum(hri_step_maker *m, size_t i, const share *s) {
    const int own = m->shard->mode == HRI_SHARD_NONE && is_cut(m, i);
    return fold(m, s,
                own ? hri_step_state_of(m, s->w, "sum", HR_KEEP_NOT, hr_shape_1(slice_of(m, i)))
                    : hri_step_state(m, s->w, "sum", HR_KEEP_NOT),
                NULL);
}

/* Into the velocity: all but the last summand of a step, which updates. */
static hr_value fold_velocity(hri_step_maker *m, const share *s, int last) {
    char text[128];
    const hr_value velocity = s->velocity != HR_NONE
                                  ? s->velocity
                                  : hri_step_state(m, s->w, "velocity", HR_KEEP_OPTIMIZER);
    if (last && m->shard->rows == 1 && s->count == 1) {
        return velocity; /* the part before was another round's */
    }
    hri_snprintf(text, sizeof text, "velocity=true,momentum=%.17g,spare=%s,ranks=%u",
                 m->o->momentum, last ? "true" : "false",
                 s->velocity != HR_NONE ? m->shard->ranks : 1);
    return fold(m, s, velocity, text);
}

static hr_value own_slice(hri_step_maker *m, hr_value state, hr_value whole) {
    char text[32];
    const hr_value in[] = {state, whole};
    snprintf(text, sizeof text, "ranks=%u", m->shard->ranks);
    return hr_graph_node(m->g, "own_slice", in, 2, text);
}

/* Into the velocity, the parts but the last; and slices of what is whole. */
static void take_slices(hri_step_maker *m, share *shares) {
    for (size_t i = m->count; i-- > 0 && hri_step_feeds_velocity(m);) {
        shares[i].now[1] = fold_velocity(m, &shares[i], 1);
    }
    for (size_t i = m->count; i-- > 0;) {
        share *s = &shares[i];
        s->now[0] = s->whole != HR_NONE ? own_slice(m, s->w, s->whole) : s->w;
    }
    for (size_t i = m->count; i-- > 0;) {
        share *s = &shares[i];
        if (s->velocity != HR_NONE) {
            const hr_value state = slice_state(m, s->whole, ".velocity", slice_of(m, i));
            s->velocity = s->now[1];
            s->now[1] = own_slice(m, state, s->velocity);
        }
    }
}

/* The last part of the last summand goes through the update. */
static void update(hri_step_maker *m, size_t i, share *s, hr_value weight) {
    hr_value now;
    if (weight != HR_NONE) {
        now = hri_step_update_last(m, s->w, s->now[0], s->now[1], s->pieces[s->count - 1].rows,
                                   weight);
    } else {
        now = hri_step_update(m, s->w, count_of(m->g, m->reads[i]), s->now[0], m->grads[i]);
        if (hri_step_is_pruned(m, m->params[i])) { /* a mask is chosen among all weights */
            const int cut = m->shard->mode != HRI_SHARD_NONE && is_cut(m, i);
            const hr_shape shape = m->g->values[m->reads[i]].meta.shape;
            now =
                hri_step_prune(m, m->params[i], now,
                               cut ? hri_step_gather(m->g, now, &shape, m->shard->ranks) : HR_NONE);
        }
    }
    s->now[0] = now;
    s->now[1] = s->velocity != HR_NONE && now != HR_NONE ? hr_graph_output(m->g, now, 1) : HR_NONE;
}

/* Nodes of one kind side by side: on a GPU many of them go together. */
static void update_each(hri_step_maker *m, share *shares) {
    const hr_shape one = hr_shape_0();
    hr_value weight = HR_NONE;
    take_slices(m, shares);
    if (hri_step_feeds_velocity(m) && m->g->error.code == HR_OK) {
        weight = row_of(m, m->weight, m->shard->rows - 1, &one);
    }
    for (size_t i = m->count; i-- > 0 && m->g->error.code == HR_OK;) {
        update(m, i, &shares[i], weight);
    }
}

/* ---- wholes ---- */

/* Sums that are complete, to every rank. */
static void gather_sums(hri_step_maker *m, hri_step_gathered *list) {
    size_t count = 0, at = 0;
    for (size_t i = m->count; i-- > 0;) {
        if (is_cut(m, i)) {
            list[count++] = (hri_step_gathered){.slice = m->grads[i],
                                                .shape = m->g->values[m->params[i]].meta.shape};
        }
    }
    hri_step_gather_all(m, list, count);
    for (size_t i = m->count; i-- > 0;) {
        m->grads[i] = is_cut(m, i) ? list[at++].whole : m->grads[i];
    }
}

/* What was updated in slices beside a whole. */
static void gather_updated(hri_step_maker *m, const share *shares, hri_step_gathered *list) {
    size_t count = 0;
    for (size_t i = m->count; i-- > 0;) {
        const share *s = &shares[i];
        const hr_shape shape = m->g->values[m->params[i]].meta.shape;
        if (s->whole != HR_NONE) {
            list[count++] = (hri_step_gathered){s->now[0], s->whole, HR_NONE, shape};
        }
        if (s->velocity != HR_NONE) {
            list[count++] = (hri_step_gathered){s->now[1], s->velocity, HR_NONE, shape};
        }
    }
    hri_step_gather_all(m, list, count);
    size_t at = 0;
    for (size_t i = m->count; i-- > 0 && m->g->error.code == HR_OK;) {
        const share *s = &shares[i];
        hri_step_average(m, m->params[i], s->whole != HR_NONE ? list[at].whole : s->now[0]);
        at += (size_t)(s->whole != HR_NONE) + (s->velocity != HR_NONE);
    }
}

static hr_status update_all(hri_step_maker *m, share *shares) {
    hri_step_gathered *list = hri_calloc(2 * m->count, sizeof *list);
    if (!list) {
        return HR_E_NOMEM_HOST;
    }
    if (m->shard->mode == HRI_SHARD_NONE && !hri_step_feeds_velocity(m)) {
        gather_sums(m, list);
    }
    if (!hri_step_feeds_velocity(m)) {
        hri_step_mask_gradients(m);
    }
    if (m->g->error.code == HR_OK) {
        hri_step_make_inputs(m);
    }
    if (m->g->error.code == HR_OK) {
        update_each(m, shares);
    }
    if (m->g->error.code == HR_OK) {
        gather_updated(m, shares, list);
    }
    hri_free(list);
    return m->g->error.code;
}

hr_status hri_step_round(hri_step_maker *m) {
    const int velocity = hri_step_feeds_velocity(m), last = m->kind == HR_STEP_ROUND_LAST;
    share *shares = hri_calloc(m->count, sizeof *shares);
    hri_step_moved *pieces = hri_calloc(m->count * HRI_STEP_PIECES, sizeof *pieces);
    hr_status status = shares && pieces ? change_states(m) : HR_E_NOMEM_HOST;
    const hr_shape rows = hr_shape_1(m->shard->rows);
    m->weight = hr_graph_input(m->g, "/train.weights", HR_TYPE_F32, rows);
    m->first = hr_graph_input(m->g, "/train.firsts", HR_TYPE_F32, rows);
    status = status == HR_OK ? exchange_gradients(m, shares, pieces) : status;
    for (size_t i = m->count; i-- > 0 && status == HR_OK;) {
        if (!velocity) {
            m->grads[i] = fold_sum(m, i, &shares[i]);
        } else if (!last) {
            (void)fold_velocity(m, &shares[i], 0);
        }
        status = m->g->error.code;
    }
    if (status == HR_OK && last) {
        status = update_all(m, shares);
    }
    hri_free(shares);
    hri_free(pieces);
    return status == HR_OK ? m->g->error.code : status;
}
