/* Labels of an input that a loss reads; see label_rows.h. */
#include "ops/common/label_rows.h"

#include <string.h>

#include "ops/common/box.h"

enum { CHAIN = 16 };

int hri_labels_meant(const hri_node_record *n, hr_value *ids) {
    static const struct {
        const char *op;
        uint32_t ids;
    } losses[] = {{"cross_entropy", 1}, {"linear_cross_entropy", 2}};
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        if (!strcmp(n->sig.op->name, losses[i].op) && n->sig.in_count > losses[i].ids &&
            hri_op_samples(&n->sig, 1) == HRI_SAMPLES_MEAN) {
            *ids = n->in[losses[i].ids];
            return 1;
        }
    }
    return 0;
}

/* Does the node leave all dimensions but the last as they are? */
static int along_rows(const hri_sig *s, const hri_dims *step) {
    const hr_shape *in = &s->in[0].shape, *out = &s->out[0].shape;
    int same = in->rank > 1;
    for (int d = 0; same && d < in->rank; d++) {
        same = hri_box_step(step, d) == 1 && (d == in->rank - 1 || in->dim[d] == out->dim[d]);
    }
    return same;
}

/* The rows behind a border or inside a box; *at is where the input's first label stands in a row. */
static int follow(const hri_node_record *n, int64_t *at, hri_label_rows *r) {
    const int last = n->sig.in[0].shape.rank - 1;
    if (!strcmp(n->sig.op->name, "pad")) {
        const hri_attr_pad *p = n->sig.attr;
        *at += last < p->before.count ? p->before.at[last] : 0;
        return p->value <= -1 && along_rows(&n->sig, &p->step);
    }
    const hri_attr_slice *p = n->sig.attr;
    int64_t begin = last < p->begin.count ? p->begin.at[last] : 0;
    begin += begin < 0 ? n->sig.in[0].shape.dim[last] : 0;
    const int64_t from = begin - *at, to = from + n->sig.out[0].shape.dim[last];
    r->from = from > r->from ? from : r->from;
    r->to = to < r->to ? to : r->to;
    r->to = r->to < r->from ? r->from : r->to;
    *at -= begin;
    return along_rows(&n->sig, &p->step);
}

int hri_label_rows_of(const hr_graph *g, hr_value ids, hri_label_rows *out) {
    const hri_node_record *chain[CHAIN];
    int count = 0, shaped = 1;
    hr_value v = ids;
    while (g->values[v].kind != HR_VALUE_INPUT) {
        const hri_node_record *n =
            g->values[v].node == HRI_NO_NODE ? NULL : &g->nodes[g->values[v].node];
        const int shape = n && !strcmp(n->sig.op->name, "reshape");
        const int box = n && (!strcmp(n->sig.op->name, "slice") || !strcmp(n->sig.op->name, "pad"));
        if ((!shape || !shaped) && (!box || count == CHAIN)) {
            return 0;
        }
        if (box) {
            chain[count++] = n;
            shaped = 0; /* rows of the input from here on */
        }
        v = n->in[0];
    }
    const hr_shape *shape = &g->values[v].meta.shape;
    hri_label_rows r = {.input = v, .row = shape->rank > 1 ? shape->dim[shape->rank - 1] : 1};
    int64_t at = 0;
    r.to = r.row;
    while (count) {
        if (!follow(chain[--count], &at, &r)) {
            return 0;
        }
    }
    *out = r;
    return 1;
}
