/* A graph as lines of text; see text.h. */
#include "graph/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/number.h"

static hr_status append(hri_chars *out, const char *format, ...) HR_PRINTF(2, 3);
static hr_status append(hri_chars *out, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int n = hri_vsnprintf(NULL, 0, format, args);
    va_end(args);
    hr_status status = n < 0 ? HR_E_INTERNAL : hri_chars_reserve(out, out->count + (size_t)n + 1);
    if (status == HR_OK) {
        hri_vsnprintf(out->items + out->count, (size_t)n + 1, format, again);
        out->count += (size_t)n;
    }
    va_end(again);
    return status;
}

/* The shortest of two texts that is read back to the same number. */
static hr_status write_real(hri_chars *out, double x) {
    char text[40];
    hri_snprintf(text, sizeof text, "%.15g", x);
    return hri_strtod(text, NULL) == x ? append(out, " %s", text) : append(out, " %.17g", x);
}

hr_status hri_graph_text_quote(hri_chars *out, const char *name) {
    hr_status status = append(out, "\"");
    for (const char *p = name; *p && status == HR_OK; p++) {
        const unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\') {
            status = append(out, "\\%c", c);
        } else if (c < 0x20 || c == 0x7f) {
            status = append(out, "\\x%02x", c);
        } else {
            status = hri_chars_push(out, (char)c);
        }
    }
    return status == HR_OK ? append(out, "\"") : status;
}

static hr_status write_meta(hri_chars *out, const hr_meta *meta) {
    char text[256];
    return append(out, " %s", hr_meta_print(meta, text, sizeof text));
}

/* The scope of a name that ends in `last`: what was pushed when it was made. */
static hr_status write_scope(hri_chars *out, const char *name, const char *last) {
    const size_t length = strlen(name), tail = strlen(last);
    char *scope = hri_malloc(length + 1);
    if (!scope) {
        return HR_E_NOMEM_HOST;
    }
    const size_t keep = length > tail ? length - tail - 1 : 0; /* and the dot */
    memcpy(scope, name, keep);
    scope[keep] = '\0';
    hr_status status = append(out, " @");
    status = status == HR_OK ? hri_graph_text_quote(out, scope) : status;
    hri_free(scope);
    return status;
}

static hr_status write_constant(hri_chars *out, const hri_value *value, hri_prose *why) {
    hr_status status = append(out, value->data ? "constant" : "fill");
    status = status == HR_OK ? write_meta(out, &value->meta) : status;
    if (status == HR_OK && !value->data) {
        status = write_real(out, value->init.a);
    } else if (status == HR_OK) {
        const uint64_t bytes = hr_meta_bytes(&value->meta);
        const unsigned char *data = value->data;
        if (bytes > HRI_GRAPH_TEXT_CONSTANT) {
            return hri_prose_set(why, HR_E_UNSUPPORTED,
                                 "%s: a constant of %llu bytes is too large for a graph file "
                                 "(limit %d); make it a persistent value",
                                 value->name, (unsigned long long)bytes, HRI_GRAPH_TEXT_CONSTANT);
        }
        status = append(out, " 0x");
        for (uint64_t i = 0; i < bytes && status == HR_OK; i++) {
            status = append(out, "%02x", data[i]);
        }
    }
    return status == HR_OK ? write_scope(out, value->name, "constant") : status;
}

static const char *const init_names[] = {"constant", "normal", "uniform", "truncated"};

static hr_status write_tags(hri_chars *out, const hr_tags *tags) {
    static const char *const keeps[] = {"", " keep=optimizer", " keep=no"};
    static const char *const decays[] = {" decay=no", "", " decay=yes"};
    hr_status status =
        append(out, "%s%s%s%s", tags->layout == HR_LAYOUT_CONV ? " layout=conv" : "",
               keeps[tags->keep], tags->frozen ? " frozen" : "", decays[tags->decay + 1]);
    if (status == HR_OK && tags->owner != HR_NONE) {
        status = append(out, " owner=%%%u", tags->owner);
    }
    return status;
}

static hr_status write_source(const hr_graph *g, hr_value v, hri_chars *out, hri_prose *why) {
    static const char *const kinds[] = {"", "input ", "", "param ", "state "};
    const hri_value *value = &g->values[v];
    hr_status status = append(out, "%%%u = %s", v, kinds[value->kind]);
    if (status != HR_OK || value->kind == HR_VALUE_CONSTANT) {
        return status == HR_OK ? write_constant(out, value, why) : status;
    }
    status = hri_graph_text_quote(out, value->name);
    status = status == HR_OK ? write_meta(out, &value->meta) : status;
    if (status == HR_OK && value->kind != HR_VALUE_INPUT) {
        status = append(out, " %s", init_names[value->init.kind]);
        status = status == HR_OK ? write_real(out, value->init.a) : status;
        status = status == HR_OK ? write_real(out, value->init.b) : status;
        status = status == HR_OK ? write_tags(out, hri_graph_tags(g, v)) : status;
    }
    return status;
}

static hr_status write_node(const hr_graph *g, const hri_node_record *n, hri_chars *out,
                            hri_prose *why) {
    const hr_op *op = n->sig.op;
    char text[2048];
    hr_status status = HR_OK;
    if (hri_op_find(op->name) != op) {
        return hri_prose_set(why, HR_E_UNSUPPORTED,
                             "%s: a graph with a custom op cannot be "
                             "written to a file",
                             n->name);
    }
    for (uint32_t k = 0; k < n->sig.out_count && status == HR_OK; k++) {
        status = append(out, "%%%u ", n->out + k);
    }
    status = status == HR_OK ? append(out, "= %s(", op->name) : status;
    for (uint32_t i = 0; i < n->sig.in_count && status == HR_OK; i++) {
        status = append(out, "%s%%%u", i ? " " : "", n->in[i]);
    }
    hri_attr_print(op, n->sig.attr, text, sizeof text);
    status = status == HR_OK ? append(out, *text ? ") {%s}" : ")%s", text) : status;
    status = status == HR_OK ? write_scope(out, n->name, op->name) : status;
    if (status == HR_OK && n->phase != HRI_FORWARD) {
        status = append(out, n->phase == HRI_BACKWARD ? " backward" : " update");
    }
    if (status == HR_OK && n->forward) {
        status = append(out, " of=%u", n->forward);
    }
    (void)g;
    return status;
}

hr_status hri_graph_text_write(const hr_graph *g, hri_chars *out, hri_prose *why) {
    hr_status status = HR_OK;
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        const uint32_t node = g->values[v].node;
        if (node != HRI_NO_NODE && g->nodes[node].out != v) {
            continue; /* a further output: its node is written */
        }
        status = node == HRI_NO_NODE ? write_source(g, v, out, why)
                                     : write_node(g, &g->nodes[node], out, why);
        status = status == HR_OK ? append(out, "\n") : status;
    }
    for (uint32_t i = 0; i < g->result_count && status == HR_OK; i++) {
        const hri_result *r = &g->results[i];
        status = append(out, "result ");
        status = status == HR_OK ? hri_graph_text_quote(out, r->name) : status;
        status =
            status == HR_OK ? append(out, " %%%u%s\n", r->value, r->spare ? " spare" : "") : status;
    }
    return status;
}

static hr_status fail(hr_error *why, hr_status status, const hri_prose *prose) {
    if (why) {
        *why = (hr_error){.code = status};
        snprintf(why->message, sizeof why->message, "%s",
                 *prose->text ? prose->text : hr_status_text(status));
    }
    return status;
}

hr_status hr_graph_write(const hr_graph *g, hr_write_fn *write, void *user, hr_error *why) {
    hri_chars text = {0};
    hri_prose prose = {""};
    hr_status status = append(&text, "headroom graph 1\n");
    status = status == HR_OK ? hri_graph_text_write(g, &text, &prose) : status;
    if (status == HR_OK && g->frozen) {
        status = append(&text, "frozen\n");
    }
    if (status == HR_OK) {
        status = write(user, text.items, text.count);
    }
    hri_chars_deinit(&text);
    return status == HR_OK ? HR_OK : fail(why, status, &prose);
}
