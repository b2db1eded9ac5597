/* lenet: the small convolutional network of 1998 (LeCun et al.) in its usual modern form.
 *
 *   5x5 conv, 6 - relu - 2x2 max pool - 5x5 conv, 16 - relu - 2x2 max pool - linear 120 - relu - linear 84 - relu - linear
 *
 * Names: conv1, conv2, fc1, fc2, fc3.  The first convolution is padded by 2, so that 28 x 28 images do.  Before fc1 the
 * image is turned to (C, H, W), so that the columns of fc1.weight are in torch's order. */
#include "models/common/layers.h"

typedef struct lenet {
    int64_t size, channels, classes;
} lenet;

static const hri_field fields[] = {{"size", "image height and width", offsetof(lenet, size),
                                    HRI_FIELD_INT, "28", .min = 12, .max = 65536},
                                   {"channels", "image channels", offsetof(lenet, channels),
                                    HRI_FIELD_INT, "1", .min = 1, .max = 65536},
                                   {"classes", "number of classes", offsetof(lenet, classes),
                                    HRI_FIELD_INT, "10", .min = 1, .max = 1e7},
                                   {0}};

static hr_value stage(hri_build *b, const char *name, hr_value x, int64_t out, int pad) {
    x = hri_layer_conv(
        b, name, x,
        &(hri_conv_layer){.out = out, .kernel = 5, .stride = 1, .pad = pad, .bias = true});
    return hr_max_pool(b->g, hr_relu(b->g, x), 2, 2, 0);
}

static void build(hri_build *b) {
    const lenet *o = b->options;
    hr_value x = stage(b, "conv1", hri_image(b, o->size, o->channels), 6, 2);
    x = stage(b, "conv2", x, 16, 0);
    const int64_t flat = hri_dim(b, x, 1) * hri_dim(b, x, 2) * 16;
    x = hr_reshape(b->g, hr_transpose(b->g, x, "0x3x1x2"), hr_shape_2(b->batch, flat));
    x = hr_relu(b->g, hri_layer_linear(b, "fc1", x, 120, NULL, NULL));
    x = hr_relu(b->g, hri_layer_linear(b, "fc2", x, 84, NULL, NULL));
    hri_model_loss(b, hri_layer_linear(b, "fc3", x, o->classes, NULL, NULL));
}

static int64_t classes(const void *options) {
    return ((const lenet *)options)->classes;
}

static const hri_model_name names[] = {
    {"lenet", "two convolutions and three linear layers, for small images", NULL},
    {NULL, NULL, NULL},
};

const hri_family hri_family_lenet = {
    .name = "lenet",
    .names = names,
    .fields = fields,
    .options_bytes = sizeof(lenet),
    .build = build,
    .classes = classes,
};
