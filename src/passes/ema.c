/* An average of the weights: e <- decay e + (1 - decay) w after each update, beginning with the weights themselves.
 *
 * Here every parameter that is trained gets a state "<param>.ema", part of the plan and of checkpoints.  In a training step the
 * model reads its parameters and the step moves the averages behind the updates (step/step.c); in an evaluation everything reads
 * the averages in place of the parameters.  Running statistics are those of the training, not averaged. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "passes/common/ema.h"
#include "passes/common/pass.h"

static const hri_field fields[] = {{"decay", "share of the average that stays in each step",
                                    offsetof(hri_ema, decay), HRI_FIELD_DOUBLE, "0.999", .min = 0,
                                    .max = 0.9999999},
                                   {0}};

hr_value hri_ema_of(const hr_graph *g, hr_value param) {
    char name[300];
    snprintf(name, sizeof name, "%s" HRI_EMA, g->values[param].name);
    return hri_graph_find_note(g, HRI_EMA_NOTE) ? hr_graph_find(g, name) : HR_NONE;
}

typedef struct averaging {
    hr_value *states; /* by value of `from`: the average in `to` */
} averaging;

/* A parameter, and its average behind it. */
static hr_value take_source(hri_rewrite *r, hr_value v) {
    averaging *x = r->user;
    const hri_value *value = &r->from->values[v];
    char name[300];
    if (value->kind != HR_VALUE_PARAM || value->meta.type != HR_TYPE_F32 ||
        hri_graph_tags(r->from, v)->frozen) {
        return HR_NONE;
    }
    const int n = snprintf(name, sizeof name, "/%s" HRI_EMA, value->name);
    if (n < 0 || (size_t)n >= sizeof name) {
        hri_graph_fail(r->to, HR_E_INVALID, "%s: the name is too long", value->name);
        return HRI_REWRITE_GONE;
    }
    name[(size_t)n - strlen(HRI_EMA)] = '\0';
    const hr_value made = hr_graph_param(r->to, name, HR_TYPE_F32, value->meta.shape, value->init);
    hr_tags tags = *hri_graph_tags(r->from, v);
    tags.size = sizeof tags;
    tags.owner = tags.owner == HR_NONE ? HR_NONE : r->values[tags.owner];
    hr_graph_set_tags(r->to, made, &tags);
    name[(size_t)n - strlen(HRI_EMA)] = '.';
    x->states[v] =
        hr_graph_state(r->to, name, HR_TYPE_F32, value->meta.shape, hr_init_constant(0.0));
    const hr_tags of = {
        .size = sizeof of, .owner = made, .layout = tags.layout, .keep = HR_KEEP_OPTIMIZER};
    hr_graph_set_tags(r->to, x->states[v], &of);
    return made == HR_NONE ? HRI_REWRITE_GONE : made;
}

static hr_value read_averages(hri_rewrite *r, const hri_node_record *n, hr_value *in) {
    const averaging *x = r->user;
    for (uint32_t i = 0; i < n->sig.in_count; i++) {
        in[i] = x->states[n->in[i]] != HR_NONE ? x->states[n->in[i]] : in[i];
    }
    return hri_rewrite_keep(r, n, in);
}

static hr_status rewrite(const hri_ema *o, const hr_graph *from, hr_graph *to, hri_rewrite_fn *node,
                         hri_pass_map *map) {
    averaging x = {.states = hri_calloc(from->value_count, sizeof *x.states)};
    hri_rewrite r = {.from = from, .to = to, .node = node, .source = take_source, .user = &x};
    char text[40];
    hr_status status = x.states ? hri_rewrite_graph(&r) : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        hri_snprintf(text, sizeof text, "%.17g", o->decay);
        hri_graph_note(to, HRI_EMA_NOTE, text);
        status = to->error.code;
    }
    *map = (hri_pass_map){.values = r.values, .value_count = from->value_count};
    hri_free(x.states);
    return status;
}

static hr_status apply(const void *given, const hr_graph *from, hr_graph *to, hri_pass_map *map) {
    return rewrite(given, from, to, NULL, map);
}

static hr_status apply_evaluate(const void *given, const hr_graph *from, hr_graph *to,
                                hri_pass_map *map) {
    return rewrite(given, from, to, read_averages, map);
}

const hri_pass hri_pass_ema = {.name = "ema",
                               .help = "an average of the weights, by which the model is evaluated",
                               .changes_result = 1,
                               .by_user = 1,
                               .fields = fields,
                               .options_bytes = sizeof(hri_ema),
                               .apply = apply,
                               .apply_evaluate = apply_evaluate};
