/* Building a graph.  Everything here is sticky: after the first mistake the builders return HR_NONE and do nothing.
 *
 * A mistake is reported with the path of the node, the op, and the types and shapes of its inputs, because at freeze
 * the caller is far away from the line that made it. */
#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/number.h"

hr_status hr_graph_create(hr_graph **out) {
    hr_graph *g = hri_calloc(1, sizeof *g);
    if (!g) {
        return HR_E_NOMEM_HOST;
    }
    hri_arena_init(&g->arena, 0);
    g->value_count = 1; /* id 0 is none */
    *out = g;
    return HR_OK;
}

void hr_graph_destroy(hr_graph *g) {
    if (g) {
        hri_arena_deinit(&g->arena);
        hri_strmap_deinit(&g->names);
        hri_intmap_deinit(&g->same);
        hri_free(g->values);
        hri_free(g->nodes);
        hri_free(g->results);
        hri_free(g);
    }
}

void hri_graph_fail(hr_graph *g, hr_status code, const char *format, ...) {
    if (g->error.code != HR_OK) {
        return;
    }
    g->error.code = code;
    va_list args;
    va_start(args, format);
    hri_vsnprintf(g->error.message, sizeof g->error.message, format, args);
    va_end(args);
}

void hr_graph_error(const hr_graph *g, hr_error *out) {
    *out = g->error;
}

/* 1 when nothing more may be built. */
static int stopped(hr_graph *g) {
    if (g->frozen) {
        hri_graph_fail(g, HR_E_BUSY, "the graph is frozen and cannot be changed");
    }
    return g->error.code != HR_OK;
}

static void *keep_aligned(hr_graph *g, size_t bytes, size_t align) {
    void *p = hri_arena_alloc(&g->arena, 1, bytes ? bytes : 1, align);
    if (!p) {
        hri_graph_fail(g, HR_E_NOMEM_HOST, "out of host memory for the graph");
    }
    return p;
}

static void *keep(hr_graph *g, size_t bytes) {
    return keep_aligned(g, bytes, 16);
}

/* A copy of `bytes` that nobody changes, shared with every earlier one that is equal. */
typedef struct shared {
    size_t bytes;
    _Alignas(16) unsigned char data[];
} shared;

static const void *keep_shared(hr_graph *g, const void *data, size_t bytes) {
    const uint64_t key = hri_hash_bytes(data, bytes, (uint32_t)bytes);
    uint64_t found;
    if (hri_intmap_get(&g->same, key, &found)) {
        const shared *old = (const shared *)(uintptr_t)found;
        if (old->bytes == bytes && !memcmp(old->data, data, bytes)) {
            return old->data;
        }
    }
    shared *new = keep(g, sizeof *new + bytes);
    if (!new) {
        return NULL;
    }
    new->bytes = bytes;
    memcpy(new->data, data, bytes);
    if (hri_intmap_put(&g->same, key, (uintptr_t) new) != HR_OK) {
        hri_graph_fail(g, HR_E_NOMEM_HOST, "out of host memory for the graph");
        return NULL;
    }
    return new->data;
}

/* Without what lies between the members and behind the rank: equal metas are then equal bytes. */
static const hr_meta *keep_metas(hr_graph *g, const hr_meta *metas, uint32_t count) {
    hr_meta clean[HRI_IN_MAX > HRI_OUT_MAX ? HRI_IN_MAX : HRI_OUT_MAX];
    memset(clean, 0, count * sizeof *clean);
    for (uint32_t i = 0; i < count; i++) {
        clean[i].type = metas[i].type;
        clean[i].shape.rank = metas[i].shape.rank;
        for (int32_t k = 0; k < metas[i].shape.rank; k++) {
            clean[i].shape.dim[k] = metas[i].shape.dim[k];
        }
    }
    return keep_shared(g, clean, count * sizeof *clean);
}

/* The same for attributes, which their table describes. */
static const void *keep_attr(hr_graph *g, const hr_op *op, const void *attr) {
    hri_attr clean;
    memset(&clean, 0, sizeof clean);
    if (attr && op->fields) {
        for (const hri_field *f = op->fields; f->name; f++) {
            const unsigned char *from = (const unsigned char *)attr + f->offset;
            unsigned char *to = (unsigned char *)&clean + f->offset;
            memcpy(to, from,
                   f->type == HRI_FIELD_BOOL   ? sizeof(bool)
                   : f->type == HRI_FIELD_ENUM ? sizeof(int)
                   : f->type == HRI_FIELD_DIMS ? sizeof(hri_dims)
                                               : sizeof(uint64_t));
        }
    } else if (attr) {
        memcpy(&clean, attr, op->attr_bytes);
    }
    return keep_shared(g, &clean, op->attr_bytes);
}

/* Makes room for `more` items after `count`.  0 on failure, which is then sticky. */
static int room(hr_graph *g, void **items, uint32_t *space, uint32_t count, uint32_t more,
                size_t size) {
    if (count + more <= *space) {
        return 1;
    }
    const uint32_t wanted = (count + more) * 2 + 64;
    void *p = hri_realloc(*items, (size_t)wanted * size);
    if (!p) {
        hri_graph_fail(g, HR_E_NOMEM_HOST, "out of host memory for the graph");
        return 0;
    }
    *items = p;
    *space = wanted;
    return 1;
}

/* ---- names ---- */

void hr_graph_push(hr_graph *g, const char *part) {
    if (stopped(g)) {
        return;
    }
    const size_t at = strlen(g->path);
    const size_t limit = sizeof g->path_ends / sizeof g->path_ends[0];
    if (!*part || g->depth >= limit || at + strlen(part) + 2 > sizeof g->path) {
        hri_graph_fail(g, HR_E_INVALID,
                       "scope \"%s\" in \"%s\": the path is empty, too long or too deep", part,
                       g->path);
        return;
    }
    g->path_ends[g->depth++] = (uint32_t)at;
    snprintf(g->path + at, sizeof g->path - at, "%s%s", at ? "." : "", part);
}

void hr_graph_pop(hr_graph *g) {
    if (stopped(g)) {
        return;
    }
    if (g->depth == 0) {
        hri_graph_fail(g, HR_E_INVALID, "hr_graph_pop without hr_graph_push");
        return;
    }
    g->path[g->path_ends[--g->depth]] = '\0';
}

static const char *full_name(hr_graph *g, const char *name) {
    const int absolute = *name == '/';
    const char *path = absolute ? "" : g->path;
    name += absolute;
    const size_t bytes = strlen(path) + strlen(name) + 2;
    char *full = keep_aligned(g, bytes, 1);
    if (full) {
        snprintf(full, bytes, "%s%s%s", path, *path && *name ? "." : "", name);
    }
    return full;
}

/* ---- values ---- */

static hr_value add_value(hr_graph *g, const hri_value *value) {
    void *items = g->values;
    if (!room(g, &items, &g->value_space, g->value_count, 1, sizeof *g->values)) {
        return HR_NONE;
    }
    g->values = items;
    g->values[g->value_count] = *value;
    return g->value_count++;
}

/* Inputs and persistent values: checks meta and name. */
static hr_value add_source(hr_graph *g, hr_value_kind kind, const char *name, hr_type type,
                           hr_shape shape, hr_init init) {
    if (stopped(g)) {
        return HR_NONE;
    }
    hri_value value = {.meta = {type, shape}, .kind = kind, .node = HRI_NO_NODE, .init = init};
    char text[256];
    hr_meta_print(&value.meta, text, sizeof text);
    const hr_status status = hr_meta_check(&value.meta, NULL);
    if (status != HR_OK) {
        hri_graph_fail(g, status, "%s%s%s: %s is not a valid shape", g->path, *g->path ? "." : "",
                       name, text);
        return HR_NONE;
    }
    value.name = full_name(g, name);
    if (!value.name) {
        return HR_NONE;
    }
    if (!*value.name) {
        hri_graph_fail(g, HR_E_INVALID, "an input or parameter has no name (%s)", text);
        return HR_NONE;
    }
    if (hri_strmap_get(&g->names, value.name, NULL)) {
        hri_graph_fail(g, HR_E_EXISTS, "two values are named \"%s\" (%s)", value.name, text);
        return HR_NONE;
    }
    if (kind != HR_VALUE_INPUT) {
        value.origin = g->value_count;
    }
    const hr_value id = add_value(g, &value);
    if (id != HR_NONE && hri_strmap_put(&g->names, value.name, id) != HR_OK) {
        hri_graph_fail(g, HR_E_NOMEM_HOST, "out of host memory for the graph");
        return HR_NONE;
    }
    return id;
}

/* The input as bytes, and what the model asked for as the result of the first node (pixels.h). */
static hr_value add_pixels(hr_graph *g, const char *name, hr_shape shape) {
    const hri_pixels *p = g->pixels;
    float scale[HRI_PIXELS_CHANNELS], shift[HRI_PIXELS_CHANNELS];
    for (uint32_t i = 0; i < p->channels; i++) {
        scale[i] = hri_pixels_scale(p, i);
        shift[i] = hri_pixels_shift(p, i);
    }
    const hr_shape channels = hr_shape_1(p->channels);
    const hr_value bytes =
        add_source(g, HR_VALUE_INPUT, name, HR_TYPE_U8, shape, hr_init_constant(0.0));
    const hr_value by = hr_graph_constant(g, HR_TYPE_F32, channels, scale);
    const hr_value plus = hr_graph_constant(g, HR_TYPE_F32, channels, shift);
    return HRI_NODE(g, "normalise", NULL, bytes, by, plus);
}

static int is_pixels(const hr_graph *g, const char *name, hr_type type, const hr_shape *shape) {
    const hri_pixels *p = g->pixels;
    if (*name == '/') {
        name++;
    } else if (g->path[0]) {
        return 0; /* an input in a scope has another name */
    }
    return p && p->channels && p->channels <= HRI_PIXELS_CHANNELS && type == HR_TYPE_F32 &&
           !strcmp(name, p->name) && shape->rank > 1 &&
           shape->dim[shape->rank - 1] == (int64_t)p->channels;
}

hr_value hr_graph_input(hr_graph *g, const char *name, hr_type type, hr_shape shape) {
    return is_pixels(g, name, type, &shape)
               ? add_pixels(g, name, shape)
               : add_source(g, HR_VALUE_INPUT, name, type, shape, hr_init_constant(0.0));
}

hr_value hr_graph_param(hr_graph *g, const char *name, hr_type type, hr_shape shape, hr_init init) {
    return add_source(g, HR_VALUE_PARAM, name, type, shape, init);
}

hr_value hr_graph_state(hr_graph *g, const char *name, hr_type type, hr_shape shape, hr_init init) {
    return add_source(g, HR_VALUE_STATE, name, type, shape, init);
}

static hr_value add_constant(hr_graph *g, hr_type type, hr_shape shape, const void *data,
                             double number) {
    if (stopped(g)) {
        return HR_NONE;
    }
    hri_value value = {.meta = {type, shape},
                       .kind = HR_VALUE_CONSTANT,
                       .node = HRI_NO_NODE,
                       .name = full_name(g, "constant"),
                       .init = hr_init_constant(number)};
    uint64_t bytes = 0;
    char text[256];
    const hr_status status = hr_meta_check(&value.meta, &bytes);
    if (status != HR_OK) {
        hri_graph_fail(g, status, "%s: constant: %s is not a valid shape", g->path,
                       hr_meta_print(&value.meta, text, sizeof text));
        return HR_NONE;
    }
    if (data) {
        void *copy = keep(g, bytes);
        if (!copy) {
            return HR_NONE;
        }
        memcpy(copy, data, bytes);
        value.data = copy;
    }
    return value.name ? add_value(g, &value) : HR_NONE;
}

hr_value hr_graph_constant(hr_graph *g, hr_type type, hr_shape shape, const void *data) {
    if (!data) {
        hri_graph_fail(g, HR_E_INVALID, "%s: the constant has no contents", g->path);
    }
    return add_constant(g, type, shape, data, 0.0);
}

hr_value hr_graph_fill(hr_graph *g, hr_type type, hr_shape shape, double number) {
    return add_constant(g, type, shape, NULL, number);
}

/* ---- nodes ---- */

/* "layer3.0.conv2.conv2d (f32[8,8,8,64], f32[64,3,3,64])" */
static void describe(const hr_graph *g, const hr_op *op, const hr_value *in, uint32_t count,
                     char *buf, size_t size) {
    char meta[256];
    int n = snprintf(buf, size, "%s%s%s (", g->path, *g->path ? "." : "", op->name);
    size_t at = n > 0 ? (size_t)n : 0;
    for (uint32_t i = 0; i < count && at < size; i++) {
        const int there = in[i] != HR_NONE && in[i] < g->value_count;
        n = snprintf(buf + at, size - at, "%s%s", i ? ", " : "",
                     there ? hr_meta_print(&g->values[in[i]].meta, meta, sizeof meta) : "none");
        at += n > 0 ? (size_t)n : 0;
    }
    if (at < size) {
        snprintf(buf + at, size - at, ")");
    }
}

/* Checks the inputs and asks the shape rule; 0 on failure, which is then sticky. */
static int infer(hr_graph *g, const hr_op *op, const hr_value *in, uint32_t count, const void *attr,
                 hr_meta *in_meta, hr_meta *out_meta) {
    char where[600];
    describe(g, op, in, count, where, sizeof where);
    if (count < op->in_min || count > op->in_max) {
        hri_graph_fail(g, HR_E_INVALID, "%s: %u inputs given, %d to %d expected", where, count,
                       op->in_min, op->in_max);
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (in[i] == HR_NONE || in[i] >= g->value_count) {
            hri_graph_fail(g, HR_E_INVALID, "%s: input %u is not a value of this graph", where, i);
            return 0;
        }
        in_meta[i] = g->values[in[i]].meta;
    }
    hri_infer c = {.attr = attr, .in_count = count, .in = in_meta, .out = out_meta};
    hr_status status = op->infer(&c);
    if (status != HR_OK) {
        hri_graph_fail(g, status, "%s: %s", where, *c.message ? c.message : hr_status_text(status));
        return 0;
    }
    for (uint32_t k = 0; k < op->out_count; k++) {
        status = hr_meta_check(&out_meta[k], NULL);
        if (status != HR_OK) {
            char text[256];
            hri_graph_fail(g, status, "%s: output %u would have the invalid type %s", where, k,
                           hr_meta_print(&out_meta[k], text, sizeof text));
            return 0;
        }
    }
    return 1;
}

/* The memory that output k of the node takes over, or HR_NONE. */
static hr_value origin_of(hr_graph *g, const hr_op *op, const hr_value *in, uint32_t count,
                          uint32_t k) {
    const uint32_t i = op->updates[k];
    if (i == 0 || i > count) {
        return HR_NONE;
    }
    const hr_value origin = g->values[in[i - 1]].origin;
    if (origin == HR_NONE) {
        char where[600];
        describe(g, op, in, count, where, sizeof where);
        hri_graph_fail(g, HR_E_INVALID, "%s: input %u is updated but is not persistent", where,
                       i - 1);
    }
    return origin;
}

hr_value hri_graph_add(hr_graph *g, const hr_op *op, const hr_value *in, uint32_t count,
                       const void *attr) {
    hr_meta in_meta[HRI_IN_MAX], out_meta[HRI_OUT_MAX] = {{0}};
    if (stopped(g) || !infer(g, op, in, count, attr, in_meta, out_meta)) {
        return HR_NONE;
    }
    void *items = g->nodes;
    if (!room(g, &items, &g->node_space, g->node_count, 1, sizeof *g->nodes)) {
        return HR_NONE;
    }
    g->nodes = items;
    items = g->values;
    if (!room(g, &items, &g->value_space, g->value_count, op->out_count, sizeof *g->values)) {
        return HR_NONE;
    }
    g->values = items;

    const void *attr_copy = keep_attr(g, op, attr);
    hr_value *in_copy = keep_aligned(g, count * sizeof *in, sizeof *in);
    const hr_meta *in_metas = keep_metas(g, in_meta, count);
    const hr_meta *out_metas = keep_metas(g, out_meta, op->out_count);
    const char *name = full_name(g, op->name);
    hr_value origin[HRI_OUT_MAX] = {0};
    hri_phase phase = g->phase;
    for (uint32_t k = 0; k < op->out_count; k++) {
        origin[k] = origin_of(g, op, in, count, k);
        phase = origin[k] != HR_NONE ? HRI_UPDATE : phase;
    }
    if (g->error.code != HR_OK) {
        return HR_NONE;
    }
    memcpy(in_copy, in, count * sizeof *in);

    const hr_value first = g->value_count;
    for (uint32_t k = 0; k < op->out_count; k++) {
        g->values[g->value_count++] = (hri_value){.meta = out_meta[k],
                                                  .kind = HR_VALUE_NODE,
                                                  .node = g->node_count,
                                                  .origin = origin[k],
                                                  .name = name};
    }
    g->nodes[g->node_count] = (hri_node_record){
        .counter = g->node_count,
        .sig = {op, attr_copy, count, op->out_count, in_metas, out_metas},
        .in = in_copy,
        .out = first,
        .name = name,
        .phase = phase,
        .forward = g->forward,
    };
    g->node_count++;
    return first;
}

void hri_graph_become(hr_graph *g, uint32_t node, const hr_op *op, const void *attr) {
    hri_node_record *n = &g->nodes[node];
    hr_meta in_meta[HRI_IN_MAX], out_meta[HRI_OUT_MAX] = {{0}};
    if (stopped(g) || !infer(g, op, n->in, n->sig.in_count, attr, in_meta, out_meta)) {
        return;
    }
    n->sig.op = op;
    n->sig.attr = keep_attr(g, op, attr);
    n->sig.in = keep_metas(g, in_meta, n->sig.in_count);
    n->sig.out = keep_metas(g, out_meta, op->out_count);
    for (uint32_t k = 0; k < op->out_count; k++) {
        g->values[n->out + k].meta = out_meta[k];
    }
}

hr_value hr_graph_node(hr_graph *g, const char *name, const hr_value *inputs, size_t count,
                       const char *attributes) {
    if (stopped(g)) {
        return HR_NONE;
    }
    const hr_op *op = hri_op_find(name);
    if (!op) {
        hri_graph_fail(g, HR_E_NOT_FOUND, "%s: unknown op \"%s\"", g->path, name);
        return HR_NONE;
    }
    if (count > HRI_IN_MAX) {
        hri_graph_fail(g, HR_E_INVALID, "%s.%s: %zu inputs, more than any op has", g->path, name,
                       count);
        return HR_NONE;
    }
    hri_attr attr;
    hri_prose why = {0};
    const hr_status status = hri_attr_parse(op, attributes, &attr, &why);
    if (status != HR_OK) {
        char where[600];
        describe(g, op, inputs, (uint32_t)count, where, sizeof where);
        hri_graph_fail(g, status, "%s: attributes \"%s\": %s", where, attributes ? attributes : "",
                       why.text);
        return HR_NONE;
    }
    return hri_graph_add(g, op, inputs, (uint32_t)count, &attr);
}

hr_value hr_graph_output(hr_graph *g, hr_value value, uint32_t index) {
    if (g->error.code != HR_OK) {
        return HR_NONE;
    }
    if (value == HR_NONE || value >= g->value_count || g->values[value].node == HRI_NO_NODE ||
        index >= g->nodes[g->values[value].node].sig.out_count) {
        hri_graph_fail(g, HR_E_INVALID, "%s: no output %u of value %u", g->path, index, value);
        return HR_NONE;
    }
    return g->nodes[g->values[value].node].out + index;
}

void hr_graph_result(hr_graph *g, hr_value value, const char *name) {
    if (stopped(g)) {
        return;
    }
    if (value == HR_NONE || value >= g->value_count) {
        hri_graph_fail(g, HR_E_INVALID, "result \"%s\" is not a value of this graph", name);
        return;
    }
    void *items = g->results;
    const char *full = full_name(g, name);
    if (full && room(g, &items, &g->result_space, g->result_count, 1, sizeof *g->results)) {
        g->results = items;
        g->results[g->result_count++] = (hri_result){.value = value, .name = full};
    }
}

void hri_graph_result_spare(hr_graph *g, hr_value value, const char *name) {
    const uint32_t count = g->result_count;
    hr_graph_result(g, value, name);
    if (g->result_count > count) {
        g->results[count].spare = 1;
    }
}
