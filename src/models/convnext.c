/* convnext_tiny, small, base, large: convolutions in the manner of transformers (Liu et al. 2022), as torchvision has them.
 *
 *   4x4/4 conv - layer norm - four stages, before each but the first: layer norm - 2x2/2 conv - global mean - layer norm - linear
 *   block:  x + layer_scale * (7x7 by channel - layer norm - linear to 4 times the width - gelu - linear back)
 *
 * Names: features.0.{0,1}, features.<1,3,5,7>.<i>.{layer_scale,block.{0,2,3,5}}, features.<2,4,6>.{0,1}, classifier.{0,2}.  Norms have
 * eps 1e-6.  In training a whole block of a sample is dropped with a probability that rises to `drop` at the last one.  Weights begin
 * truncated normal with deviation 0.02, biases at 0, layer_scale at 1e-6. */
#include "models/common/layers.h"

enum { STAGES = 4 };
static const double eps = 1e-6;

typedef struct convnext {
    int64_t size, channels, width, classes;
    hri_dims layers;
    double drop;
} convnext;

static const hri_field fields[] = {
    {"size", "image height and width", offsetof(convnext, size), HRI_FIELD_INT, "224", .min = 32,
     .max = 65536},
    {"channels", "image channels", offsetof(convnext, channels), HRI_FIELD_INT, "3", .min = 1,
     .max = 65536},
    {"classes", "number of classes", offsetof(convnext, classes), HRI_FIELD_INT, "1000", .min = 1,
     .max = 1e7},
    {"width", "channels of the first stage", offsetof(convnext, width), HRI_FIELD_INT, "96",
     .min = 1, .max = 8192},
    {"layers", "blocks of the four stages", offsetof(convnext, layers), HRI_FIELD_DIMS, "3x3x9x3"},
    {"drop", "probability that the last block is dropped", offsetof(convnext, drop),
     HRI_FIELD_DOUBLE, "0.1", .min = 0, .max = 0.99},
    {0}};

static hr_status check(const void *options, hri_prose *why) {
    const convnext *o = options;
    if (o->layers.count != STAGES) {
        return hri_prose_set(why, HR_E_INVALID, "layers: 4 stages are needed, not %lld",
                             (long long)o->layers.count);
    }
    for (int i = 0; i < STAGES; i++) {
        if (o->layers.at[i] < 1 || o->layers.at[i] > 1000) {
            return hri_prose_set(why, HR_E_RANGE,
                                 "layers: a stage can have 1 to 1000 blocks, not %lld",
                                 (long long)o->layers.at[i]);
        }
    }
    return HR_OK;
}

static hr_value conv(hri_build *b, const char *name, hr_value x, int64_t out, int kernel,
                     int stride, int64_t groups) {
    const hr_init init = hr_init_truncated(0.02);
    return hri_layer_conv(b, name, x,
                          &(hri_conv_layer){.out = out,
                                            .kernel = kernel,
                                            .stride = stride,
                                            .pad = groups > 1 ? kernel / 2 : 0,
                                            .groups = groups,
                                            .bias = true,
                                            .zero_bias = true,
                                            .weight = &init});
}

static hr_value block(hri_build *b, hr_value x, double drop) {
    hr_graph *g = b->g;
    const hr_init weight = hr_init_truncated(0.02), bias = hr_init_constant(0.0);
    const int64_t width = hri_dim(b, x, 3);
    const hr_value scale = hr_graph_param(g, "layer_scale", HR_TYPE_F32, hr_shape_3(width, 1, 1),
                                          hr_init_constant(1e-6));
    hr_value y = conv(b, "block.0", x, width, 7, 1, width);
    y = hri_layer_norm(b, "block.2", y, eps);
    y = hr_gelu(g, hri_layer_linear(b, "block.3", y, 4 * width, &weight, &bias), 0);
    y = hri_layer_linear(b, "block.5", y, width, &weight, &bias);
    y = hr_mul(g, y, hr_reshape(g, scale, hr_shape_1(width)));
    return hr_add(g, x, hri_layer_drop_path(b, y, drop));
}

static void build(hri_build *b) {
    const convnext *o = b->options;
    const hr_init weight = hr_init_truncated(0.02), bias = hr_init_constant(0.0);
    int64_t done = 0, all = 0;
    char name[48];
    for (int s = 0; s < STAGES; s++) {
        all += o->layers.at[s];
    }
    hr_value x = conv(b, "features.0.0", hri_image(b, o->size, o->channels), o->width, 4, 4, 1);
    x = hri_layer_norm(b, "features.0.1", x, eps);
    for (int s = 0; s < STAGES; s++) {
        if (s) {
            snprintf(name, sizeof name, "features.%d.0", 2 * s);
            x = hri_layer_norm(b, name, x, eps);
            snprintf(name, sizeof name, "features.%d.1", 2 * s);
            x = conv(b, name, x, o->width << s, 2, 2, 1);
        }
        for (int64_t i = 0; i < o->layers.at[s]; i++, done++) {
            snprintf(name, sizeof name, "features.%d.%lld", 2 * s + 1, (long long)i);
            hr_graph_push(b->g, name);
            x = block(b, x, all > 1 ? o->drop * (double)done / (double)(all - 1) : 0);
            hr_graph_pop(b->g);
        }
    }
    x = hri_layer_norm(b, "classifier.0", hr_global_avg_pool(b->g, x), eps);
    hri_model_loss(b, hri_layer_linear(b, "classifier.2", x, o->classes, &weight, &bias));
}

static int64_t classes(const void *options) {
    return ((const convnext *)options)->classes;
}

static const hri_model_name names[] = {
    {"convnext_tiny", "convolutions like a transformer, 28.6 million parameters", NULL},
    {"convnext_small", "convolutions like a transformer, 50.2 million parameters",
     "layers=3x3x27x3,drop=0.4"},
    {"convnext_base", "convolutions like a transformer, 88.6 million parameters",
     "layers=3x3x27x3,width=128,drop=0.5"},
    {"convnext_large", "convolutions like a transformer, 197.8 million parameters",
     "layers=3x3x27x3,width=192,drop=0.5"},
    {NULL, NULL, NULL},
};

const hri_family hri_family_convnext = {
    .name = "convnext",
    .names = names,
    .fields = fields,
    .options_bytes = sizeof(convnext),
    .check = check,
    .build = build,
    .classes = classes,
};
