/* Building what line_read.c has read; see line.h.
 *
 * A layer's parameters are named for it and counted: conv1, conv2; inside residual and repeat behind their name:
 * residual1.conv1, repeat1.0.conv1. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "graph/graph.h"
#include "models/common/file.h"
#include "models/common/layers.h"
#include "models/common/line.h"

enum { MOST_NODES = 20000 };

void hri_line_fail(hri_build *b, const hri_line_stage *s, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    hri_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    hri_graph_fail(b->g, HR_E_SHAPE, "character %zu, at \"%s\": %s", s->at, s->near, text);
}

/* The graph's own refusal gets the place in the text. */
static void add_place(hri_build *b, const hri_line_stage *s) {
    hr_error *e = &b->g->error;
    char text[sizeof e->message];
    if (e->code != HR_OK && strncmp(e->message, "character ", 10) != 0) {
        snprintf(text, sizeof text, "character %zu, at \"%s\": %.900s", s->at, s->near, e->message);
        memcpy(e->message, text, sizeof text);
    }
}

static int count_before(const hri_line_stage *first, const hri_line_stage *s) {
    int n = 1;
    for (const hri_line_stage *p = first; p != s; p = p->next) {
        n += p->layer == s->layer;
    }
    return n;
}

hr_value hri_line_layers_build(hri_build *b, const hri_line_stage *first, hr_value x) {
    for (const hri_line_stage *s = first; s && b->g->error.code == HR_OK; s = s->next) {
        char name[48];
        snprintf(name, sizeof name, "%s%d", s->layer->name, count_before(first, s));
        if (b->g->node_count > MOST_NODES) {
            hri_line_fail(b, s, "the network has more than %d nodes", MOST_NODES);
            break;
        }
        x = s->layer->build(b, s, name, x);
        add_place(b, s);
    }
    return x;
}

hr_value hri_line_repeat(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    hr_graph_push(b->g, name);
    for (int i = 0; i < (int)s->arg[0] && b->g->error.code == HR_OK; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        hr_graph_push(b->g, number);
        x = hri_line_layers_build(b, s->inner, x);
        hr_graph_pop(b->g);
    }
    hr_graph_pop(b->g);
    return x;
}

/* What goes past a residual's layers when these change the shape: a 1x1 convolution or a linear layer. */
static hr_value shortcut(hri_build *b, const hri_line_stage *s, hr_value x, hr_value y) {
    const hr_shape a = hr_graph_meta(b->g, x).shape, c = hr_graph_meta(b->g, y).shape;
    if (hr_shape_same(&a, &c) || b->g->error.code != HR_OK) {
        return x;
    }
    if (a.rank == 4 && c.rank == 4 && c.dim[1] > 0 && c.dim[2] > 0) {
        const int64_t stride = (a.dim[1] + c.dim[1] - 1) / c.dim[1];
        if ((a.dim[1] - 1) / stride + 1 == c.dim[1] && (a.dim[2] - 1) / stride + 1 == c.dim[2]) {
            return hri_layer_conv(
                b, "shortcut", x,
                &(hri_conv_layer){
                    .out = c.dim[3], .kernel = 1, .stride = (int)stride, .bias = true});
        }
    } else if (a.rank == c.rank && a.rank < 4 && a.rank > 1 &&
               (a.rank == 2 || a.dim[1] == c.dim[1])) {
        return hri_layer_linear(b, "shortcut", x, c.dim[c.rank - 1], NULL, NULL);
    }
    const hr_meta in = hr_graph_meta(b->g, x), out = hr_graph_meta(b->g, y);
    char is[256], gives[256];
    hri_line_fail(b, s, "the input %s and the output %s of its layers cannot be added",
                  hr_meta_print(&in, is, sizeof is), hr_meta_print(&out, gives, sizeof gives));
    return x;
}

hr_value hri_line_residual(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    hr_graph_push(b->g, name);
    const hr_value y = hri_line_layers_build(b, s->inner, x);
    x = shortcut(b, s, x, y);
    const hr_value sum = b->g->error.code == HR_OK ? hr_add(b->g, y, x) : x;
    hr_graph_pop(b->g);
    return sum;
}

hr_status hri_line_build(void *given, hr_graph *g, int64_t batch, int training) {
    const hri_line *line = given;
    hri_build b = {.g = g, .batch = batch, .training = training != 0};
    const hr_value logits = hri_line_layers_build(&b, line->first, HR_NONE);
    if (g->error.code == HR_OK && hr_graph_meta(g, logits).shape.rank < 2) {
        hri_line_fail(&b, line->first, "the last layer must produce one row of logits per sample");
    }
    if (g->error.code == HR_OK) {
        hri_model_loss(&b, logits);
    }
    return g->error.code;
}

/* How many logits there are. */
static hr_status count_classes(hri_line *line, int64_t *out, hri_prose *why) {
    hr_graph *g;
    hr_status status = hr_graph_create(&g);
    if (status != HR_OK) {
        return status;
    }
    status = hri_line_build(line, g, 2, 1);
    const hr_shape shape = hr_graph_meta(g, hr_graph_find(g, "logits")).shape;
    if (status == HR_OK) {
        *out = shape.rank ? shape.dim[shape.rank - 1] : 0;
    } else {
        hri_prose_set(why, status, "%s", g->error.message);
    }
    hr_graph_destroy(g);
    return status;
}

hr_status hri_line_open(const char *text, hr_model *m, hri_prose *why) {
    hr_status status = hri_line_read(text, &m->line, why);
    if (status == HR_OK) {
        status = count_classes(m->line, &m->classes, why);
    }
    if (status == HR_OK) {
        m->build = hri_line_build;
        m->user = m->line;
        m->name = hri_strdup("net");
        m->text = hri_strdup(text);
        status = m->name && m->text ? hri_model_check(m, why) : HR_E_NOMEM_HOST;
    }
    return status;
}
