/* Lines of text as a graph; see text.h.  Everything is built by the ordinary builders, so a text can say nothing that a
 * program could not; a wrong one is refused with the number of its line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/number.h"
#include "graph/text.h"

enum { MOST_VALUES = 1 << 20, MOST_NODES = 1 << 19 };

void hri_graph_text_open(hri_graph_text *t, const char *text, size_t bytes) {
    *t = (hri_graph_text){.at = text, .end = text + bytes};
}

void hri_graph_text_close(hri_graph_text *t) {
    hri_chars_deinit(&t->copy);
}

static hr_status wrong(const hri_graph_text *t, hr_status status, const char *text,
                       hri_prose *why) {
    return hri_prose_set(why, status, "line %zu: %s", t->line, text);
}

/* ---- pieces ---- */

static void skip_spaces(char **at) {
    *at += strspn(*at, " \t");
}

int hri_graph_text_word(char **at, const char *word) {
    const size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0) {
        return 0;
    }
    *at += length;
    skip_spaces(at);
    return 1;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

const char *hri_graph_text_string(char **at) {
    char *from = *at, *to = *at + 1;
    if (*from++ != '"') {
        return NULL;
    }
    const char *text = to;
    for (; *from && *from != '"'; from++) {
        char c = *from;
        if (c == '\\' && (from[1] == '"' || from[1] == '\\')) {
            c = *++from;
        } else if (c == '\\') {
            const int high = from[1] == 'x' ? hex_digit(from[2]) : -1;
            const int low = high >= 0 ? hex_digit(from[3]) : -1;
            if (low < 0 || high * 16 + low == 0) {
                return NULL;
            }
            c = (char)(high * 16 + low);
            from += 3;
        }
        *to++ = c;
    }
    if (!*from) {
        return NULL;
    }
    *at = from + 1;
    skip_spaces(at);
    *to = '\0';
    return text;
}

int hri_graph_text_integer(char **at, int64_t *out) {
    char *end;
    errno = 0;
    if ((**at < '0' || **at > '9') && (**at != '-' || (*at)[1] < '0' || (*at)[1] > '9')) {
        return 0;
    }
    const long long n = strtoll(*at, &end, 10);
    if (errno) {
        return 0;
    }
    *at = end;
    skip_spaces(at);
    *out = n;
    return 1;
}

static int read_real(char **at, double *out) {
    char *end;
    const double x = hri_strtod(*at, &end);
    if (end == *at) {
        return 0;
    }
    *at = end;
    skip_spaces(at);
    *out = x;
    return 1;
}

static int read_id(char **at, hr_value *out) {
    int64_t id;
    char *p = *at;
    if (*p++ != '%' || !hri_graph_text_integer(&p, &id) || id < 1 || id > MOST_VALUES) {
        return 0;
    }
    *at = p;
    *out = (hr_value)id;
    return 1;
}

/* "f32[16,224,224,3]" */
static int read_meta(char **at, hr_meta *out) {
    char name[8] = "";
    hr_meta meta = {0};
    char *p = *at;
    const size_t length = strcspn(p, "[");
    if (length >= sizeof name || p[length] != '[') {
        return 0;
    }
    memcpy(name, p, length);
    p += length + 1;
    if (hr_type_find(name, &meta.type) != HR_OK) {
        return 0;
    }
    while (*p != ']') {
        if (meta.shape.rank == HR_RANK_MAX ||
            !hri_graph_text_integer(&p, &meta.shape.dim[meta.shape.rank])) {
            return 0;
        }
        meta.shape.rank++;
        if (*p == ',') {
            p++;
        } else if (*p != ']') {
            return 0;
        }
    }
    *at = p + 1;
    skip_spaces(at);
    *out = meta;
    return 1;
}

/* ---- values ---- */

static int read_init(char **at, hr_init *out) {
    static const char *const names[] = {"constant", "normal", "uniform", "truncated"};
    for (int i = 0; i < 4; i++) {
        if (hri_graph_text_word(at, names[i])) {
            out->kind = (hr_init_kind)i;
            return read_real(at, &out->a) && read_real(at, &out->b);
        }
    }
    return 0;
}

static int read_tags(char **at, hr_tags *out, int *any) {
    *any = **at != '\0';
    *out = (hr_tags){.size = sizeof *out};
    while (**at) {
        if (hri_graph_text_word(at, "layout=conv")) {
            out->layout = HR_LAYOUT_CONV;
        } else if (hri_graph_text_word(at, "keep=optimizer")) {
            out->keep = HR_KEEP_OPTIMIZER;
        } else if (hri_graph_text_word(at, "keep=no")) {
            out->keep = HR_KEEP_NOT;
        } else if (hri_graph_text_word(at, "frozen")) {
            out->frozen = 1;
        } else if (hri_graph_text_word(at, "decay=no")) {
            out->decay = -1;
        } else if (hri_graph_text_word(at, "decay=yes")) {
            out->decay = 1;
        } else if (!hri_graph_text_word(at, "owner=") || !read_id(at, &out->owner)) {
            return 0;
        }
    }
    return 1;
}

/* The name as the builders take it: from the root. */
static hr_value add_named(hr_graph *g, hr_value_kind kind, const char *name, const hr_meta *meta,
                          hr_init init) {
    return kind == HR_VALUE_INPUT   ? hr_graph_input(g, name, meta->type, meta->shape)
           : kind == HR_VALUE_PARAM ? hr_graph_param(g, name, meta->type, meta->shape, init)
                                    : hr_graph_state(g, name, meta->type, meta->shape, init);
}

static hr_status add_source(hri_graph_text *t, hr_graph *g, hr_value_kind kind, char *at,
                            hr_value id, hri_prose *why) {
    hr_meta meta;
    hr_init init = hr_init_constant(0);
    hr_tags tags;
    int any;
    const char *name = hri_graph_text_string(&at);
    if (!name || *name == '/' || !read_meta(&at, &meta) ||
        (kind != HR_VALUE_INPUT && !read_init(&at, &init)) || !read_tags(&at, &tags, &any) ||
        (any && kind == HR_VALUE_INPUT)) {
        return wrong(t, HR_E_FORMAT, "expected a name, a type with its shape, and an initializer",
                     why);
    }
    if (add_named(g, kind, name, &meta, init) != id && g->error.code == HR_OK) {
        return wrong(t, HR_E_FORMAT, "ids must be consecutive, starting at %1", why);
    }
    if (any) {
        hr_graph_set_tags(g, id, &tags);
    }
    return HR_OK;
}

/* Runs `add` in the scope that the text gives; "" is the root. */
static int enter(hr_graph *g, const char *scope) {
    if (*scope) {
        hr_graph_push(g, scope);
    }
    return *scope != '\0';
}

static void leave(hr_graph *g, int entered) {
    if (entered) {
        hr_graph_pop(g);
    }
}

static hr_status add_constant(hri_graph_text *t, hr_graph *g, int filled, char *at, hr_value id,
                              hri_prose *why) {
    hr_meta meta;
    double number = 0;
    uint64_t bytes = 0;
    const char *scope = NULL;
    if (!read_meta(&at, &meta) || hr_meta_check(&meta, &bytes) != HR_OK ||
        (filled && !read_real(&at, &number))) {
        return wrong(t, HR_E_FORMAT, "the constant has an invalid type, shape or value", why);
    }
    unsigned char *data = (unsigned char *)at; /* in place: two digits become one byte */
    if (!filled) {
        if (bytes > HRI_GRAPH_TEXT_CONSTANT || !hri_graph_text_word(&at, "0x") ||
            strlen(at) < bytes * 2) {
            return wrong(t, HR_E_FORMAT, "the constant's bytes do not match its shape", why);
        }
        data = (unsigned char *)at;
        for (uint64_t i = 0; i < bytes; i++, at += 2) {
            const int high = hex_digit(at[0]), low = hex_digit(at[1]);
            if (high < 0 || low < 0) {
                return wrong(t, HR_E_FORMAT, "a constant must be written in hexadecimal", why);
            }
            data[i] = (unsigned char)(high * 16 + low);
        }
        skip_spaces(&at);
    }
    if (!hri_graph_text_word(&at, "@") || !(scope = hri_graph_text_string(&at)) || *at) {
        return wrong(t, HR_E_FORMAT, "expected @\"scope\" after a constant", why);
    }
    const int entered = enter(g, scope);
    /* the copy that the graph takes is aligned; this one need not be */
    const hr_value v = filled ? hr_graph_fill(g, meta.type, meta.shape, number)
                              : hr_graph_constant(g, meta.type, meta.shape, data);
    leave(g, entered);
    return v == id || g->error.code != HR_OK
               ? HR_OK
               : wrong(t, HR_E_FORMAT, "ids must be consecutive, starting at %1", why);
}

/* ---- nodes ---- */

typedef struct node_line {
    hr_value first;
    uint32_t outputs, inputs;
    hr_value in[HRI_IN_MAX];
    char *op, *attributes;
    const char *scope;
    hri_phase phase;
    int64_t forward;
} node_line;

/* Behind "%3 %4 = ": conv2d(%1 %2) {pad=2} @"conv1" backward of=17 */
static int read_node(char *at, node_line *out) {
    const size_t length = strcspn(at, "(");
    out->op = at;
    if (at[length] != '(') {
        return 0;
    }
    at[length] = '\0';
    at += length + 1;
    while (*at != ')') {
        if (out->inputs == HRI_IN_MAX || !read_id(&at, &out->in[out->inputs])) {
            return 0;
        }
        out->inputs++;
    }
    at++;
    skip_spaces(&at);
    out->attributes = NULL;
    if (*at == '{') {
        const size_t inside = strcspn(at, "}");
        if (!at[inside]) {
            return 0;
        }
        out->attributes = at + 1;
        at[inside] = '\0';
        at += inside + 1;
        skip_spaces(&at);
    }
    if (!hri_graph_text_word(&at, "@") || !(out->scope = hri_graph_text_string(&at))) {
        return 0;
    }
    out->phase = hri_graph_text_word(&at, "backward") ? HRI_BACKWARD
                 : hri_graph_text_word(&at, "update") ? HRI_UPDATE
                                                      : HRI_FORWARD;
    if (hri_graph_text_word(&at, "of=") && !hri_graph_text_integer(&at, &out->forward)) {
        return 0;
    }
    return *at == '\0';
}

static hr_status attributes_of(hri_graph_text *t, const hr_op *op, const node_line *n,
                               const hri_graph_text_options *o, hri_attr *out, hri_prose *why) {
    hri_prose inner = {""};
    const hr_status status = hri_attr_parse(op, n->attributes, out, &inner);
    if (status != HR_OK) {
        return hri_prose_set(why, status == HR_E_NOT_FOUND ? HR_E_FORMAT : status,
                             "line %zu: %s: %s", t->line, op->name, inner.text);
    }
    const int off = o && o->off_op && !strcmp(o->off_op, op->name);
    for (const hri_field *f = off ? op->fields : NULL; f && f->name; f++) {
        if (f->type == HRI_FIELD_BOOL && !strcmp(f->name, o->off_attribute)) {
            memset(out->bytes + f->offset, 0, sizeof(bool));
        }
    }
    return HR_OK;
}

static const hr_custom *find_custom(const hri_graph_text_options *o, const char *name) {
    for (size_t i = 0; o && i < o->custom_count; i++) {
        if (!strcmp(hri_custom_op(o->customs[i])->name, name)) {
            return o->customs[i];
        }
    }
    return NULL;
}

static hr_status unknown_op(const hri_graph_text *t, const char *name,
                            const hri_graph_text_options *o, hri_prose *why) {
    return hri_prose_set(why, HR_E_NOT_FOUND, "line %zu: unknown op \"%.60s\"%s", t->line, name,
                         o && o->customs_named
                             ? "; a custom op can only be run by the program that defines it "
                               "(for ops of PyTorch: headroom.fit and headroom.plan in Python)"
                             : "");
}

static hr_status add_node(hri_graph_text *t, hr_graph *g, const node_line *n,
                          const hri_graph_text_options *o, hri_prose *why) {
    const hr_op *op = hri_op_find(n->op);
    const hr_custom *custom = op ? NULL : find_custom(o, n->op);
    hri_attr attr;
    if (!op && !custom) {
        return unknown_op(t, n->op, o, why);
    }
    op = op ? op : hri_custom_op(custom);
    if (op->out_count != n->outputs || g->node_count >= MOST_NODES || n->forward < 0 ||
        n->forward > g->node_count) {
        return wrong(t, HR_E_FORMAT, "wrong number of outputs for this op", why);
    }
    if (custom && n->attributes) {
        return wrong(t, HR_E_FORMAT, "a custom op has no attributes", why);
    }
    const hr_status status = custom ? HR_OK : attributes_of(t, op, n, o, &attr, why);
    if (status != HR_OK) {
        return status;
    }
    const hri_phase phase = g->phase;
    const uint32_t forward = g->forward;
    g->phase = n->phase;
    g->forward = (uint32_t)n->forward;
    const int entered = enter(g, n->scope);
    const hr_value v =
        hri_graph_add(g, op, n->in, n->inputs, custom ? (const void *)&custom : &attr);
    leave(g, entered);
    g->phase = phase;
    g->forward = forward;
    return v == n->first || g->error.code != HR_OK
               ? HR_OK
               : wrong(t, HR_E_FORMAT, "ids must be consecutive, starting at %1", why);
}

/* ---- lines ---- */

static hr_status add_result(hri_graph_text *t, hr_graph *g, char *at, hri_prose *why) {
    hr_value v;
    const char *name = hri_graph_text_string(&at);
    if (!name || !*name || !read_id(&at, &v)) {
        return wrong(t, HR_E_FORMAT, "expected a name and a value after \"result\"", why);
    }
    const int spare = hri_graph_text_word(&at, "spare");
    if (*at) {
        return wrong(t, HR_E_FORMAT, "unexpected text after a result", why);
    }
    (spare ? hri_graph_result_spare : hr_graph_result)(g, v, name);
    return HR_OK;
}

static hr_status add_value(hri_graph_text *t, hr_graph *g, char *at,
                           const hri_graph_text_options *o, hri_prose *why) {
    static const char *const kinds[] = {"input ", "param ", "state "};
    static const hr_value_kind of[] = {HR_VALUE_INPUT, HR_VALUE_PARAM, HR_VALUE_STATE};
    node_line n = {.first = HR_NONE};
    hr_value v;
    while (read_id(&at, &v)) {
        if (n.outputs == HRI_OUT_MAX || (n.outputs && v != n.first + n.outputs)) {
            return wrong(t, HR_E_FORMAT, "ids must be consecutive, starting at %1", why);
        }
        n.first = n.outputs ? n.first : v;
        n.outputs++;
    }
    if (!n.outputs || !hri_graph_text_word(&at, "=") || g->value_count >= MOST_VALUES) {
        return wrong(t, HR_E_FORMAT, "expected \"%id =\"", why);
    }
    for (int i = 0; i < 3 && n.outputs == 1; i++) {
        if (hri_graph_text_word(&at, kinds[i])) {
            return add_source(t, g, of[i], at, n.first, why);
        }
    }
    const int filled = n.outputs == 1 && hri_graph_text_word(&at, "fill ");
    if (filled || (n.outputs == 1 && hri_graph_text_word(&at, "constant "))) {
        return add_constant(t, g, filled, at, n.first, why);
    }
    if (!read_node(at, &n)) {
        return wrong(t, HR_E_FORMAT, "expected op(inputs) {attributes} @\"scope\"", why);
    }
    return add_node(t, g, &n, o, why);
}

int hri_graph_text_is_graph(const hri_graph_text *t) {
    return t->copy.count && (t->copy.items[0] == '%' || !strncmp(t->copy.items, "result ", 7));
}

hr_status hri_graph_text_add(hri_graph_text *t, hr_graph *g, const hri_graph_text_options *o,
                             hri_prose *why) {
    char *at = t->copy.items;
    const hr_status status = hri_graph_text_word(&at, "result ") ? add_result(t, g, at, why)
                                                                 : add_value(t, g, at, o, why);
    if (status == HR_OK && g->error.code != HR_OK) {
        return hri_prose_set(why, g->error.code, "line %zu: %s", t->line, g->error.message);
    }
    return status;
}

/* ---- a whole graph ---- */

static hr_status read_graph(hri_graph_text *t, hr_graph *g, hri_prose *why) {
    int frozen = 0;
    hr_status status = hri_graph_text_next(t, 0, why);
    if (status == HR_E_EOF || (status == HR_OK && strcmp(t->copy.items, "headroom graph 1") != 0)) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "not a graph file: its first line is not \"headroom "
                             "graph 1\"");
    }
    while (status == HR_OK && (status = hri_graph_text_next(t, 0, why)) == HR_OK) {
        if (frozen) {
            return wrong(t, HR_E_FORMAT, "unexpected text after \"frozen\"", why);
        }
        if (hri_graph_text_is_graph(t)) {
            status = hri_graph_text_add(t, g, NULL, why);
        } else if (!strcmp(t->copy.items, "frozen")) {
            frozen = 1;
        } else {
            return wrong(t, HR_E_FORMAT, "expected a value or a result", why);
        }
    }
    status = status == HR_E_EOF ? HR_OK : status;
    if (status == HR_OK && frozen) {
        status = hr_graph_freeze(g);
        if (status != HR_OK) {
            hri_prose_set(why, status, "%s", g->error.message);
        }
    }
    return status;
}

hr_status hr_graph_parse(const char *text, size_t bytes, hr_graph **out, hr_error *why) {
    hr_graph *g = NULL;
    hri_graph_text t;
    hri_prose prose = {""};
    hri_graph_text_open(&t, text, bytes);
    hr_status status = hr_graph_create(&g);
    if (status == HR_OK) {
        status = read_graph(&t, g, &prose);
    }
    hri_graph_text_close(&t);
    if (status == HR_OK) {
        *out = g;
        return HR_OK;
    }
    hr_graph_destroy(g);
    if (why) {
        *why = (hr_error){.code = status};
        snprintf(why->message, sizeof why->message, "%s",
                 *prose.text ? prose.text : hr_status_text(status));
    }
    return status;
}
