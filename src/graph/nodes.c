/* Builders for gradient rules: nodes by op name with a struct of attributes. */
#include "graph/graph.h"

#include "graph/dims.h"

hr_value hri_node(hr_graph *g, const char *name, const hr_value *in, uint32_t count,
                  const void *attr) {
    const hr_op *op = hri_op_find(name);
    hri_attr defaults;
    if (!op) {
        hri_graph_fail(g, HR_E_INTERNAL, "%s: unknown op \"%s\"", g->path, name);
        return HR_NONE;
    }
    if (!attr) {
        const hr_status status = hri_attr_parse(op, NULL, &defaults, NULL);
        if (status != HR_OK) {
            hri_graph_fail(g, status, "%s: the defaults of %s", g->path, name);
            return HR_NONE;
        }
        attr = &defaults;
    }
    return hri_graph_add(g, op, in, count, attr);
}

hr_value hri_sum_to(hr_graph *g, hr_value dy, hr_value like) {
    if (g->error.code != HR_OK ||
        hr_shape_same(&g->values[dy].meta.shape, &g->values[like].meta.shape)) {
        return dy;
    }
    const hri_attr_dims to = {hri_dims_of(&g->values[like].meta.shape)};
    return HRI_NODE(g, "sum_to", &to, dy);
}
