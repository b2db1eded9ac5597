/* vit-tiny, vit-small, vit-base: transformers for images (Dosovitskiy et al. 2020), with torchvision's names.
 *
 *   x = [class token, patches projected by a convolution] + position
 *   x = x + attention(ln_1(x));  x = x + mlp(ln_2(x))     `layers` times; gelu by erf, four times wider inside
 *   logits = head(ln(x of the class token))
 *
 * Names: class_token (1, 1, width), conv_proj, encoder.pos_embedding (1, places, width), encoder.layers.encoder_layer_<i>.
 * {ln_1,self_attention.in_proj_weight,self_attention.in_proj_bias,self_attention.out_proj,ln_2,mlp.0,mlp.3}, encoder.ln,
 * heads.head.  Tiny and small are the sizes of DeiT under the same names.  The logits read the class token alone, and so
 * does all behind the last keys and values, which gives the same logits.  The head begins at 0, as torchvision's does. */
#include "models/common/layers.h"

#include <math.h>

#include "graph/graph.h"

typedef struct vit {
    int64_t size, channels, patch, classes, layers, width, heads;
    double dropout;
} vit;

static const hri_field fields[] = {
    {"size", "image height and width", offsetof(vit, size), HRI_FIELD_INT, "224", .min = 1,
     .max = 65536},
    {"channels", "image channels", offsetof(vit, channels), HRI_FIELD_INT, "3", .min = 1,
     .max = 65536},
    {"patch", "patch height and width", offsetof(vit, patch), HRI_FIELD_INT, "16", .min = 1,
     .max = 4096},
    {"classes", "number of classes", offsetof(vit, classes), HRI_FIELD_INT, "1000", .min = 1,
     .max = 1e7},
    {"layers", "blocks", offsetof(vit, layers), HRI_FIELD_INT, "12", .min = 1, .max = 1000},
    {"width", "width of the residual stream", offsetof(vit, width), HRI_FIELD_INT, "768", .min = 1,
     .max = 1e6},
    {"heads", "attention heads; they share the width", offsetof(vit, heads), HRI_FIELD_INT, "12",
     .min = 1, .max = 1e4},
    {"dropout", "dropout probability", offsetof(vit, dropout), HRI_FIELD_DOUBLE, "0", .min = 0,
     .max = 0.99},
    {0}};

static hr_status check(const void *options, hri_prose *why) {
    const vit *o = options;
    if (o->width % o->heads) {
        return hri_prose_set(why, HR_E_INVALID,
                             "width: %lld is not a multiple of the number of "
                             "heads (%lld)",
                             (long long)o->width, (long long)o->heads);
    }
    if (o->size % o->patch) {
        return hri_prose_set(why, HR_E_INVALID, "size: %lld is not a multiple of patch (%lld)",
                             (long long)o->size, (long long)o->patch);
    }
    return HR_OK;
}

static hr_init xavier(int64_t in, int64_t out) {
    const double bound = sqrt(6.0 / (double)(in + out));
    return hr_init_uniform(-bound, bound);
}

/* The class token of x (N, T, width), (N, 1, width). */
static hr_value class_token(hri_build *b, hr_value x) {
    char size[64];
    snprintf(size, sizeof size, "%lldx1x%lld", (long long)b->batch, (long long)hri_dim(b, x, 2));
    return hr_slice(b->g, x, "0x0x0", size);
}

/* x (N, T, width) -> (N, places, width): of the first so many, which see all. */
static hr_value attention(hri_build *b, hr_value x, int64_t places) {
    const vit *o = b->options;
    hr_graph *g = b->g;
    const int64_t all = hri_dim(b, x, 1), wide = 3 * o->width;
    const int64_t qkv[] = {b->batch, all, 3, o->heads, o->width / o->heads};
    const hr_init zero = hr_init_constant(0.0);
    hr_graph_push(g, "self_attention");
    const hr_value w = hr_graph_param(g, "in_proj_weight", HR_TYPE_F32, hr_shape_2(wide, o->width),
                                      xavier(o->width, wide));
    const hr_value c =
        hr_graph_param(g, "in_proj_bias", HR_TYPE_F32, hr_shape_from(1, &wide), zero);
    x = hr_reshape(g, hr_linear(g, x, w, c), hr_shape_from(5, qkv));
    x = places < all ? hri_nodef(g, "attention_packed", &x, 1, "queries=%lld", (long long)places)
                     : hr_attention_packed(g, x, 0);
    x = hr_reshape(g, x, hr_shape_3(b->batch, places, o->width));
    x = hri_layer_linear(b, "out_proj", x, o->width, NULL, &zero);
    hr_graph_pop(g);
    return x;
}

/* x (N, T, width); of the last one nothing but the class token is read, so that is all it makes: (N, 1, width). */
static hr_value block(hri_build *b, hr_value x, bool last) {
    const vit *o = b->options;
    const int64_t inner = 4 * o->width, places = last ? 1 : hri_dim(b, x, 1);
    const hr_init weight = xavier(o->width, inner), bias = hr_init_normal(1e-6);
    hr_value y = attention(b, hri_layer_norm(b, "ln_1", x, 1e-6), places);
    x = last ? class_token(b, x) : x;
    x = hr_add(b->g, x, hri_layer_dropout(b, y, o->dropout));
    y = hri_layer_linear(b, "mlp.0", hri_layer_norm(b, "ln_2", x, 1e-6), inner, &weight, &bias);
    y = hri_layer_dropout(b, hr_gelu(b->g, y, 0), o->dropout);
    y = hri_layer_linear(b, "mlp.3", y, o->width, &weight, &bias);
    return hr_add(b->g, x, hri_layer_dropout(b, y, o->dropout));
}

/* The class token before the patches, and positions: (N, 1 + patches, width). */
static hr_value embed(hri_build *b) {
    const vit *o = b->options;
    hr_graph *g = b->g;
    const int64_t side = o->size / o->patch, patches = side * side;
    const hr_init project = hr_init_normal(sqrt(1.0 / (double)(o->channels * o->patch * o->patch)));
    hr_value x = hri_layer_conv(b, "conv_proj", hri_image(b, o->size, o->channels),
                                &(hri_conv_layer){.out = o->width,
                                                  .kernel = (int)o->patch,
                                                  .stride = (int)o->patch,
                                                  .bias = true,
                                                  .weight = &project});
    x = hr_reshape(g, x, hr_shape_3(b->batch, patches, o->width));
    hr_value token = hr_graph_param(g, "class_token", HR_TYPE_F32, hr_shape_3(1, 1, o->width),
                                    hr_init_constant(0.0));
    token = hri_nodef(g, "broadcast_to", &token, 1, "to=%lldx1x%lld", (long long)b->batch,
                      (long long)o->width);
    x = hr_concat(g, (const hr_value[]){token, x}, 2, 1);
    const hr_value position =
        hr_graph_param(g, "encoder.pos_embedding", HR_TYPE_F32,
                       hr_shape_3(1, patches + 1, o->width), hr_init_normal(0.02));
    return hri_layer_dropout(b, hr_add(g, x, position), o->dropout);
}

static void build(hri_build *b) {
    const vit *o = b->options;
    hr_graph *g = b->g;
    const hr_init zero = hr_init_constant(0.0);
    hr_value x = embed(b);
    for (int64_t i = 0; i < o->layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "encoder.layers.encoder_layer_%d", (int)i);
        hr_graph_push(g, name);
        x = block(b, x, i + 1 == o->layers);
        hr_graph_pop(g);
    }
    x = hr_reshape(g, x, hr_shape_2(b->batch, o->width));
    x = hri_layer_norm(b, "encoder.ln", x, 1e-6);
    hri_model_loss(b, hri_layer_linear(b, "heads.head", x, o->classes, &zero, &zero));
}

static int64_t classes(const void *options) {
    return ((const vit *)options)->classes;
}

static const hri_model_name names[] = {
    {"vit-tiny", "vision transformer, 12 layers, width 192, 5.7 million parameters",
     "width=192,heads=3"},
    {"vit-small", "vision transformer, 12 layers, width 384, 22.1 million parameters",
     "width=384,heads=6"},
    {"vit-base", "vision transformer, 12 layers, width 768, 86.6 million parameters", NULL},
    {NULL, NULL, NULL},
};

const hri_family hri_family_vit = {
    .name = "vit",
    .names = names,
    .fields = fields,
    .options_bytes = sizeof(vit),
    .check = check,
    .build = build,
    .classes = classes,
};
