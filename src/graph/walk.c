/* Walking a graph: nodes with their inputs and typed attributes, results, tags of persistent values. */
#include <string.h>

#include "base/grow.h"
#include "graph/graph.h"

static uint32_t count_fields(const hri_field *fields) {
    return fields ? (uint32_t)hri_fields_count(fields) : 0;
}

hr_status hr_graph_get_node(const hr_graph *g, size_t index, hr_node_info *out) {
    if (index >= g->node_count) {
        return HR_E_EOF;
    }
    const hri_node_record *n = &g->nodes[index];
    const hr_node_info info = {.size = sizeof info,
                               .op = n->sig.op->name,
                               .name = n->name,
                               .inputs = n->in,
                               .input_count = n->sig.in_count,
                               .output_count = n->sig.out_count,
                               .first_output = n->out,
                               .attribute_count = count_fields(n->sig.op->fields),
                               .phase = n->phase,
                               .live = g->frozen ? n->live : 1};
    return hri_give(out, &info, sizeof info);
}

hr_status hr_graph_find_node(const hr_graph *g, hr_value value, size_t *out) {
    if (value == HR_NONE || value >= g->value_count || g->values[value].node == HRI_NO_NODE) {
        return HR_E_NOT_FOUND;
    }
    *out = g->values[value].node;
    return HR_OK;
}

static void read_typed(const hri_field *field, const void *attr, hr_attribute *out) {
    const char *at = (const char *)attr + field->offset;
    hri_dims dims = {0};
    switch (field->type) {
    case HRI_FIELD_BOOL:
        out->integer = *(const bool *)at;
        break;
    case HRI_FIELD_INT:
        out->integer = *(const int64_t *)at;
        break;
    case HRI_FIELD_BYTES:
        out->integer = (int64_t) * (const uint64_t *)at;
        break;
    case HRI_FIELD_DOUBLE:
        out->kind = HR_ATTRIBUTE_REAL;
        out->real = *(const double *)at;
        break;
    case HRI_FIELD_DIMS:
        memcpy(&dims, at, sizeof dims);
        out->kind = HR_ATTRIBUTE_INTEGERS;
        out->integer_count = (uint64_t)dims.count;
        memcpy(out->integers, dims.at, sizeof out->integers);
        break;
    case HRI_FIELD_ENUM:
        out->kind = HR_ATTRIBUTE_NAME;
        out->integer = *(const int *)at;
        break;
    case HRI_FIELD_STRING:
    case HRI_FIELD_SIZE:
    case HRI_FIELD_LIST: /* no op has these */
        out->kind = HR_ATTRIBUTE_NAME;
        break;
    }
}

hr_status hr_graph_get_attribute(const hr_graph *g, size_t node, size_t index, hr_attribute *out) {
    if (node >= g->node_count || index >= count_fields(g->nodes[node].sig.op->fields)) {
        return HR_E_EOF;
    }
    const hri_sig *sig = &g->nodes[node].sig;
    const hri_field *field = &sig->op->fields[index];
    hri_attr copy = {{0}}, defaults = {{0}};
    const hr_status status = hri_attr_parse(sig->op, NULL, &defaults, NULL);
    if (status != HR_OK) {
        return status;
    }
    memcpy(&copy, sig->attr, sig->op->attr_bytes);
    const hri_options is = {.fields = sig->op->fields, .target = &copy};
    const hri_options was = {.fields = sig->op->fields, .target = &defaults};
    hr_attribute a = {.size = sizeof a, .name = field->name};
    char usual[HR_ATTRIBUTE_TEXT];
    hri_options_print(&is, field, a.text, sizeof a.text);
    hri_options_print(&was, field, usual, sizeof usual);
    a.is_default = !strcmp(a.text, usual);
    read_typed(field, &copy, &a);
    return hri_give(out, &a, sizeof a);
}

hr_status hr_graph_get_result(const hr_graph *g, size_t index, hr_value *value, const char **name) {
    if (index >= g->result_count) {
        return HR_E_EOF;
    }
    if (value) {
        *value = g->results[index].value;
    }
    if (name) {
        *name = g->results[index].name;
    }
    return HR_OK;
}

/* ---- tags ---- */

static const hr_tags no_tags = {.size = sizeof no_tags};

const hr_tags *hri_graph_tags(const hr_graph *g, hr_value v) {
    return v != HR_NONE && v < g->value_count && g->values[v].tags ? g->values[v].tags : &no_tags;
}

static int is_persistent(const hr_graph *g, hr_value v) {
    return v != HR_NONE && v < g->value_count &&
           (g->values[v].kind == HR_VALUE_PARAM || g->values[v].kind == HR_VALUE_STATE);
}

void hr_graph_set_tags(hr_graph *g, hr_value value, const hr_tags *tags) {
    if (g->error.code != HR_OK) {
        return;
    }
    hr_tags own;
    const hr_status status = hri_take(&own, sizeof own, tags);
    if (g->frozen) {
        hri_graph_fail(g, HR_E_BUSY, "the graph is frozen and cannot be changed");
    } else if (status != HR_OK || own.reserved) {
        hri_graph_fail(g, status != HR_OK ? status : HR_E_UNSUPPORTED, "tags of %s: unknown tag",
                       hr_graph_name(g, value));
    } else if (!is_persistent(g, value) || (own.owner != HR_NONE && !is_persistent(g, own.owner))) {
        hri_graph_fail(g, HR_E_INVALID,
                       "tags of %s: only parameters and persistent values can "
                       "have tags",
                       hr_graph_name(g, value));
    } else if (own.layout < 0 || own.layout > HR_LAYOUT_CONV || own.keep < 0 ||
               own.keep > HR_KEEP_NOT || own.decay < -1 || own.decay > 1 || own.frozen < 0 ||
               own.frozen > 1 ||
               (own.layout == HR_LAYOUT_CONV && g->values[value].meta.shape.rank != 4)) {
        hri_graph_fail(g, HR_E_RANGE, "tags of %s: value out of range", hr_graph_name(g, value));
    } else {
        g->values[value].tags = hri_arena_copy(&g->arena, &own, sizeof own, _Alignof(hr_tags));
        if (!g->values[value].tags) {
            hri_graph_fail(g, HR_E_NOMEM_HOST, "out of host memory for the graph");
        }
    }
}

hr_status hr_graph_get_tags(const hr_graph *g, hr_value value, hr_tags *out) {
    return is_persistent(g, value) ? hri_give(out, hri_graph_tags(g, value), sizeof(hr_tags))
                                   : HR_E_INVALID;
}
