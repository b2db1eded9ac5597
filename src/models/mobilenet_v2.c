/* mobilenet_v2: small networks for images (Sandler et al. 2018), as torchvision has it.
 *
 *   3x3/2 conv - 17 inverted residuals - 1x1 conv - global mean - dropout - linear
 *   inverted residual:  1x1 to `expand` times the width - 3x3/s by channel - 1x1 without relu; added to its input where the shape stays
 *
 * relu ends at 6.  Names: features.0.{0,1}, features.<i>.conv.<j>[.0|.1], features.18.{0,1}, classifier.1.  Widths are those of the table
 * times `multiplier`, rounded to eights and never down by more than a tenth.  Convolutions begin normal with deviation
 * sqrt(2 / (out * k * k)), the classifier with 0.01 and a bias of 0. */
#include "models/common/layers.h"

#include <math.h>

typedef struct mobilenet_v2 {
    int64_t size, channels, classes;
    double multiplier, dropout;
} mobilenet_v2;

static const hri_field fields[] = {
    {"size", "image height and width", offsetof(mobilenet_v2, size), HRI_FIELD_INT, "224",
     .min = 32, .max = 65536},
    {"channels", "image channels", offsetof(mobilenet_v2, channels), HRI_FIELD_INT, "3", .min = 1,
     .max = 65536},
    {"classes", "number of classes", offsetof(mobilenet_v2, classes), HRI_FIELD_INT, "1000",
     .min = 1, .max = 1e7},
    {"multiplier", "widths, as a multiple of the usual ones", offsetof(mobilenet_v2, multiplier),
     HRI_FIELD_DOUBLE, "1", .min = 0.05, .max = 16},
    {"dropout", "dropout probability", offsetof(mobilenet_v2, dropout), HRI_FIELD_DOUBLE, "0.2",
     .min = 0, .max = 0.99},
    {0}};

/* Blocks in a row: the first of them has the stride. */
static const struct {
    int expand, out, count, stride;
} rows[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
            {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

/* Convolution, norm and relu up to 6, under <scope>.{0,1}. */
static hr_value unit(hri_build *b, const char *scope, hr_value x, int64_t out, int kernel,
                     int stride, bool by_channel) {
    const hr_init init = hr_init_normal(sqrt(2.0 / ((double)out * kernel * kernel)));
    hr_graph_push(b->g, scope);
    x = hri_layer_conv(b, "0", x,
                       &(hri_conv_layer){.out = out,
                                         .kernel = kernel,
                                         .stride = stride,
                                         .pad = kernel / 2,
                                         .groups = by_channel ? out : 1,
                                         .weight = &init});
    x = hr_clip(b->g, hri_layer_batch_norm(b, "1", x, false, HR_NONE), 0, 6);
    hr_graph_pop(b->g);
    return x;
}

static hr_value block(hri_build *b, hr_value x, int expand, int64_t out, int stride) {
    const int64_t in = hri_dim(b, x, 3), inner = in * expand;
    const hr_init init = hr_init_normal(sqrt(2.0 / (double)out));
    const int first = expand != 1;
    const hr_value before = x;
    char name[2][8];
    snprintf(name[0], sizeof name[0], "%d", first + 1);
    snprintf(name[1], sizeof name[1], "%d", first + 2);
    hr_graph_push(b->g, "conv");
    if (first) {
        x = unit(b, "0", x, inner, 1, 1, false);
    }
    x = unit(b, first ? "1" : "0", x, inner, 3, stride, true);
    x = hri_layer_conv(b, name[0], x,
                       &(hri_conv_layer){.out = out, .kernel = 1, .stride = 1, .weight = &init});
    x = hri_layer_batch_norm(b, name[1], x, false, HR_NONE);
    hr_graph_pop(b->g);
    return stride == 1 && in == out ? hr_add(b->g, before, x) : x;
}

static void build(hri_build *b) {
    const mobilenet_v2 *o = b->options;
    const hr_init weight = hr_init_normal(0.01), bias = hr_init_constant(0.0);
    const double wide = o->multiplier > 1 ? o->multiplier : 1;
    char name[32];
    int at = 1;
    hr_value x = hri_image(b, o->size, o->channels);
    x = unit(b, "features.0", x, hri_eights(32 * o->multiplier), 3, 2, false);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        for (int i = 0; i < rows[r].count; i++) {
            snprintf(name, sizeof name, "features.%d", at++);
            hr_graph_push(b->g, name);
            x = block(b, x, rows[r].expand, hri_eights(rows[r].out * o->multiplier),
                      i ? 1 : rows[r].stride);
            hr_graph_pop(b->g);
        }
    }
    snprintf(name, sizeof name, "features.%d", at);
    x = unit(b, name, x, hri_eights(1280 * wide), 1, 1, false);
    x = hri_layer_dropout(b, hr_global_avg_pool(b->g, x), o->dropout);
    hri_model_loss(b, hri_layer_linear(b, "classifier.1", x, o->classes, &weight, &bias));
}

static int64_t classes(const void *options) {
    return ((const mobilenet_v2 *)options)->classes;
}

static const hri_model_name names[] = {
    {"mobilenet_v2", "small network for images, 3.5 million parameters", NULL},
    {NULL, NULL, NULL},
};

const hri_family hri_family_mobilenet_v2 = {
    .name = "mobilenet_v2",
    .names = names,
    .fields = fields,
    .options_bytes = sizeof(mobilenet_v2),
    .build = build,
    .classes = classes,
};
