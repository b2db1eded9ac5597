/* Layers: parameters by name, then one or two nodes. */
#include "models/common/layers.h"

#include <math.h>
#include <stdio.h>

#include "graph/graph.h"

int64_t hri_dim(const hri_build *b, hr_value v, int axis) {
    const hr_shape shape = hr_graph_meta(b->g, v).shape;
    const int at = axis < 0 ? axis + shape.rank : axis;
    return at >= 0 && at < shape.rank ? shape.dim[at] : 0;
}

hr_value hri_image(hri_build *b, int64_t size, int64_t channels) {
    return hr_graph_input(b->g, "/image", HR_TYPE_F32, hr_shape_4(b->batch, size, size, channels));
}

static hr_value label_of(hri_build *b, hr_value logits) {
    hr_shape rows = hr_graph_meta(b->g, logits).shape;
    if (rows.rank > 0) { /* 0 only when the graph has failed */
        rows.dim[--rows.rank] = 0;
    }
    return hr_graph_input(b->g, "/label", HR_TYPE_I32, rows);
}

void hri_model_loss(hri_build *b, hr_value logits) {
    const hr_value label = label_of(b, logits);
    hr_graph_result(b->g, logits, "logits");
    hr_graph_result(b->g, hr_cross_entropy(b->g, logits, label, 0.0), "loss");
}

void hri_model_linear_loss(hri_build *b, hr_value x, hr_value w) {
    const hr_value logits = hr_linear(b->g, x, w, HR_NONE);
    const hr_value label = label_of(b, logits);
    hri_graph_result_spare(b->g, logits, "logits");
    const hr_value in[] = {x, w, label};
    const char *keep = b->training && b->g->keep_scores ? "keep" : NULL;
    hr_graph_result(b->g, hr_graph_node(b->g, "linear_cross_entropy", in, 3, keep), "loss");
}

void hri_model_linear_loss_with(hri_build *b, hr_value x, hr_value w, hr_value bias) {
    enum { TAIL = 8 }; /* a whole number of vectors, so that rows stay aligned */
    static const float first[TAIL] = {1};
    hr_graph *g = b->g;
    const hr_value one = hr_graph_constant(g, HR_TYPE_F32, hr_shape_2(1, TAIL), first);
    const hr_value column = hr_reshape(g, bias, hr_shape_2(hri_dim(b, bias, 0), 1));
    const hr_value ones = hri_nodef(g, "broadcast_to", &one, 1, "to=%lldx%lldx%d",
                                    (long long)b->batch, (long long)hri_dim(b, x, 1), (int)TAIL);
    x = hr_concat(g, (const hr_value[]){x, ones}, 2, 2);
    w = hr_concat(g, (const hr_value[]){w, hr_mul(g, column, one)}, 2, 1);
    hri_model_linear_loss(b, x, w);
}

/* torch's: uniform within 1 / sqrt(inputs). */
static hr_init plain(int64_t inputs) {
    const double bound = 1.0 / sqrt(inputs > 0 ? (double)inputs : 1.0);
    return hr_init_uniform(-bound, bound);
}

static hr_value param(hri_build *b, const char *name, hr_shape shape, hr_init init) {
    return hr_graph_param(b->g, name, HR_TYPE_F32, shape, init);
}

/* Biases, and what a norm scales and shifts by: weight decay would only hold them back. */
static hr_value undecayed(hri_build *b, const char *name, int64_t count, hr_init init) {
    const hr_value v = param(b, name, hr_shape_1(count), init);
    hr_graph_set_tags(b->g, v, &(hr_tags){.size = sizeof(hr_tags), .decay = -1});
    return v;
}

hr_value hri_layer_linear(hri_build *b, const char *name, hr_value x, int64_t out,
                          const hr_init *weight, const hr_init *bias) {
    const int64_t in = hri_dim(b, x, -1);
    hr_graph_push(b->g, name);
    const hr_value w = param(b, "weight", hr_shape_2(out, in), weight ? *weight : plain(in));
    const hr_value c = undecayed(b, "bias", out, bias ? *bias : plain(in));
    const hr_value y = hr_linear(b->g, x, w, c);
    hr_graph_pop(b->g);
    return y;
}

hr_value hri_layer_conv(hri_build *b, const char *name, hr_value x, const hri_conv_layer *layer) {
    const int64_t k = layer->kernel, groups = layer->groups ? layer->groups : 1;
    const int64_t in = hri_dim(b, x, 3) / groups;
    hr_graph_push(b->g, name);
    const hr_value w = param(b, "weight", hr_shape_4(k, k, in, layer->out),
                             layer->weight ? *layer->weight : plain(in * k * k));
    hr_graph_set_tags(b->g, w, &(hr_tags){.size = sizeof(hr_tags), .layout = HR_LAYOUT_CONV});
    const hr_init bias = layer->zero_bias ? hr_init_constant(0.0) : plain(in * k * k);
    const hr_value c = layer->bias ? undecayed(b, "bias", layer->out, bias) : HR_NONE;
    const hr_value y = hr_conv2d(b->g, x, w, c, layer->stride, layer->pad, 1, (int)groups);
    hr_graph_pop(b->g);
    return y;
}

static const double norm_eps = 1e-5;

/* In two halves: what is normalised can be made again from its input without another look for the moments. */
static hr_value batch_norm(hri_build *b, hr_value x, hr_value gamma, hr_value beta, bool relu,
                           hr_value z, const hr_value *running, double eps, double momentum) {
    hr_graph *g = b->g;
    const hr_value mean = hri_nodef(g, "batch_norm_moments", &x, 1, "eps=%.17g", eps);
    const hr_value inv = hr_graph_output(g, mean, 1);
    const hr_value in[] = {x, gamma, beta, mean, inv, z};
    const hr_value y =
        hr_graph_node(g, "batch_norm_apply", in, z == HR_NONE ? 5 : 6, relu ? "relu" : NULL);
    const hr_shape shape = hr_graph_meta(g, x).shape;
    const hr_value move[] = {running[0], running[1], mean, inv};
    hri_nodef(g, "batch_norm_stats", move, 4, "eps=%.17g,momentum=%.17g,rows=%lld", eps, momentum,
              shape.rank ? (long long)(hr_shape_count(&shape) / shape.dim[shape.rank - 1]) : 0);
    return y;
}

hr_value hri_layer_batch_norm(hri_build *b, const char *name, hr_value x, bool relu, hr_value z) {
    return hri_layer_batch_norm_of(b, name, x, relu, z, norm_eps, 0.1);
}

hr_value hri_layer_batch_norm_of(hri_build *b, const char *name, hr_value x, bool relu, hr_value z,
                                 double eps, double momentum) {
    hr_graph *g = b->g;
    const int64_t channels = hri_dim(b, x, -1);
    hr_graph_push(g, name);
    const hr_value gamma = undecayed(b, "weight", channels, hr_init_constant(1.0));
    const hr_value beta = undecayed(b, "bias", channels, hr_init_constant(0.0));
    const hr_value mean =
        hr_graph_state(g, "running_mean", HR_TYPE_F32, hr_shape_1(channels), hr_init_constant(0.0));
    const hr_value var =
        hr_graph_state(g, "running_var", HR_TYPE_F32, hr_shape_1(channels), hr_init_constant(1.0));
    hr_value y;
    if (b->training) {
        y = batch_norm(b, x, gamma, beta, relu, z, (const hr_value[]){mean, var}, eps, momentum);
    } else {
        y = hr_batch_norm_inference(g, x, gamma, beta, mean, var, eps);
        y = z == HR_NONE ? y : hr_add(g, y, z);
        y = relu ? hr_relu(g, y) : y;
    }
    hr_graph_pop(g);
    return y;
}

hr_value hri_layer_group_norm(hri_build *b, const char *name, hr_value x, bool relu, hr_value z) {
    hr_graph *g = b->g;
    const int64_t channels = hri_dim(b, x, -1);
    int groups =
        32; /* as its authors have it; fewer where channels are few: two in each at least */
    while (groups > 1 && (channels % groups || channels / groups < 2)) {
        groups /= 2;
    }
    hr_graph_push(g, name);
    const hr_value gamma = undecayed(b, "weight", channels, hr_init_constant(1.0));
    const hr_value beta = undecayed(b, "bias", channels, hr_init_constant(0.0));
    hr_value y = hr_group_norm(g, x, gamma, beta, groups, norm_eps);
    y = z == HR_NONE ? y : hr_add(g, y, z);
    y = relu ? hr_relu(g, y) : y;
    hr_graph_pop(g);
    return y;
}

hr_value hri_layer_norm(hri_build *b, const char *name, hr_value x, double eps) {
    const int64_t width = hri_dim(b, x, -1);
    hr_graph_push(b->g, name);
    const hr_value gamma = undecayed(b, "weight", width, hr_init_constant(1.0));
    const hr_value beta = undecayed(b, "bias", width, hr_init_constant(0.0));
    const hr_value y = hr_layer_norm(b->g, x, gamma, beta, eps);
    hr_graph_pop(b->g);
    return y;
}

hr_value hri_layer_squeeze(hri_build *b, const char *name, hr_value x, int64_t inner, bool hard) {
    hr_graph *g = b->g;
    const int64_t channels = hri_dim(b, x, 3);
    const hr_init first = hr_init_normal(sqrt(2.0 / (double)(inner > 0 ? inner : 1)));
    const hr_init second = hr_init_normal(sqrt(2.0 / (double)(channels > 0 ? channels : 1)));
    hri_conv_layer layer = {
        .out = inner, .kernel = 1, .stride = 1, .bias = true, .zero_bias = true};
    layer.weight = &first;
    hr_graph_push(g, name);
    hr_value y = hr_reshape(g, hr_global_avg_pool(g, x), hr_shape_4(b->batch, 1, 1, channels));
    y = hri_layer_conv(b, "fc1", y, &layer);
    y = hard ? hr_relu(g, y) : hr_silu(g, y);
    layer.out = channels;
    layer.weight = &second;
    y = hri_layer_conv(b, "fc2", y, &layer);
    y = hard ? hr_function(g, y, "hard_sigmoid", 0) : hr_sigmoid(g, y);
    hr_graph_pop(g);
    return hr_mul(g, x, y);
}

/* A one for each sample is what dropout is taken of, so that a sample is kept or lost as a whole. */
hr_value hri_layer_drop_path(hri_build *b, hr_value x, double rate) {
    hr_graph *g = b->g;
    if (!b->training || rate <= 0.0) {
        return x;
    }
    hr_value one = hr_slice(g, hr_stop_gradient(g, x), "0x0x0x0", "-1x1x1x1");
    one = hr_affine(g, hr_clip(g, one, 0, 1), 0, 1); /* clip: no infinity times 0 */
    return hr_mul(g, x, hr_dropout(g, one, rate));
}

int64_t hri_eights(double channels) {
    const int64_t to = (int64_t)(channels + 4) / 8 * 8, least = to < 8 ? 8 : to;
    return (double)least < 0.9 * channels ? least + 8 : least;
}

hr_value hri_layer_dropout(hri_build *b, hr_value x, double rate) {
    return b->training && rate > 0.0 ? hr_dropout(b->g, x, rate) : x;
}

/* One direction; `way` is "" or "_reverse". */
static hr_value recurrent(hri_build *b, hr_value x, const hri_recurrent_layer *layer,
                          const char *way) {
    const int64_t in = hri_dim(b, x, 2), width = layer->width, gates = layer->lstm ? 4 : 3;
    const hr_init init = plain(width);
    char name[4][32];
    static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    for (int i = 0; i < 4; i++) {
        snprintf(name[i], sizeof name[i], "%s_l%d%s", names[i], layer->index, way);
    }
    const hr_value w = param(b, name[0], hr_shape_2(gates * width, in), init);
    const hr_value u = param(b, name[1], hr_shape_2(gates * width, width), init);
    const hr_value bias = undecayed(b, name[2], gates * width, init);
    const hr_value state_bias = undecayed(b, name[3], gates * width, init);
    return (layer->lstm ? hr_lstm : hr_gru)(b->g, x, w, u, bias, state_bias, way[0] != '\0');
}

hr_value hri_layer_recurrent(hri_build *b, const char *name, hr_value x,
                             const hri_recurrent_layer *layer) {
    hr_graph_push(b->g, name);
    hr_value y = recurrent(b, x, layer, "");
    if (layer->both && b->g->error.code == HR_OK) {
        const hr_value ways[] = {y, recurrent(b, x, layer, "_reverse")};
        y = hr_concat(b->g, ways, 2, 2);
    }
    hr_graph_pop(b->g);
    return y;
}

/* ---- generation ---- */

hr_value hri_decode_positions(hri_build *b, int64_t rows) {
    hr_graph_input(b->g, "/mask", HR_TYPE_F32, hr_shape_4(1, 1, b->decode, rows));
    return hr_graph_input(b->g, "/positions", HR_TYPE_I32, hr_shape_1(b->decode));
}

static hr_value cached(hri_build *b, const char *name, hr_value x, int64_t rows) {
    hr_graph *g = b->g;
    const hr_value cache = hr_graph_state(g, name, HR_TYPE_F32,
                                          hr_shape_4(1, rows, hri_dim(b, x, 2), hri_dim(b, x, 3)),
                                          hr_init_constant(0.0));
    hr_graph_set_tags(g, cache, &(hr_tags){.size = sizeof(hr_tags), .keep = HR_KEEP_NOT});
    const hr_value in[] = {cache, x, hr_graph_find(g, "positions")};
    return hr_graph_node(g, "put_rows", in, 3, NULL);
}

hr_value hri_layer_attend_cached(hri_build *b, hr_value q, hr_value k, hr_value v, int64_t rows) {
    k = cached(b, "key_cache", k, rows);
    v = cached(b, "value_cache", v, rows);
    const hr_value in[] = {q, k, v, hr_graph_find(b->g, "mask")};
    return hr_graph_node(b->g, "attention_masked", in, 4, NULL);
}

hr_value hri_decode_last(hri_build *b, hr_value x) {
    return b->decode == 1
               ? x
               : hri_nodef(b->g, "slice", &x, 1, "begin=0x%lld,size=1x1", (long long)b->decode - 1);
}
