/* Copying a model with casts. */
#include "passes/precision.h"

#include <string.h>

#include "base/alloc.h"

typedef struct copier {
    const hr_graph *from;
    hr_graph *to;
    hr_type small;
    hr_value *map; /* by value of `from`: its copy */
    hri_precision *p;
} copier;

/* Both tables grow with the new graph. */
static void grow(copier *c) {
    hri_precision *p = c->p;
    if (c->to->value_count <= p->space || c->to->error.code != HR_OK) {
        return;
    }
    const uint32_t space = c->to->value_count * 2 + 64;
    hr_value *cast = hri_realloc(p->cast, space * sizeof *cast);
    p->cast = cast ? cast : p->cast;
    unsigned char *is_read = cast ? hri_realloc(p->is_read, space) : NULL;
    p->is_read = is_read ? is_read : p->is_read;
    if (!is_read) {
        hri_graph_fail(c->to, HR_E_NOMEM_HOST, "no host memory for mixed precision");
        return;
    }
    memset(cast + p->space, 0, (space - p->space) * sizeof *cast);
    memset(is_read + p->space, 0, space - p->space);
    p->space = space;
}

static hr_value cast_of(copier *c, hr_value v) {
    if (c->to->error.code != HR_OK || c->to->values[v].meta.type == c->small ||
        !hr_type_is_real(c->to->values[v].meta.type)) {
        return v;
    }
    if (c->p->cast[v] == HR_NONE) {
        const char *to = c->small == HR_TYPE_BF16 ? "to=bf16" : "to=f16";
        const hri_node_record *from =
            c->to->values[v].node == HRI_NO_NODE ? NULL : &c->to->nodes[c->to->values[v].node];
        /* Bytes become small numbers in one pass: the same bits, and nobody makes the f32 ones. */
        const hr_value small = from && !strcmp(from->sig.op->name, "normalise")
                                   ? hr_graph_node(c->to, "normalise", from->in, 3, to)
                                   : hr_graph_node(c->to, "cast", &v, 1, to);
        c->p->cast[v] = small;
        grow(c);
    }
    return c->p->cast[v];
}

static int is_updated(const hr_op *op, uint32_t i) {
    for (uint32_t k = 0; k < op->out_count; k++) {
        if (op->updates[k] == i + 1) {
            return 1;
        }
    }
    return 0;
}

enum { AS_IS, MADE_ONES, ALL, WAYS };

/* Whether input i is cast when the inputs are taken this way. */
static int is_cast(const copier *c, const hri_node_record *n, uint32_t i, hr_value v, int way) {
    const hri_value *value = &c->to->values[v];
    if (way == AS_IS || is_updated(n->sig.op, i) || !hr_type_is_real(value->meta.type)) {
        return 0;
    }
    return way == ALL || value->origin == HR_NONE;
}

static int is_allowed(const copier *c, const hri_node_record *n, const hr_value *in, int way) {
    hr_meta metas[HRI_IN_MAX], out[HRI_OUT_MAX] = {{0}};
    for (uint32_t i = 0; i < n->sig.in_count; i++) {
        metas[i] = c->to->values[in[i]].meta;
        metas[i].type = is_cast(c, n, i, in[i], way) ? c->small : metas[i].type;
    }
    hri_infer q = {.attr = n->sig.attr, .in_count = n->sig.in_count, .in = metas, .out = out};
    return n->sig.op->infer(&q) == HR_OK;
}

static void copy_node(copier *c, const hri_node_record *n) {
    hr_value in[HRI_IN_MAX];
    for (uint32_t i = 0; i < n->sig.in_count; i++) {
        in[i] = c->map[n->in[i]];
    }
    int way = n->sig.op->product ? ALL : AS_IS;
    while (way < ALL && !is_allowed(c, n, in, way)) {
        way++;
    }
    const size_t length = strlen(n->name) - strlen(n->sig.op->name);
    const size_t scope = length ? length - 1 : 0;
    memcpy(c->to->path, n->name, scope);
    c->to->path[scope] = '\0';
    for (uint32_t i = 0; i < n->sig.in_count && c->to->error.code == HR_OK; i++) {
        if (is_cast(c, n, i, in[i], way)) {
            in[i] = cast_of(c, in[i]);
        } else {
            c->p->is_read[in[i]] = 1;
        }
    }
    const hr_value out = hri_graph_add(c->to, n->sig.op, in, n->sig.in_count, n->sig.attr);
    c->to->path[0] = '\0';
    grow(c);
    for (uint32_t k = 0; k < n->sig.out_count && out != HR_NONE; k++) {
        c->map[n->out + k] = out + k;
    }
}

static void copy_source(copier *c, hr_value v) {
    const hri_value *value = &c->from->values[v];
    char name[280];
    const size_t length = strlen(value->name);
    if (length + 2 > sizeof name) {
        hri_graph_fail(c->to, HR_E_INVALID, "%s: the name is too long", value->name);
        return;
    }
    name[0] = '/'; /* names are whole already */
    memcpy(name + 1, value->name, length + 1);
    const hr_type type = value->meta.type;
    const hr_shape shape = value->meta.shape;
    switch (value->kind) {
    case HR_VALUE_INPUT:
        c->map[v] = hr_graph_input(c->to, name, type, shape);
        break;
    case HR_VALUE_PARAM:
        c->map[v] = hr_graph_param(c->to, name, type, shape, value->init);
        break;
    case HR_VALUE_STATE:
        c->map[v] = hr_graph_state(c->to, name, type, shape, value->init);
        break;
    default:
        c->map[v] = value->data ? hr_graph_constant(c->to, type, shape, value->data)
                                : hr_graph_fill(c->to, type, shape, value->init.a);
        break;
    }
    if (value->tags && c->map[v] != HR_NONE) {
        hr_tags tags = *value->tags;
        tags.owner = c->map[tags.owner]; /* what owns it was there before it */
        hr_graph_set_tags(c->to, c->map[v], &tags);
    }
    grow(c);
}

hr_status hri_precision_copy(const hr_graph *from, hr_graph *to, hr_type small,
                             hri_precision *out) {
    hri_precision p = {0};
    copier c = {.from = from, .to = to, .small = small, .p = &p};
    c.map = hri_calloc(from->value_count, sizeof *c.map);
    if (!c.map) {
        return HR_E_NOMEM_HOST;
    }
    grow(&c);
    uint32_t node = 0;
    for (hr_value v = 1; v < from->value_count && to->error.code == HR_OK; v++) {
        if (from->values[v].node == HRI_NO_NODE) {
            copy_source(&c, v);
        } else if (from->values[v].node == node) { /* the first output of the next node */
            copy_node(&c, &from->nodes[node++]);
        }
    }
    for (uint32_t i = 0; i < from->result_count && to->error.code == HR_OK; i++) {
        const hri_result *r = &from->results[i];
        (r->spare ? hri_graph_result_spare : hr_graph_result)(to, c.map[r->value], r->name);
    }
    hri_free(c.map);
    if (to->error.code != HR_OK) {
        hri_precision_deinit(&p);
        return to->error.code;
    }
    *out = p;
    return HR_OK;
}

hr_value hri_precision_read(const hri_precision *p, hr_value param) {
    const int through = param < p->space && p->cast[param] != HR_NONE && !p->is_read[param];
    return through ? p->cast[param] : param;
}

void hri_precision_deinit(hri_precision *p) {
    hri_free(p->cast);
    hri_free(p->is_read);
    *p = (hri_precision){0};
}
