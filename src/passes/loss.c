/* What a training asks of a model beside its loss: how often it was right, and a loss with smoothed labels.
 *
 * Where the model shows its scores ("logits") and labels, two scalars are added as results, which every step gives for
 * little: accuracy, and top5 where there are more than five classes.  A model whose scores are never whole (gpt2) has
 * neither, and one that says its own accuracy keeps that.  Smoothing builds the node of the loss with that attribute. */
#include <headroom/ops.h>
#include <stddef.h>
#include <string.h>

#include "passes/common/pass.h"

typedef struct options {
    double smoothing;
    bool metrics;
} options;

static const hri_field fields[] = {
    {"smoothing", "label smoothing; 0: none", offsetof(options, smoothing), HRI_FIELD_DOUBLE, "0",
     .min = 0, .max = 1},
    {"metrics", "add accuracy and top5", offsetof(options, metrics), HRI_FIELD_BOOL, "true"},
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

static void add_metrics(hr_graph *g) {
    const hri_result *logits = find_result(g, "logits");
    const hr_value label = hr_graph_find(g, "label");
    if (!logits || logits->spare || label == HR_NONE || find_result(g, "accuracy")) {
        return;
    }
    const hr_value scores = logits->value;
    const hr_shape *shape = &g->values[scores].meta.shape;
    const int64_t classes = shape->rank ? shape->dim[shape->rank - 1] : 0;
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
    hr_status status = hri_rewrite_graph(&r);
    if (status == HR_OK && o->metrics) {
        add_metrics(to);
        status = to->error.code;
    }
    *map = (hri_pass_map){.values = r.values, .value_count = from->value_count};
    return status;
}

const hri_pass hri_pass_loss = {.name = "loss",
                                .help = "add accuracy to the loss, and smooth labels",
                                .changes_result = 1,
                                .fields = fields,
                                .options_bytes = sizeof(options),
                                .apply = apply};
