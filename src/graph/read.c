/* Reading a graph: counts, metas, names. */
#include "graph/graph.h"

#include <string.h>

size_t hr_graph_value_count(const hr_graph *g) {
    return g->value_count - 1;
}

size_t hr_graph_node_count(const hr_graph *g) {
    return g->frozen ? g->live_count : g->node_count;
}

static int valid(const hr_graph *g, hr_value v) {
    return v != HR_NONE && v < g->value_count;
}

hr_meta hr_graph_meta(const hr_graph *g, hr_value value) {
    return valid(g, value) ? g->values[value].meta : (hr_meta){0};
}

const char *hr_graph_name(const hr_graph *g, hr_value value) {
    return valid(g, value) ? g->values[value].name : "none";
}

hr_value_kind hr_graph_kind(const hr_graph *g, hr_value value) {
    return valid(g, value) ? g->values[value].kind : HR_VALUE_NODE;
}

hr_value hr_graph_find(const hr_graph *g, const char *name) {
    uint64_t id = HR_NONE;
    if (hri_strmap_get(&g->names, name, &id)) {
        return (hr_value)id;
    }
    for (uint32_t i = 0; i < g->result_count; i++) {
        if (!strcmp(g->results[i].name, name)) {
            return g->results[i].value;
        }
    }
    return HR_NONE;
}
