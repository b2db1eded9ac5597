/* vgg11 to vgg19, with and without batch norm: convolutions of 3x3 in five stages (Simonyan and Zisserman 2014), as torchvision has
 * them.
 *
 *   stage: `layers` times 3x3 conv [- norm] - relu, then 2x2 max pool       width, 2, 4, 8 and 8 times it
 *   mean to 7x7 - linear - relu - dropout - linear - relu - dropout - linear
 *
 * Names: features.<i> counts convolutions, norms, relus and pools; classifier.{0,3,6}.  The linear layers see channels first.  The
 * image is 32 pixels or a multiple of 224, so that what comes out of the stages is one place or a multiple of seven.
 * Convolutions begin normal with deviation sqrt(2 / (out * 9)), linear layers with 0.01, biases at 0. */
#include "models/common/layers.h"

#include <math.h>

enum { STAGES = 5, GRID = 7 };

typedef struct vgg {
    int64_t size, channels, width, hidden, classes;
    hri_dims layers;
    bool norm;
    double dropout;
} vgg;

static const hri_field fields[] = {
    {"size", "image height and width: 32, or a multiple of 224", offsetof(vgg, size), HRI_FIELD_INT,
     "224", .min = 32, .max = 65536},
    {"channels", "image channels", offsetof(vgg, channels), HRI_FIELD_INT, "3", .min = 1,
     .max = 65536},
    {"classes", "number of classes", offsetof(vgg, classes), HRI_FIELD_INT, "1000", .min = 1,
     .max = 1e7},
    {"width", "channels of the first stage", offsetof(vgg, width), HRI_FIELD_INT, "64", .min = 1,
     .max = 8192},
    {"hidden", "width of the two linear layers", offsetof(vgg, hidden), HRI_FIELD_INT, "4096",
     .min = 1, .max = 1e6},
    {"layers", "convolutions per stage", offsetof(vgg, layers), HRI_FIELD_DIMS, "1x1x2x2x2"},
    {"norm", "batch norm after each convolution", offsetof(vgg, norm), HRI_FIELD_BOOL, "off"},
    {"dropout", "dropout probability", offsetof(vgg, dropout), HRI_FIELD_DOUBLE, "0.5", .min = 0,
     .max = 0.99},
    {0}};

static hr_status check(const void *options, hri_prose *why) {
    const vgg *o = options;
    if (o->size != 32 && o->size % 224) {
        return hri_prose_set(why, HR_E_INVALID, "size: %lld is neither 32 nor a multiple of 224",
                             (long long)o->size);
    }
    if (o->layers.count != STAGES) {
        return hri_prose_set(why, HR_E_INVALID, "layers: 5 stages are needed, not %lld",
                             (long long)o->layers.count);
    }
    for (int i = 0; i < STAGES; i++) {
        if (o->layers.at[i] < 1 || o->layers.at[i] > 100) {
            return hri_prose_set(why, HR_E_RANGE,
                                 "layers: a stage can have 1 to 100 convolutions, not %lld",
                                 (long long)o->layers.at[i]);
        }
    }
    return HR_OK;
}

static hr_value conv(hri_build *b, int *at, hr_value x, int64_t out) {
    const vgg *o = b->options;
    const hr_init init = hr_init_normal(sqrt(2.0 / (9.0 * (double)out)));
    char name[32];
    snprintf(name, sizeof name, "features.%d", *at);
    x = hri_layer_conv(b, name, x,
                       &(hri_conv_layer){.out = out,
                                         .kernel = 3,
                                         .stride = 1,
                                         .pad = 1,
                                         .bias = true,
                                         .zero_bias = true,
                                         .weight = &init});
    *at += o->norm ? 3 : 2;
    if (!o->norm) {
        return hr_relu(b->g, x);
    }
    snprintf(name, sizeof name, "features.%d", *at - 2);
    return hri_layer_batch_norm(b, name, x, true, HR_NONE);
}

/* (N, H, W, C) -> (N, 49 C): means over a grid of seven by seven, channels first. */
static hr_value flatten(hri_build *b, hr_value x) {
    const int64_t side = hri_dim(b, x, 1), channels = hri_dim(b, x, 3);
    if (side == 1) {
        x = hr_resize(b->g, x, GRID, GRID, "nearest");
    } else if (side > GRID) {
        x = hr_avg_pool(b->g, x, (int)(side / GRID), (int)(side / GRID), 0);
    }
    return hr_reshape(b->g, hr_transpose(b->g, x, "0x3x1x2"),
                      hr_shape_2(b->batch, channels * GRID * GRID));
}

static void build(hri_build *b) {
    const vgg *o = b->options;
    const hr_init weight = hr_init_normal(0.01), bias = hr_init_constant(0.0);
    int at = 0;
    hr_value x = hri_image(b, o->size, o->channels);
    for (int stage = 0; stage < STAGES; stage++) {
        for (int64_t i = 0; i < o->layers.at[stage]; i++) {
            x = conv(b, &at, x, o->width << (stage < 3 ? stage : 3));
        }
        x = hr_max_pool(b->g, x, 2, 2, 0);
        at++;
    }
    x = flatten(b, x);
    x = hr_relu(b->g, hri_layer_linear(b, "classifier.0", x, o->hidden, &weight, &bias));
    x = hri_layer_dropout(b, x, o->dropout);
    x = hr_relu(b->g, hri_layer_linear(b, "classifier.3", x, o->hidden, &weight, &bias));
    x = hri_layer_dropout(b, x, o->dropout);
    hri_model_loss(b, hri_layer_linear(b, "classifier.6", x, o->classes, &weight, &bias));
}

static int64_t classes(const void *options) {
    return ((const vgg *)options)->classes;
}

static const hri_model_name names[] = {
    {"vgg11", "3x3 convolutions, 11 layers, 132.9 million parameters", NULL},
    {"vgg13", "3x3 convolutions, 13 layers, 133.0 million parameters", "layers=2x2x2x2x2"},
    {"vgg16", "3x3 convolutions, 16 layers, 138.4 million parameters", "layers=2x2x3x3x3"},
    {"vgg19", "3x3 convolutions, 19 layers, 143.7 million parameters", "layers=2x2x4x4x4"},
    {"vgg11_bn", "vgg11 with batch norm", "norm=on"},
    {"vgg13_bn", "vgg13 with batch norm", "layers=2x2x2x2x2,norm=on"},
    {"vgg16_bn", "vgg16 with batch norm", "layers=2x2x3x3x3,norm=on"},
    {"vgg19_bn", "vgg19 with batch norm", "layers=2x2x4x4x4,norm=on"},
    {NULL, NULL, NULL},
};

const hri_family hri_family_vgg = {
    .name = "vgg",
    .names = names,
    .fields = fields,
    .options_bytes = sizeof(vgg),
    .check = check,
    .build = build,
    .classes = classes,
};
