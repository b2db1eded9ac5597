/* The printer: a graph as text, one line a node, or as Graphviz dot.
 *
 *   %7 f32[16,10] = matmul(%3, %5) transpose-b  # fc.matmul
 *
 * Gradient nodes are marked with ' and dead ones with -. */
#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/number.h"

typedef struct sink {
    void (*write)(void *user, const char *text);
    void *user;
} sink;

static void emit(const sink *s, const char *format, ...) HR_PRINTF(2, 3);
static void emit(const sink *s, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    hri_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    s->write(s->user, text);
}

static const char *kind_name(hr_value_kind kind) {
    static const char *const names[] = {"node", "input", "constant", "param", "state"};
    return names[kind];
}

static void print_source(const hr_graph *g, hr_value v, const sink *s) {
    const hri_value *value = &g->values[v];
    char meta[256];
    emit(s, "%%%u %s = %s", v, hr_meta_print(&value->meta, meta, sizeof meta),
         kind_name(value->kind));
    if (value->kind == HR_VALUE_CONSTANT && !value->data) {
        emit(s, " %g", value->init.a);
    }
    emit(s, "  # %s\n", value->name);
}

static void print_node(const hr_graph *g, const hri_node_record *n, const sink *s) {
    char text[512];
    for (uint32_t k = 0; k < n->sig.out_count; k++) {
        emit(s, "%s%%%u %s", k ? ", " : "", n->out + k,
             hr_meta_print(&n->sig.out[k], text, sizeof text));
        if (g->values[n->out + k].origin != HR_NONE) {
            emit(s, " over %%%u", g->values[n->out + k].origin);
        }
    }
    emit(s, " = %s(", n->sig.op->name);
    for (uint32_t i = 0; i < n->sig.in_count; i++) {
        emit(s, "%s%%%u", i ? ", " : "", n->in[i]);
    }
    hri_attr_print(n->sig.op, n->sig.attr, text, sizeof text);
    emit(s, ")%s%s  # %s%s%s\n", *text ? " " : "", text, n->name,
         n->phase == HRI_BACKWARD ? "'" : "", g->frozen && !n->live ? " -" : "");
}

static void print_text(const hr_graph *g, const sink *s) {
    for (hr_value v = 1; v < g->value_count; v++) {
        const uint32_t node = g->values[v].node;
        if (node == HRI_NO_NODE) {
            print_source(g, v, s);
        } else if (g->nodes[node].out == v) {
            print_node(g, &g->nodes[node], s);
        }
    }
    for (uint32_t i = 0; i < g->result_count; i++) {
        emit(s, "result %s = %%%u\n", g->results[i].name, g->results[i].value);
    }
}

static void print_dot(const hr_graph *g, const sink *s) {
    char meta[256];
    emit(s, "digraph headroom {\n  node [shape=box, fontname=\"sans-serif\"];\n");
    for (hr_value v = 1; v < g->value_count; v++) {
        if (g->values[v].node == HRI_NO_NODE) {
            emit(s, "  v%u [shape=oval, label=\"%s\\n%s\"];\n", v, g->values[v].name,
                 hr_meta_print(&g->values[v].meta, meta, sizeof meta));
        }
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        const hri_node_record *n = &g->nodes[i];
        if (g->frozen && !n->live) {
            continue;
        }
        emit(s, "  n%u [label=\"%s\"%s];\n", i, n->name,
             n->phase == HRI_BACKWARD ? ", style=dashed" : "");
        for (uint32_t k = 0; k < n->sig.in_count; k++) {
            const uint32_t from = g->values[n->in[k]].node;
            emit(s, "  %c%u -> n%u [label=\"%s\"];\n", from == HRI_NO_NODE ? 'v' : 'n',
                 from == HRI_NO_NODE ? n->in[k] : from, i,
                 hr_meta_print(&n->sig.in[k], meta, sizeof meta));
        }
    }
    emit(s, "}\n");
}

void hr_graph_print(const hr_graph *g, hr_graph_format format,
                    void (*write)(void *user, const char *text), void *user) {
    const sink s = {write, user};
    (format == HR_GRAPH_DOT ? print_dot : print_text)(g, &s);
}
