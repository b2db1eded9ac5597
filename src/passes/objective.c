/* Two scalars more, and another loss; see objective.h. */
#include "passes/objective.h"

#include <headroom/ops.h>
#include <string.h>

#include "graph/graph.h"

static hri_result *find_result(hr_graph *g, const char *name) {
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

/* The node of the loss again, the same but for its smoothing; the old one serves nobody and is dropped at freeze. */
static void smooth(hr_graph *g, double smoothing) {
    const hri_result *loss = find_result(g, "loss");
    const uint32_t node = loss ? g->values[loss->value].node : HRI_NO_NODE;
    if (node == HRI_NO_NODE) {
        return; /* the step builder says what is wrong */
    }
    const hri_sig *sig = &g->nodes[node].sig;
    const hr_op *op = sig->op;
    const uint32_t count = sig->in_count;
    hr_value in[HRI_IN_MAX];
    hri_attr attr = {0};
    memcpy(in, g->nodes[node].in, count * sizeof in[0]); /* adding moves the nodes */
    if (sig->attr) {
        memcpy(&attr, sig->attr, op->attr_bytes);
    }
    double *to = smoothing_of(op, &attr);
    if (!to) {
        hri_graph_fail(g, HR_E_UNSUPPORTED,
                       "label smoothing needs a cross entropy over classes as the loss, not %s",
                       op->name);
        return;
    }
    *to = smoothing;
    const hr_value made = hri_graph_add(g, op, in, count, &attr);
    hri_result *result = find_result(g, "loss");
    if (made != HR_NONE && result) {
        result->value = made;
    }
}

hr_status hri_objective_build(void *objective, hr_graph *g, int64_t batch, int training) {
    const hri_objective *o = objective;
    g->pixels = training ? &o->pixels : &o->eval_pixels;
    hr_status status = o->build(o->user, g, batch, training);
    g->pixels = NULL;
    const hri_pixels *pixels = training ? &o->pixels : &o->eval_pixels;
    const hr_value image = pixels->channels ? hr_graph_find(g, pixels->name) : HR_NONE;
    if (status == HR_OK && image != HR_NONE && g->values[image].meta.type != HR_TYPE_U8) {
        hri_graph_fail(g, HR_E_SHAPE, "its input %s does not take images of %u channels as bytes",
                       pixels->name, pixels->channels);
    }
    if (status != HR_OK) {
        return status;
    }
    if (training && o->smoothing > 0) {
        smooth(g, o->smoothing);
    }
    const hri_result *logits = find_result(g, "logits");
    const hr_value label = hr_graph_find(g, "label");
    if (logits && !logits->spare && label != HR_NONE && !o->no_metrics) {
        const hr_value scores = logits->value;
        const hr_shape *shape = &g->values[scores].meta.shape;
        const int64_t classes = shape->rank ? shape->dim[shape->rank - 1] : 0;
        hr_graph_result(g, hr_accuracy(g, scores, label, 1), "accuracy");
        if (classes > 5) {
            hr_graph_result(g, hr_accuracy(g, scores, label, 5), "top5");
        }
    }
    return g->error.code;
}
