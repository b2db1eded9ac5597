/* The inputs of a model, found in its graph; see model_input.h. */
#include "loop/model_input.h"

#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "ops/common/label_rows.h"
#include "step/objective.h"

static hr_meta one_sample(const hr_meta *meta) {
    hr_meta m = {.type = meta->type};
    m.shape = hr_shape_from(meta->shape.rank - 1, meta->shape.dim + 1);
    return m;
}

/* The numbers of classes that the loss is a cross entropy over; .input HR_NONE: it is no such loss. */
static hri_label_rows labels_of_loss(const hr_graph *g, hr_value *ids) {
    const hr_value loss = hr_graph_find(g, "loss");
    hri_label_rows rows = {.input = HR_NONE};
    if (loss != HR_NONE && g->values[loss].node != HRI_NO_NODE &&
        hri_labels_meant(&g->nodes[g->values[loss].node], ids)) {
        (void)hri_label_rows_of(g, *ids, &rows);
    }
    return rows;
}

/* Does anything but the way to the ids read the labels? */
static int read_elsewhere(const hr_graph *g, hr_value label, hr_value ids) {
    uint32_t readers = 0;
    for (hr_value v = ids; v != label; v = g->nodes[g->values[v].node].in[0]) {
        for (uint32_t n = 0; n < g->node_count; n++) {
            for (uint32_t i = 0; i < g->nodes[n].sig.in_count; i++) {
                readers += g->nodes[n].in[i] == g->nodes[g->values[v].node].in[0];
            }
        }
        if (readers > 1) {
            return 1;
        }
        readers = 0;
    }
    return 0;
}

/* Are there means over labels that count, and any over others than those of `label`? */
static void find_means(const hr_graph *g, hr_value label, hri_model_input *out) {
    hr_value ids;
    hri_label_rows rows;
    for (uint32_t n = 0; n < g->node_count; n++) {
        if (hri_labels_meant(&g->nodes[n], &ids)) {
            out->leaves_out = 1;
            out->other_labels |= !hri_label_rows_of(g, ids, &rows) || rows.input != label;
        }
    }
}

/* Rows of the table that an input of tokens picks from; 0: it picks from none. */
static int64_t table_of(const hr_graph *g, hr_value tokens) {
    for (uint32_t i = 0; i < g->node_count; i++) {
        const hri_node_record *n = &g->nodes[i];
        if (!strcmp(n->sig.op->name, "gather") && n->in[1] == tokens &&
            n->sig.in[0].shape.rank == 2) {
            return n->sig.in[0].shape.dim[0];
        }
    }
    return 0;
}

static hr_status take_input(const hr_graph *g, hr_value v, hr_value label, hri_model_input *out,
                            hri_prose *why) {
    const hri_value *value = &g->values[v];
    const hr_type type = value->meta.type;
    if (strlen(value->name) >= HR_FIELD_NAME_SIZE || value->meta.shape.rank < 1 ||
        (type != HR_TYPE_F32 && type != HR_TYPE_I32 && type != HR_TYPE_U8)) {
        char is[256];
        return hri_prose_set(why, HR_E_SHAPE,
                             "its input %s is %s; data goes to inputs of f32, i32 or u8 with the "
                             "batch as first dimension and a name of less than %d bytes",
                             value->name, hr_meta_print(&value->meta, is, sizeof is),
                             HR_FIELD_NAME_SIZE);
    }
    if (v == label) {
        out->label = one_sample(&value->meta);
        snprintf(out->label_name, sizeof out->label_name, "%s", value->name);
    } else if (!out->name[0]) {
        out->sample = one_sample(&value->meta);
        out->table = table_of(g, v);
        snprintf(out->name, sizeof out->name, "%s", value->name);
    } else if (out->other_count < HRI_OTHER_INPUTS) {
        hri_other_input *x = &out->others[out->other_count++];
        x->sample = one_sample(&value->meta);
        x->table = table_of(g, v);
        snprintf(x->name, sizeof x->name, "%s", value->name);
    } else {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "it has more than %d inputs",
                             HRI_OTHER_INPUTS + 2);
    }
    return HR_OK;
}

int hri_model_input_is_sequence(const hri_model_input *want) {
    return want->sample.type == HR_TYPE_I32 && want->label.type == HR_TYPE_I32 && !want->shifts &&
           hr_shape_same(&want->sample.shape, &want->label.shape);
}

static hr_status read_inputs(const hr_graph *g, hri_model_input *out, hri_prose *why) {
    hr_value ids = HR_NONE;
    const hri_label_rows rows = labels_of_loss(g, &ids);
    const hr_value named = hr_graph_find(g, "label");
    const int is_named = named != HR_NONE && g->values[named].kind == HR_VALUE_INPUT;
    const hr_value label = is_named ? named : rows.input;
    hr_status status = HR_OK;
    out->counts = label != HR_NONE && label == rows.input;
    out->masks = out->counts && !read_elsewhere(g, label, ids);
    find_means(g, label, out);
    out->shifts = out->counts && (label != ids || !out->masks);
    out->row = out->counts ? rows.row : 0;
    out->row_from = rows.from;
    out->row_to = rows.to;
    for (hr_value v = 1; status == HR_OK && v < g->value_count; v++) {
        const hri_value *value = &g->values[v];
        out->weights += value->kind == HR_VALUE_PARAM || value->kind == HR_VALUE_STATE;
        out->parameters +=
            value->kind == HR_VALUE_PARAM ? (uint64_t)hr_shape_count(&value->meta.shape) : 0;
        if (value->kind == HR_VALUE_INPUT) {
            status = take_input(g, v, label, out, why);
            out->vocab = out->vocab ? out->vocab : table_of(g, v);
        }
    }
    return status == HR_OK && !out->name[0]
               ? hri_prose_set(why, HR_E_INVALID, "it has no input for data")
               : status;
}

hr_status hri_model_input_of(hr_model *m, hri_model_input *out, hri_prose *why) {
    return hri_model_input_with(m, NULL, out, why);
}

/* Whether "name:key=value,..." has the key; a path and a network of one line have none. */
static int states(const char *text, const char *key) {
    const size_t n = strlen(key);
    const char *at = strncmp(text, "net:", 4) != 0 ? strchr(text, ':') : NULL;
    for (; at && !(strncmp(at + 1, key, n) == 0 && at[1 + n] == '='); at = strchr(at + 1, ',')) {
    }
    return at != NULL;
}

hr_status hri_model_input_with(hr_model *m, const hri_loss *loss, hri_model_input *out,
                               hri_prose *why) {
    hri_objective objective = {.build = hr_model_build, .user = m, .no_metrics = 1};
    hr_graph *g;
    hri_prose reason = {""};
    hr_status status = hr_graph_create(&g);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "out of memory while inspecting the model");
    }
    objective.loss = loss ? *loss : objective.loss;
    const int changed = objective.loss.kind || objective.loss.weighted;
    status = changed ? hri_objective_build(&objective, g, 1, 0) : hr_model_build(m, g, 1, 0);
    if (status != HR_OK && changed) {
        (void)hri_prose_set(&reason, status, "%s", g->error.message);
    }
    hri_model_input found = {.classes = hr_model_classes(m),
                             .states_classes = states(hr_model_text(m), "classes"),
                             .states_channels = states(hr_model_text(m), "channels")};
    if (status == HR_OK) {
        status = read_inputs(g, &found, &reason);
        found.masks |= changed;
        found.counts |= changed;
    }
    hr_graph_destroy(g);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "%s: %s", hr_model_text(m),
                             reason.text[0] ? reason.text : "its inputs cannot be found");
    }
    *out = found;
    return HR_OK;
}
