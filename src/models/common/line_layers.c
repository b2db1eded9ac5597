/* The layers of one-line networks: a table, a function each.  docs/how-to/own-model.md lists them for users. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "models/common/layers.h"
#include "models/common/line.h"

static int rank_of(const hri_build *b, hr_value x) {
    return hr_graph_meta(b->g, x).shape.rank;
}

/* Which layer for sequences is like this one for images; 0: none. */
static int is_of_1d(const hri_line_stage *s) {
    const char *name = s->layer->name;
    return !strcmp(name, "conv")       ? 1
           : !strcmp(name, "max_pool") ? 2
           : !strcmp(name, "avg_pool") ? 3
                                       : 0;
}

/* 1 when x is (N, H, W, C); else the reason stands on the graph. */
static int is_image(hri_build *b, const hri_line_stage *s, hr_value x) {
    if (rank_of(b, x) == 3) {
        hri_line_fail(b, s,
                      "expected images (N, H, W, C), not sequences; an image needs its channels "
                      "too: input(28x28x1)%s%s",
                      is_of_1d(s) ? "; for sequences there is " : "",
                      is_of_1d(s)
                          ? (const char *[]){"conv1d", "max_pool1d", "avg_pool1d"}[is_of_1d(s) - 1]
                          : "");
        return 0;
    }
    if (rank_of(b, x) != 4) {
        hri_line_fail(b, s, "expected images (N, H, W, C), not values with %d dimensions",
                      rank_of(b, x));
        return 0;
    }
    return 1;
}

/* 1 when x is (N, steps, width). */
static int is_sequence(hri_build *b, const hri_line_stage *s, hr_value x) {
    if (rank_of(b, x) != 3) {
        hri_line_fail(b, s,
                      "expected sequences (N, steps, width), such as those of input(64x3) or "
                      "embedding");
        return 0;
    }
    return 1;
}

/* A sequence as an image of one row, and back. */
static hr_value as_row(hri_build *b, hr_value x) {
    return hr_reshape(b->g, x, hr_shape_4(b->batch, 1, hri_dim(b, x, 1), hri_dim(b, x, 2)));
}

static hr_value as_sequence(hri_build *b, hr_value x) {
    return hr_reshape(b->g, x, hr_shape_3(b->batch, hri_dim(b, x, 2), hri_dim(b, x, 3)));
}

static hr_value input(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    hr_shape shape = {.rank = s->rank + 1, .dim = {b->batch}};
    (void)name, (void)x;
    memcpy(shape.dim + 1, s->dims, (size_t)s->rank * sizeof shape.dim[0]);
    const int tokens = s->arg[1] > 0;
    if (tokens && s->rank != 1) {
        hri_line_fail(b, s, "tokens come in rows: input(128, vocab=50257)");
        return HR_NONE;
    }
    return hr_graph_input(b->g,
                          tokens         ? "/tokens"
                          : s->rank == 3 ? "/image"
                                         : "/x",
                          tokens ? HR_TYPE_I32 : HR_TYPE_F32, shape);
}

static hr_init uniform(int64_t inputs) { /* torch's: within 1 / sqrt(inputs) */
    const double bound = 1.0 / sqrt(inputs > 0 ? (double)inputs : 1.0);
    return hr_init_uniform(-bound, bound);
}

/* Of an image, or of a sequence that lies as one row. */
static hr_value convolve(hri_build *b, const char *name, hr_value x, bool sequence, int64_t out,
                         int64_t kernel, int64_t stride, int64_t pad, int64_t dilation,
                         int64_t groups) {
    hr_graph *g = b->g;
    const int64_t in = hri_dim(b, x, 3) / groups, rows = sequence ? 1 : kernel;
    pad = pad < 0 ? dilation * (kernel - 1) / 2 : pad;
    hr_graph_push(g, name);
    const hr_value w = hr_graph_param(g, "weight", HR_TYPE_F32, hr_shape_4(rows, kernel, in, out),
                                      uniform(in * rows * kernel));
    hr_graph_set_tags(g, w, &(hr_tags){.size = sizeof(hr_tags), .layout = HR_LAYOUT_CONV});
    const hr_value c =
        hr_graph_param(g, "bias", HR_TYPE_F32, hr_shape_1(out), uniform(in * rows * kernel));
    hr_graph_set_tags(g, c, &(hr_tags){.size = sizeof(hr_tags), .decay = -1});
    const hr_value y =
        sequence ? hri_nodef(g, "conv2d", (const hr_value[]){x, w, c}, 3,
                             "stride=1x%d,pad=0x%d,dilation=1x%d,groups=%d", (int)stride, (int)pad,
                             (int)dilation, (int)groups)
                 : hr_conv2d(g, x, w, c, (int)stride, (int)pad, (int)dilation, (int)groups);
    hr_graph_pop(g);
    return y;
}

/* 1 when the channels can be split so. */
static int splits(hri_build *b, const hri_line_stage *s, int64_t channels) {
    const int64_t groups = (int64_t)s->arg[5];
    if (channels % groups) {
        hri_line_fail(b, s, "%lld channels cannot be split into %lld groups", (long long)channels,
                      (long long)groups);
        return 0;
    }
    return 1;
}

static hr_value conv(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    if (!is_image(b, s, x) || !splits(b, s, hri_dim(b, x, 3))) {
        return x;
    }
    return convolve(b, name, x, false, (int64_t)s->arg[0], (int64_t)s->arg[1], (int64_t)s->arg[2],
                    (int64_t)s->arg[3], (int64_t)s->arg[4], (int64_t)s->arg[5]);
}

static hr_value conv1d(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    if (!is_sequence(b, s, x) || !splits(b, s, hri_dim(b, x, 2))) {
        return x;
    }
    return as_sequence(b, convolve(b, name, as_row(b, x), true, (int64_t)s->arg[0],
                                   (int64_t)s->arg[1], (int64_t)s->arg[2], (int64_t)s->arg[3],
                                   (int64_t)s->arg[4], (int64_t)s->arg[5]));
}

static hr_value depthwise(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    const int64_t channels = hri_dim(b, x, 3);
    return is_image(b, s, x) ? convolve(b, name, x, (int64_t)s->arg[0], channels,
                                        (int64_t)s->arg[0], (int64_t)s->arg[1], (int64_t)s->arg[2],
                                        (int64_t)s->arg[3], channels > 0 ? channels : 1)
                             : x;
}

static hr_value dense(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    if (rank_of(b, x) == 4 || rank_of(b, x) < 2) {
        hri_line_fail(b, s, "expected rows of numbers; put flatten or global_pool before it");
        return x;
    }
    return hri_layer_linear(b, name, x, (int64_t)s->arg[0], NULL, NULL);
}

static hr_value embedding(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    hr_graph *g = b->g;
    if (hr_graph_meta(g, x).type != HR_TYPE_I32) {
        hri_line_fail(b, s, "expected tokens: input(128, vocab=50257)");
        return x;
    }
    const int64_t width = (int64_t)s->arg[0], length = hri_dim(b, x, 1);
    const hr_value ids = x;
    hr_graph_push(g, name);
    const hr_value w = hr_graph_param(g, "weight", HR_TYPE_F32,
                                      hr_shape_2((int64_t)s->arg[1], width), hr_init_normal(0.02));
    x = hr_gather(g, w, ids);
    if (s->arg[2] > 0) {
        const hr_value places = hr_graph_param(g, "positions", HR_TYPE_F32,
                                               hr_shape_2(length, width), hr_init_normal(0.02));
        x = hr_add(g, x, places);
    }
    hr_graph_pop(g);
    return x;
}

static hr_value attention(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    hr_graph *g = b->g;
    const int64_t heads = (int64_t)s->arg[0], length = hri_dim(b, x, 1), width = hri_dim(b, x, 2);
    if (rank_of(b, x) != 3 || width % heads) {
        hri_line_fail(
            b, s, "expected (N, positions, width) with a width that is a multiple of %lld heads",
            (long long)heads);
        return x;
    }
    hr_graph_push(g, name);
    x = hri_layer_linear(b, "qkv", x, 3 * width, NULL, NULL);
    x = hr_reshape(g, x, hr_shape_5(b->batch, length, 3, heads, width / heads));
    x = hr_attention_packed(g, x, s->arg[1] > 0);
    x = hr_reshape(g, x, hr_shape_3(b->batch, length, width));
    x = hri_layer_linear(b, "proj", x, width, NULL, NULL);
    hr_graph_pop(g);
    return x;
}

enum { MOST_STEPS = 2048 }; /* each is several nodes */

/* Every step's output, or with last=1 that of the step at which a direction ends. */
static hr_value recurrent(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    const hri_recurrent_layer layer = {
        .width = (int64_t)s->arg[0], .lstm = s->layer->name[0] == 'l', .both = s->arg[1] > 0};
    if (!is_sequence(b, s, x)) {
        return x;
    }
    const int64_t steps = hri_dim(b, x, 1), width = layer.width;
    if (steps > MOST_STEPS) {
        hri_line_fail(b, s, "a sequence has %lld steps; a recurrent layer takes %d at most",
                      (long long)steps, MOST_STEPS);
        return x;
    }
    const hr_value y = hri_layer_recurrent(b, name, x, &layer);
    if (s->arg[2] < 1 || y == HR_NONE || b->g->error.code != HR_OK) {
        return y;
    }
    const hr_value end[] = {hri_nodef(b->g, "slice", &y, 1, "begin=0x%lldx0,size=-1x1x%lld",
                                      (long long)steps - 1, (long long)width),
                            layer.both
                                ? hri_nodef(b->g, "slice", &y, 1, "begin=0x0x%lld,size=-1x1x%lld",
                                            (long long)width, (long long)width)
                                : HR_NONE};
    const hr_value row = layer.both ? hr_concat(b->g, end, 2, 2) : end[0];
    return hr_reshape(b->g, row, hr_shape_2(b->batch, (layer.both ? 2 : 1) * width));
}

/* ---- norms ---- */

static hr_value batch_norm(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    (void)s;
    return hri_layer_batch_norm(b, name, x, false, HR_NONE);
}

static hr_value layer_norm(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    return hri_layer_norm(b, name, x, s->arg[0]);
}

static hr_value group_norm(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    return is_image(b, s, x) ? hri_layer_group_norm(b, name, x, false, HR_NONE) : x;
}

/* ---- element by element ---- */

static hr_value plain(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    (void)name;
    return hr_graph_node(b->g, s->layer->name, &x, 1, NULL);
}

static hr_value function(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    (void)name;
    return hr_function(b->g, x, s->layer->name, s->layer->args[0].name ? s->arg[0] : 1.0);
}

static hr_value relu6(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    (void)s, (void)name;
    return hr_clip(b->g, x, 0.0, 6.0);
}

static hr_value dropout(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    (void)name;
    return hri_layer_dropout(b, x, s->arg[0]);
}

/* ---- shapes ---- */

static hr_value pool(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    const int kernel = (int)s->arg[0], stride = s->arg[1] > 0 ? (int)s->arg[1] : kernel;
    (void)name;
    return !is_image(b, s, x)         ? x
           : s->layer->name[0] == 'm' ? hr_max_pool(b->g, x, kernel, stride, (int)s->arg[2])
                                      : hr_avg_pool(b->g, x, kernel, stride, (int)s->arg[2]);
}

static hr_value pool1d(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    const int kernel = (int)s->arg[0], stride = s->arg[1] > 0 ? (int)s->arg[1] : kernel;
    (void)name;
    if (!is_sequence(b, s, x)) {
        return x;
    }
    const hr_value row = as_row(b, x);
    return as_sequence(b, hri_nodef(b->g, s->layer->name[0] == 'm' ? "max_pool" : "avg_pool", &row,
                                    1, "kernel=1x%d,stride=1x%d,pad=0x%d", kernel, stride,
                                    (int)s->arg[2]));
}

/* Over all places: of an image, or of a row of tokens. */
static hr_value global_pool(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    (void)name;
    if (rank_of(b, x) == 3) {
        return hr_mean(b->g, x, "1", 0);
    }
    return is_image(b, s, x) ? hr_global_avg_pool(b->g, x) : x;
}

static hr_value flatten(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    const hr_shape shape = hr_graph_meta(b->g, x).shape;
    (void)s, (void)name;
    return hr_reshape(b->g, x, hr_shape_2(b->batch, hr_shape_count(&shape) / b->batch));
}

/* An image as a row of its pixels, for attention. */
static hr_value rows(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    (void)name;
    return is_image(b, s, x) ? hr_reshape(b->g, x,
                                          hr_shape_3(b->batch, hri_dim(b, x, 1) * hri_dim(b, x, 2),
                                                     hri_dim(b, x, 3)))
                             : x;
}

static hr_value upsample(hri_build *b, const hri_line_stage *s, const char *name, hr_value x) {
    const int by = (int)s->arg[0];
    (void)name;
    return is_image(b, s, x) ? hr_resize(b->g, x, (int)hri_dim(b, x, 1) * by,
                                         (int)hri_dim(b, x, 2) * by, "nearest")
                             : x;
}

/* ---- the table ---- */

#define WIDE   1, 1 << 24
#define SMALL  1, 1024
#define NEEDED NAN
#define FUNCTION(NAME)                                                                             \
    { .name = NAME, .build = function }
#define FUNCTION_OF(NAME, ALPHA)                                                                   \
    { .name = NAME, .args = {{"alpha", ALPHA, 1e-6, 1e6, true}}, .build = function }

/* clang-format off */
const hri_line_layer hri_line_layers[] = {
    {"input", {{"classes", 0, 0, 1 << 24}, {"vocab", 0, 0, 1 << 24}}, .has_dims = true, .build = input},
    {"conv", {{"filters", NEEDED, WIDE}, {"kernel", 3, SMALL}, {"stride", 1, SMALL}, {"pad", -1, 0, 1024},
              {"dilation", 1, SMALL}, {"groups", 1, WIDE}}, .build = conv},
    {"conv1d", {{"filters", NEEDED, WIDE}, {"kernel", 3, SMALL}, {"stride", 1, SMALL}, {"pad", -1, 0, 1024},
                {"dilation", 1, SMALL}, {"groups", 1, WIDE}}, .build = conv1d},
    {"depthwise", {{"kernel", 3, SMALL}, {"stride", 1, SMALL}, {"pad", -1, 0, 1024}, {"dilation", 1, SMALL}}, .build = depthwise},
    {"dense", {{"units", NEEDED, WIDE}}, .build = dense},
    {"embedding", {{"width", NEEDED, WIDE}, {"vocab", NEEDED, WIDE}, {"positions", 1, 0, 1}}, .build = embedding},
    {"attention", {{"heads", NEEDED, SMALL}, {"causal", 0, 0, 1}}, .build = attention},
    {"lstm", {{"units", NEEDED, WIDE}, {"both", 0, 0, 1}, {"last", 0, 0, 1}}, .build = recurrent},
    {"gru", {{"units", NEEDED, WIDE}, {"both", 0, 0, 1}, {"last", 0, 0, 1}}, .build = recurrent},
    {"batch_norm", .build = batch_norm},
    {"layer_norm", {{"eps", 1e-5, 0, 1, true}}, .build = layer_norm},
    {"group_norm", .build = group_norm},
    {"relu", .build = plain},
    {"gelu", .build = plain},
    {"silu", .build = plain},
    {"tanh", .build = plain},
    {"sigmoid", .build = plain},
    {"relu6", .build = relu6},
    FUNCTION("mish"),
    FUNCTION("softsign"),
    FUNCTION("selu"),
    FUNCTION("hard_swish"),
    FUNCTION("hard_sigmoid"),
    FUNCTION("quick_gelu"),
    FUNCTION_OF("softplus", 1),
    FUNCTION_OF("elu", 1),
    FUNCTION_OF("leaky_relu", 0.01),
    {"dropout", {{"p", 0.5, 0, 0.999, true}}, .build = dropout},
    {"max_pool", {{"kernel", 2, SMALL}, {"stride", 0, SMALL}, {"pad", 0, 0, 512}}, .build = pool},
    {"avg_pool", {{"kernel", 2, SMALL}, {"stride", 0, SMALL}, {"pad", 0, 0, 512}}, .build = pool},
    {"max_pool1d", {{"kernel", 2, SMALL}, {"stride", 0, SMALL}, {"pad", 0, 0, 512}}, .build = pool1d},
    {"avg_pool1d", {{"kernel", 2, SMALL}, {"stride", 0, SMALL}, {"pad", 0, 0, 512}}, .build = pool1d},
    {"global_pool", .build = global_pool},
    {"flatten", .build = flatten},
    {"rows", .build = rows},
    {"upsample", {{"by", 2, 1, 64}}, .build = upsample},
    {"residual", .has_inner = true, .build = hri_line_residual},
    {"repeat", {{"times", NEEDED, 1, 1000}}, .has_inner = true, .build = hri_line_repeat},
    {.name = NULL},
};
/* clang-format on */
