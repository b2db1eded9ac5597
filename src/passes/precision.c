/* Mixed precision: the same model with products in a small type.
 *
 * Ops whose descriptor says `product` get their real inputs in the small type.  All others take what they are given, as far
 * as their shape rule allows it: norms read small images beside f32 weights, losses small scores and give an f32.  Where it
 * does not (an f32 and a small one are added), what is not persistent is cast down, and if that is not enough everything
 * real is.  Memory that an op updates is never cast.  A value is cast once for all its readers. */
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "passes/common/pass.h"

typedef struct options {
    int to;
} options;

enum { TO_BF16, TO_F16 };
static const char *const names[] = {"bf16", "f16", NULL};

static const hri_field fields[] = {
    {"to", "type of matmuls", offsetof(options, to), HRI_FIELD_ENUM, "bf16", .choices = names},
    {0}};

typedef struct casting {
    int32_t small;
    hr_value *cast;         /* by value of `to`: itself in the small type */
    unsigned char *is_read; /* by value of `to`: some node reads it as it is */
    uint32_t space;
} casting;

/* Both tables grow with the new graph. */
static void grow(hri_rewrite *r) {
    casting *p = r->user;
    if (r->to->value_count <= p->space || r->to->error.code != HR_OK) {
        return;
    }
    const uint32_t space = r->to->value_count * 2 + 64;
    hr_value *cast = hri_realloc(p->cast, space * sizeof *cast);
    p->cast = cast ? cast : p->cast;
    unsigned char *is_read = cast ? hri_realloc(p->is_read, space) : NULL;
    p->is_read = is_read ? is_read : p->is_read;
    if (!is_read) {
        hri_graph_fail(r->to, HR_E_NOMEM_HOST, "out of host memory for mixed precision");
        return;
    }
    memset(cast + p->space, 0, (space - p->space) * sizeof *cast);
    memset(is_read + p->space, 0, space - p->space);
    p->space = space;
}

static hr_value cast_of(hri_rewrite *r, hr_value v) {
    casting *p = r->user;
    if (r->to->error.code != HR_OK || r->to->values[v].meta.type == p->small ||
        !hr_type_is_real(r->to->values[v].meta.type)) {
        return v;
    }
    if (p->cast[v] == HR_NONE) {
        const char *to = p->small == HR_TYPE_BF16 ? "to=bf16" : "to=f16";
        const hri_node_record *from =
            r->to->values[v].node == HRI_NO_NODE ? NULL : &r->to->nodes[r->to->values[v].node];
        /* Bytes become small numbers in one pass: the same bits, and nobody makes the f32 ones. */
        const hr_value small = from && !strcmp(from->sig.op->name, "normalise")
                                   ? hr_graph_node(r->to, "normalise", from->in, 3, to)
                                   : hr_graph_node(r->to, "cast", &v, 1, to);
        p->cast[v] = small;
        grow(r);
    }
    return p->cast[v];
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
static int is_cast(const hri_rewrite *r, const hri_node_record *n, uint32_t i, hr_value v,
                   int way) {
    const hri_value *value = &r->to->values[v];
    if (way == AS_IS || is_updated(n->sig.op, i) || !hr_type_is_real(value->meta.type)) {
        return 0;
    }
    return way == ALL || value->origin == HR_NONE;
}

static int is_allowed(const hri_rewrite *r, const hri_node_record *n, const hr_value *in, int way) {
    const casting *p = r->user;
    hr_meta metas[HRI_IN_MAX], out[HRI_OUT_MAX] = {{0}};
    for (uint32_t i = 0; i < n->sig.in_count; i++) {
        metas[i] = r->to->values[in[i]].meta;
        metas[i].type = is_cast(r, n, i, in[i], way) ? p->small : metas[i].type;
    }
    hri_infer q = {.attr = n->sig.attr, .in_count = n->sig.in_count, .in = metas, .out = out};
    return n->sig.op->infer(&q) == HR_OK;
}

static hr_value take_node(hri_rewrite *r, const hri_node_record *n, hr_value *in) {
    casting *p = r->user;
    int way = n->sig.op->product ? ALL : AS_IS;
    grow(r); /* inputs and parameters came since the last node */
    while (way < ALL && !is_allowed(r, n, in, way)) {
        way++;
    }
    for (uint32_t i = 0; i < n->sig.in_count && r->to->error.code == HR_OK; i++) {
        if (is_cast(r, n, i, in[i], way)) {
            in[i] = cast_of(r, in[i]);
        } else {
            p->is_read[in[i]] = 1;
        }
    }
    const hr_value out = hri_rewrite_keep(r, n, in);
    grow(r);
    return out;
}

static hr_status apply(const void *given, const hr_graph *from, hr_graph *to, hri_pass_map *map) {
    const options *o = given;
    casting p = {.small = o->to == TO_BF16 ? HR_TYPE_BF16 : HR_TYPE_F16};
    hri_rewrite r = {.from = from, .to = to, .node = take_node, .user = &p};
    const hr_status status = hri_rewrite_graph(&r);
    for (hr_value v = 0; status == HR_OK && v < p.space; v++) {
        p.cast[v] = p.is_read[v] ? HR_NONE : p.cast[v];
    }
    hri_free(p.is_read);
    *map = (hri_pass_map){r.values, from->value_count, p.cast, p.space};
    return status;
}

const hri_pass hri_pass_precision = {.name = "precision",
                                     .help = "matmuls and convolutions in bf16 or f16",
                                     .changes_result = 1,
                                     .fields = fields,
                                     .options_bytes = sizeof(options),
                                     .apply = apply};
