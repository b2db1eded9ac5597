/* densenet121, 161, 169, 201: every layer sees all before it (Huang et al. 2017), as torchvision has them.
 *
 *   7x7/2 conv - norm - relu - 3x3/2 max pool - four dense blocks with transitions between - norm - relu - global mean - linear
 *   dense layer:  norm - relu - 1x1 to 4 growth - norm - relu - 3x3 to growth; put behind its input
 *   transition:   norm - relu - 1x1 to half the channels - 2x2 mean
 *
 * Names: features.{conv0,norm0}, features.denseblock<1-4>.denselayer<i>.{norm1,conv1,norm2,conv2}, features.transition<1-3>.{norm,conv},
 * features.norm5, classifier.  Convolutions begin normal with deviation sqrt(2 / (in * k * k)), the bias of the classifier at 0. */
#include "models/common/layers.h"

#include <math.h>

typedef struct densenet {
    int64_t size, channels, width, growth, classes;
    hri_dims layers;
} densenet;

static const hri_field fields[] = {
    {"size", "image height and width", offsetof(densenet, size), HRI_FIELD_INT, "224", .min = 29,
     .max = 65536},
    {"channels", "image channels", offsetof(densenet, channels), HRI_FIELD_INT, "3", .min = 1,
     .max = 65536},
    {"classes", "number of classes", offsetof(densenet, classes), HRI_FIELD_INT, "1000", .min = 1,
     .max = 1e7},
    {"width", "channels of the first convolution", offsetof(densenet, width), HRI_FIELD_INT, "64",
     .min = 2, .max = 65536},
    {"growth", "channels that a layer adds", offsetof(densenet, growth), HRI_FIELD_INT, "32",
     .min = 1, .max = 65536},
    {"layers", "layers of the four blocks", offsetof(densenet, layers), HRI_FIELD_DIMS,
     "6x12x24x16"},
    {0}};

static hr_status check(const void *options, hri_prose *why) {
    const densenet *o = options;
    if (o->layers.count != 4) {
        return hri_prose_set(why, HR_E_INVALID, "layers: 4 blocks are needed, not %lld",
                             (long long)o->layers.count);
    }
    for (int i = 0; i < 4; i++) {
        if (o->layers.at[i] < 1 || o->layers.at[i] > 1000) {
            return hri_prose_set(why, HR_E_RANGE,
                                 "layers: a block can have 1 to 1000 layers, not %lld",
                                 (long long)o->layers.at[i]);
        }
    }
    return HR_OK;
}

static hr_value conv(hri_build *b, const char *name, hr_value x, int64_t out, int kernel,
                     int stride) {
    const double in = (double)hri_dim(b, x, 3);
    const hr_init init = hr_init_normal(sqrt(2.0 / ((in > 0 ? in : 1) * kernel * kernel)));
    return hri_layer_conv(
        b, name, x,
        &(hri_conv_layer){
            .out = out, .kernel = kernel, .stride = stride, .pad = kernel / 2, .weight = &init});
}

static hr_value norm(hri_build *b, const char *name, hr_value x) {
    return hri_layer_batch_norm(b, name, x, true, HR_NONE);
}

static hr_value layer(hri_build *b, hr_value x) {
    const densenet *o = b->options;
    hr_value y = conv(b, "conv1", norm(b, "norm1", x), 4 * o->growth, 1, 1);
    y = conv(b, "conv2", norm(b, "norm2", y), o->growth, 3, 1);
    return hr_concat(b->g, (const hr_value[]){x, y}, 2, 3);
}

static void build(hri_build *b) {
    const densenet *o = b->options;
    const hr_init bias = hr_init_constant(0.0);
    char name[64];
    hr_value x = hri_image(b, o->size, o->channels);
    hr_graph_push(b->g, "features");
    x = norm(b, "norm0", conv(b, "conv0", x, o->width, 7, 2));
    x = hr_max_pool(b->g, x, 3, 2, 1);
    for (int k = 0; k < 4; k++) {
        for (int64_t i = 0; i < o->layers.at[k]; i++) {
            snprintf(name, sizeof name, "denseblock%d.denselayer%lld", k + 1, (long long)i + 1);
            hr_graph_push(b->g, name);
            x = layer(b, x);
            hr_graph_pop(b->g);
        }
        if (k < 3) {
            snprintf(name, sizeof name, "transition%d", k + 1);
            hr_graph_push(b->g, name);
            x = conv(b, "conv", norm(b, "norm", x), hri_dim(b, x, 3) / 2, 1, 1);
            x = hr_avg_pool(b->g, x, 2, 2, 0);
            hr_graph_pop(b->g);
        }
    }
    x = norm(b, "norm5", x);
    hr_graph_pop(b->g);
    x = hr_global_avg_pool(b->g, x);
    hri_model_loss(b, hri_layer_linear(b, "classifier", x, o->classes, NULL, &bias));
}

static int64_t classes(const void *options) {
    return ((const densenet *)options)->classes;
}

static const hri_model_name names[] = {
    {"densenet121", "densely connected network, 121 layers, 8.0 million parameters", NULL},
    {"densenet161", "densely connected network, 161 layers, 28.7 million parameters",
     "layers=6x12x36x24,width=96,growth=48"},
    {"densenet169", "densely connected network, 169 layers, 14.1 million parameters",
     "layers=6x12x32x32"},
    {"densenet201", "densely connected network, 201 layers, 20.0 million parameters",
     "layers=6x12x48x32"},
    {NULL, NULL, NULL},
};

const hri_family hri_family_densenet = {
    .name = "densenet",
    .names = names,
    .fields = fields,
    .options_bytes = sizeof(densenet),
    .check = check,
    .build = build,
    .classes = classes,
};
