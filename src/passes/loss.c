/* What a training asks of a model beside its loss: how often it was right, a loss with smoothed labels, or another loss.
 *
 * Where the model shows its scores ("logits") and labels, two scalars are added as results, which every step gives for
 * little: accuracy, and top5 where there are more than five classes.  A model whose scores are never whole (gpt2) has
 * neither, and one that says its own accuracy keeps that.  Smoothing builds the node of the loss with that attribute.
 *
 * Another loss (common/losses.h) is made of the scores: whatever the model made of its labels is left out, and the input
 * "label" becomes what that loss wants.  A model whose own loss is the one that is asked for keeps it, and all its bits. */
#include <headroom/ops.h>
#include <stddef.h>
#include <string.h>

#include "passes/common/losses.h"
#include "passes/common/pass.h"

typedef struct options {
    double smoothing, delta, gamma;
    int loss;
    bool metrics, wide, soft, weighted;
} options;

static const hri_field fields[] = {
    {"loss", "another loss than the model's", offsetof(options, loss), HRI_FIELD_ENUM, "model",
     .choices = hri_loss_names},
    {"delta", "of huber", offsetof(options, delta), HRI_FIELD_DOUBLE, "1", .min = 1e-6, .max = 1e6},
    {"gamma", "of focal", offsetof(options, gamma), HRI_FIELD_DOUBLE, "2", .min = 0, .max = 10},
    {"smoothing", "label smoothing; 0: none", offsetof(options, smoothing), HRI_FIELD_DOUBLE, "0",
     .min = 0, .max = 1},
    {"metrics", "add accuracy and top5", offsetof(options, metrics), HRI_FIELD_BOOL, "true"},
    {"wide", "another loss is computed in f32, whatever type the scores have",
     offsetof(options, wide), HRI_FIELD_BOOL, NULL},
    {"soft", "targets of a cross entropy are distributions", offsetof(options, soft),
     HRI_FIELD_BOOL, NULL},
    {"weighted", "an input says how much each sample counts", offsetof(options, weighted),
     HRI_FIELD_BOOL, NULL},
    {0}};

typedef struct smoothing {
    uint32_t node; /* of `from`, that makes the loss */
    double by;
} smoothing;

static const hri_result *find_result(const hr_graph *g, const char *name) {
    for (uint32_t i = 0; i < g->result_count; i++) {
        if (!strcmp(g->results[i].name, name)) {
            return &g->results[i];
        }
    }
    return NULL;
}

/* Where the attributes of an op hold its label smoothing; NULL: it has none. */
static double *smoothing_of(const hr_op *op, hri_attr *attr) {
    for (const hri_field *f = op->fields; f && f->name; f++) {
        if (!strcmp(f->name, "smoothing") && f->type == HRI_FIELD_DOUBLE) {
            return (double *)(void *)((char *)attr + f->offset);
        }
    }
    return NULL;
}

static hr_value take_node(hri_rewrite *r, const hri_node_record *n, hr_value *in) {
    const smoothing *s = r->user;
    if (n != &r->from->nodes[s->node]) {
        return hri_rewrite_keep(r, n, in);
    }
    const hr_op *op = n->sig.op;
    hri_attr attr = {0};
    if (n->sig.attr) {
        memcpy(&attr, n->sig.attr, op->attr_bytes);
    }
    double *to = smoothing_of(op, &attr);
    if (!to) {
        hri_graph_fail(r->to, HR_E_UNSUPPORTED,
                       "label smoothing needs a cross-entropy loss over classes, not %s", op->name);
        return HR_NONE;
    }
    *to = s->by;
    return hri_graph_add(r->to, op, in, n->sig.in_count, &attr);
}

/* ---- another loss ---- */

static int is_own_loss(const options *o, const hr_graph *from, uint32_t node) {
    const char *op = node == HRI_NO_NODE ? "" : from->nodes[node].sig.op->name;
    return o->loss == HRI_LOSS_MODEL ||
           (o->loss == HRI_LOSS_CROSS_ENTROPY && !from->class_weights && !o->soft && !o->weighted &&
            (!strcmp(op, "cross_entropy") || !strcmp(op, "linear_cross_entropy")));
}

/* The labels are made anew, behind everything else. */
static hr_value leave_label(hri_rewrite *r, hr_value value) {
    const hri_value *v = &r->from->values[value];
    (void)r;
    return v->kind == HR_VALUE_INPUT && !strcmp(v->name, "label") ? HRI_REWRITE_GONE : HR_NONE;
}

static hr_value leave_readers(hri_rewrite *r, const hri_node_record *n, hr_value *in) {
    for (uint32_t i = 0; i < n->sig.in_count; i++) {
        if (in[i] == HR_NONE) {
            return HR_NONE;
        }
    }
    return hri_rewrite_keep(r, n, in);
}

static void add_loss(hri_rewrite *r, const options *o) {
    const hri_loss loss = {.kind = o->loss, .delta = o->delta, .gamma = o->gamma, .soft = o->soft};
    const hri_result *logits = find_result(r->from, "logits");
    hr_graph *g = r->to;
    if (g->error.code != HR_OK) {
        return;
    }
    hr_value scores = logits ? r->values[logits->value] : HR_NONE;
    if (scores == HR_NONE || !hr_type_is_real(g->values[scores].meta.type)) {
        hri_graph_fail(g, HR_E_UNSUPPORTED,
                       "the loss %s needs a model with a result named \"logits\": one that brings "
                       "its own loss cannot be given another",
                       hri_loss_names[o->loss]);
        return;
    }
    const hr_meta label = hri_loss_label(&loss, &g->values[scores].meta);
    const hr_value targets = hr_graph_input(g, "label", label.type, label.shape);
    const hr_value weight = o->weighted ? hr_graph_input(g, HRI_LOSS_SAMPLE_WEIGHT, HR_TYPE_F32,
                                                         hr_shape_1(label.shape.dim[0]))
                                        : HR_NONE;
    hr_graph_push(g, "loss");
    if (o->wide) {
        scores = hr_graph_node(g, "cast", &scores, 1, "to=f32");
    }
    const hr_value made =
        hri_loss_build(g, &loss,
                       &(hri_loss_parts){.scores = scores,
                                         .label = targets,
                                         .sample_weight = weight,
                                         .smoothing = o->smoothing,
                                         .weights = r->from->class_weights,
                                         .weight_count = r->from->class_weight_count});
    hr_graph_pop(g);
    hr_graph_result(g, made, "loss");
}

static hr_status change_loss(const options *o, hri_rewrite *r) {
    r->node = leave_readers;
    r->source = leave_label;
    const hr_status status = hri_rewrite_graph(r);
    if (status == HR_OK) {
        add_loss(r, o);
    }
    return status == HR_OK ? r->to->error.code : status;
}

/* Whether there is one label for each row of scores; a model with a loss of its own may have others. */
static bool label_rows(const hr_meta *label, const hr_shape *scores) {
    bool same = !hr_type_is_real(label->type) && label->shape.rank + 1 == scores->rank;
    for (int i = 0; same && i < label->shape.rank; i++) {
        same = label->shape.dim[i] == scores->dim[i];
    }
    return same;
}

static void add_metrics(hr_graph *g) {
    const hri_result *logits = find_result(g, "logits");
    const hr_value label = hr_graph_find(g, "label");
    if (!logits || logits->spare || label == HR_NONE || find_result(g, "accuracy") ||
        !label_rows(&g->values[label].meta, &g->values[logits->value].meta.shape)) {
        return;
    }
    const hr_value scores = logits->value;
    const hr_shape *shape = &g->values[scores].meta.shape;
    const int64_t classes = shape->dim[shape->rank - 1];
    hr_graph_result(g, hr_accuracy(g, scores, label, 1), "accuracy");
    if (classes > 5) {
        hr_graph_result(g, hr_accuracy(g, scores, label, 5), "top5");
    }
}

static hr_status apply(const void *given, const hr_graph *from, hr_graph *to, hri_pass_map *map) {
    const options *o = given;
    const hri_result *loss = find_result(from, "loss");
    smoothing s = {.node = loss ? from->values[loss->value].node : HRI_NO_NODE, .by = o->smoothing};
    /* Without a node that makes the loss the step builder says what is wrong. */
    const int smooths = s.by > 0 && s.node != HRI_NO_NODE;
    hri_rewrite r = {.from = from, .to = to, .node = smooths ? take_node : NULL, .user = &s};
    hr_status status = is_own_loss(o, from, s.node) ? hri_rewrite_graph(&r) : change_loss(o, &r);
    if (status == HR_OK && o->metrics) {
        add_metrics(to);
        status = to->error.code;
    }
    *map = (hri_pass_map){.values = r.values, .value_count = from->value_count};
    return status;
}

const hri_pass hri_pass_loss = {.name = "loss",
                                .help = "another loss, accuracy, smoothed labels",
                                .changes_result = 1,
                                .fields = fields,
                                .options_bytes = sizeof(options),
                                .apply = apply};
