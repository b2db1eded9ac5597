/* A training graph in the form of an evaluation; see qat.h. */
#include <string.h>

#include "base/alloc.h"
#include "ops/common/batch_norm.h"
#include "passes/common/pass.h"
#include "passes/common/qat.h"

static int is_op(const hr_graph *g, uint32_t node, const char *name) {
    return node != HRI_NO_NODE && !strcmp(g->nodes[node].sig.op->name, name);
}

uint32_t hri_evaluated_reader(const hr_graph *from, hr_value v, uint32_t input, const char *op) {
    uint32_t found = HRI_NO_NODE, count = 0;
    for (uint32_t n = 0; n < from->node_count; n++) {
        if (is_op(from, n, op) && from->nodes[n].sig.in_count > input &&
            from->nodes[n].in[input] == v) {
            found = n;
            count++;
        }
    }
    return count == 1 ? found : HRI_NO_NODE;
}

/* Nodes that read v, and results. */
static uint32_t uses_of(const hr_graph *g, hr_value v) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < g->node_count; n++) {
        for (uint32_t i = 0; i < g->nodes[n].sig.in_count; i++) {
            count += g->nodes[n].in[i] == v;
        }
    }
    for (uint32_t i = 0; i < g->result_count; i++) {
        count += g->results[i].value == v;
    }
    return count;
}

/* The statistics that batch_norm_apply `node` goes with; HRI_NO_NODE: it is not of that kind. */
static uint32_t stats_of(const hr_graph *g, uint32_t node) {
    const hr_value mean = g->nodes[node].in[3];
    const uint32_t moments = g->values[mean].node;
    if (!is_op(g, moments, "batch_norm_moments") || g->nodes[node].in[4] != mean + 1 ||
        uses_of(g, mean) != 2 || uses_of(g, mean + 1) != 2) {
        return HRI_NO_NODE;
    }
    return hri_evaluated_reader(g, mean, 2, "batch_norm_stats");
}

/* Of the first or last node of a batch norm: the one between them; HRI_NO_NODE: it is left as it is. */
static uint32_t apply_of(const hr_graph *g, const hri_node_record *n) {
    const hr_value mean = !strcmp(n->sig.op->name, "batch_norm_moments") ? n->out
                          : !strcmp(n->sig.op->name, "batch_norm_stats") ? n->in[2]
                                                                         : HR_NONE;
    const uint32_t apply =
        mean == HR_NONE ? HRI_NO_NODE : hri_evaluated_reader(g, mean, 3, "batch_norm_apply");
    return apply != HRI_NO_NODE && stats_of(g, apply) != HRI_NO_NODE ? apply : HRI_NO_NODE;
}

static int has_relu(const hri_node_record *n) {
    char text[80];
    hri_attr_print(n->sig.op, n->sig.attr, text, sizeof text);
    return strstr(text, "relu") != NULL;
}

static hr_value make_norm(hri_rewrite *r, const hri_node_record *n, const hr_value *in) {
    const uint32_t number = (uint32_t)(n - r->from->nodes), stats = stats_of(r->from, number);
    hri_evaluated *e = r->user;
    const hri_node_record *moments = &r->from->nodes[r->from->values[n->in[3]].node];
    const hri_node_record *s = &r->from->nodes[stats];
    const hri_batch_norm_attr *attr = moments->sig.attr;
    const hr_value from[] = {in[0], in[1], in[2], r->values[s->in[0]], r->values[s->in[1]]};
    hr_value y = hri_nodef(r->to, "batch_norm_inference", from, 5, "eps=%.17g", attr->eps);
    if (y == HR_NONE) {
        return HR_NONE;
    }
    e->norm[r->to->values[y].node] = number + 1;
    y = n->sig.in_count > 5 ? HRI_NODE(r->to, "add", NULL, y, in[5]) : y;
    return has_relu(n) ? HRI_NODE(r->to, "relu", NULL, y) : y;
}

static hr_value take_node(hri_rewrite *r, const hri_node_record *n, hr_value *in) {
    const uint32_t number = (uint32_t)(n - r->from->nodes);
    hri_evaluated *e = r->user;
    if (is_op(r->from, number, "batch_norm_apply") && stats_of(r->from, number) != HRI_NO_NODE) {
        return make_norm(r, n, in);
    }
    if (apply_of(r->from, n) != HRI_NO_NODE) {
        return HR_NONE;
    }
    if (is_op(r->from, number, "dropout") && uses_of(r->from, n->in[0]) == 1 &&
        r->from->values[n->in[0]].node != HRI_NO_NODE && !e->drop[in[0]]) {
        e->drop[in[0]] = number + 1;
        return in[0];
    }
    return hri_rewrite_keep(r, n, in);
}

hr_status hri_evaluated_init(hri_evaluated *e, const hr_graph *from) {
    *e = (hri_evaluated){.from = from};
    hr_status status = hr_graph_create(&e->g);
    if (status != HR_OK) {
        return status;
    }
    e->norm = hri_calloc(3 * (size_t)from->node_count + 1, sizeof *e->norm);
    e->drop = hri_calloc(3 * (size_t)from->value_count + 1, sizeof *e->drop);
    hri_rewrite r = {.from = from, .to = e->g, .node = take_node, .user = e};
    status = e->norm && e->drop ? hri_rewrite_graph(&r) : HR_E_NOMEM_HOST;
    hri_free(r.values);
    return status;
}

void hri_evaluated_deinit(hri_evaluated *e) {
    hr_graph_destroy(e->g);
    hri_free(e->norm);
    hri_free(e->drop);
    *e = (hri_evaluated){0};
}
