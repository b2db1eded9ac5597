/* resnet18 to resnet152, resnext, wide_resnet: residual networks for images (He et al. 2015), as torchvision has them.
 *
 *   7x7/2 conv - norm - relu - 3x3/2 max pool - four stages of blocks - global mean - linear
 *   basic:       3x3/s  3x3                        width, width
 *   bottleneck:  1x1    3x3/s  1x1                 inner, inner, 4 width     ("v1.5": the stride is in the 3x3)
 *
 * inner is width * group_width / 64 * groups: the 3x3 of ResNeXt has 32 groups, a wide ResNet is twice as wide inside.
 *
 * Each stage but the first halves the image and doubles the width in its first block, where the shortcut is a 1x1
 * convolution.  Names: conv1, bn1, layer<1-4>.<i>.{conv1,bn1,conv2,bn2[,conv3,bn3],downsample.0,downsample.1}, fc.
 * With norm=group each sample is normalised by itself, so that micro-batches give the same function; the names stay.
 * Convolutions have no bias and begin normal with deviation sqrt(2 / (out * k * k)).  The sum and the relu at the end of
 * a block are one node with its last norm. */
#include "models/common/layers.h"

#include <math.h>

typedef struct resnet {
    int64_t size, channels, width, classes, groups, group_width;
    hri_dims layers;
    int block, norm;
} resnet;

enum { BASIC, BOTTLENECK };
enum { BATCH, GROUP };
static const char *const norms[] = {"batch", "group", NULL};
static const char *const blocks[] = {"basic", "bottleneck", NULL};

static const hri_field fields[] = {
    {"size", "image height and width", offsetof(resnet, size), HRI_FIELD_INT, "224", .min = 1,
     .max = 65536},
    {"channels", "image channels", offsetof(resnet, channels), HRI_FIELD_INT, "3", .min = 1,
     .max = 65536},
    {"classes", "number of classes", offsetof(resnet, classes), HRI_FIELD_INT, "1000", .min = 1,
     .max = 1e7},
    {"width", "channels of the first stage", offsetof(resnet, width), HRI_FIELD_INT, "64", .min = 1,
     .max = 65536},
    {"layers", "blocks per stage", offsetof(resnet, layers), HRI_FIELD_DIMS, "2x2x2x2"},
    {"block", "block type", offsetof(resnet, block), HRI_FIELD_ENUM, "basic", .choices = blocks},
    {"groups", "groups of the 3x3 convolution of a bottleneck", offsetof(resnet, groups),
     HRI_FIELD_INT, "1", .min = 1, .max = 65536},
    {"group_width", "channels of a group in a bottleneck, for 64 of the stage",
     offsetof(resnet, group_width), HRI_FIELD_INT, "64", .min = 1, .max = 65536},
    {"norm", "normalization: batch norm, or group norm", offsetof(resnet, norm), HRI_FIELD_ENUM,
     "batch", .choices = norms},
    {0}};

static hr_status check(const void *options, hri_prose *why) {
    const resnet *o = options;
    if (o->layers.count < 1 || o->layers.count > 6) {
        return hri_prose_set(why, HR_E_INVALID, "layers: 1 to 6 stages are possible, not %lld",
                             (long long)o->layers.count);
    }
    const int64_t inner = o->width * o->group_width / 64;
    if (o->block == BASIC ? o->groups > 1 || o->group_width != 64 : inner < 1) {
        return hri_prose_set(why, HR_E_INVALID,
                             o->block == BASIC ? "groups and group_width need block=bottleneck"
                                               : "group_width: too small for this width");
    }
    for (int i = 0; i < o->layers.count; i++) {
        if (o->layers.at[i] < 1 || o->layers.at[i] > 1000) {
            return hri_prose_set(why, HR_E_RANGE,
                                 "layers: a stage can have 1 to 1000 blocks, "
                                 "not %lld",
                                 (long long)o->layers.at[i]);
        }
    }
    return HR_OK;
}

static hr_value conv(hri_build *b, const char *name, hr_value x, int64_t out, int kernel,
                     int stride, int64_t groups) {
    const hr_init init = hr_init_normal(sqrt(2.0 / ((double)out * kernel * kernel)));
    return hri_layer_conv(b, name, x,
                          &(hri_conv_layer){.out = out,
                                            .kernel = kernel,
                                            .stride = stride,
                                            .pad = kernel / 2,
                                            .groups = groups,
                                            .weight = &init});
}

static hr_value norm(hri_build *b, const char *name, hr_value x, bool relu, hr_value z) {
    const resnet *o = b->options;
    return o->norm == GROUP ? hri_layer_group_norm(b, name, x, relu, z)
                            : hri_layer_batch_norm(b, name, x, relu, z);
}

static hr_value block(hri_build *b, hr_value x, int64_t width, int stride, int kind) {
    const resnet *o = b->options;
    const int64_t out = kind == BOTTLENECK ? width * 4 : width;
    const int64_t inner = width * o->group_width / 64 * o->groups;
    hr_value y, shortcut = x;
    if (kind == BOTTLENECK) {
        y = norm(b, "bn1", conv(b, "conv1", x, inner, 1, 1, 1), true, HR_NONE);
        y = norm(b, "bn2", conv(b, "conv2", y, inner, 3, stride, o->groups), true, HR_NONE);
        y = conv(b, "conv3", y, out, 1, 1, 1);
    } else {
        y = norm(b, "bn1", conv(b, "conv1", x, width, 3, stride, 1), true, HR_NONE);
        y = conv(b, "conv2", y, out, 3, 1, 1);
    }
    if (stride != 1 || hri_dim(b, x, 3) != out) {
        shortcut = conv(b, "downsample.0", x, out, 1, stride, 1);
        shortcut = norm(b, "downsample.1", shortcut, false, HR_NONE);
    }
    return norm(b, kind == BOTTLENECK ? "bn3" : "bn2", y, true, shortcut);
}

static void build(hri_build *b) {
    const resnet *o = b->options;
    hr_value x = hri_image(b, o->size, o->channels);
    x = norm(b, "bn1", conv(b, "conv1", x, o->width, 7, 2, 1), true, HR_NONE);
    x = hr_max_pool(b->g, x, 3, 2, 1);
    for (int stage = 0; stage < o->layers.count; stage++) {
        for (int64_t i = 0; i < o->layers.at[stage]; i++) {
            char name[32];
            snprintf(name, sizeof name, "layer%d.%d", stage + 1, (int)i);
            hr_graph_push(b->g, name);
            x = block(b, x, o->width << stage, stage && i == 0 ? 2 : 1, o->block);
            hr_graph_pop(b->g);
        }
    }
    x = hr_global_avg_pool(b->g, x);
    hri_model_loss(b, hri_layer_linear(b, "fc", x, o->classes, NULL, NULL));
}

static int64_t classes(const void *options) {
    return ((const resnet *)options)->classes;
}

static const hri_model_name names[] = {
    {"resnet18", "residual network, 18 layers, 11.7 million parameters", NULL},
    {"resnet34", "residual network, 34 layers, 21.8 million parameters", "layers=3x4x6x3"},
    {"resnet50", "residual network, 50 layers, 25.6 million parameters",
     "layers=3x4x6x3,block=bottleneck"},
    {"resnet101", "residual network, 101 layers, 44.5 million parameters",
     "layers=3x4x23x3,block=bottleneck"},
    {"resnet152", "residual network, 152 layers, 60.2 million parameters",
     "layers=3x8x36x3,block=bottleneck"},
    {"resnext50_32x4d", "residual network with 32 groups, 25.0 million parameters",
     "layers=3x4x6x3,block=bottleneck,groups=32,group_width=4"},
    {"resnext101_32x8d", "residual network with 32 groups, 88.8 million parameters",
     "layers=3x4x23x3,block=bottleneck,groups=32,group_width=8"},
    {"wide_resnet50_2", "residual network, twice as wide inside, 68.9 million parameters",
     "layers=3x4x6x3,block=bottleneck,group_width=128"},
    {"wide_resnet101_2", "residual network, twice as wide inside, 126.9 million parameters",
     "layers=3x4x23x3,block=bottleneck,group_width=128"},
    {NULL, NULL, NULL},
};

const hri_family hri_family_resnet = {
    .name = "resnet",
    .names = names,
    .fields = fields,
    .options_bytes = sizeof(resnet),
    .check = check,
    .build = build,
    .classes = classes,
};
