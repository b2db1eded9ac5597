/* mobilenet_v3_large, mobilenet_v3_small: small networks for images (Howard et al. 2019), as torchvision has them.
 *
 *   3x3/2 conv - inverted residuals of two tables - 1x1 conv - global mean - linear - dropout - linear
 *   inverted residual:  1x1 - kxk/s by channel - [squeeze and excitation] - 1x1; added to its input where the shape stays
 *
 * Names: features.<i>.{0,1}, features.<i>.block.<j>.{0,1,fc1,fc2}, classifier.{0,3}.  Norms have eps 0.001 and momentum 0.01.
 * Widths are those of the tables times `multiplier`, rounded to eights.  Convolutions begin normal with deviation
 * sqrt(2 / (out * k * k)), linear layers with 0.01, biases at 0. */
#include "models/common/layers.h"

#include <math.h>

typedef struct mobilenet_v3 {
    int64_t size, channels, classes;
    double multiplier, dropout;
    int kind;
} mobilenet_v3;

enum { LARGE, SMALL };
static const char *const kinds[] = {"large", "small", NULL};

static const hri_field fields[] = {
    {"size", "image height and width", offsetof(mobilenet_v3, size), HRI_FIELD_INT, "224",
     .min = 32, .max = 65536},
    {"channels", "image channels", offsetof(mobilenet_v3, channels), HRI_FIELD_INT, "3", .min = 1,
     .max = 65536},
    {"classes", "number of classes", offsetof(mobilenet_v3, classes), HRI_FIELD_INT, "1000",
     .min = 1, .max = 1e7},
    {"multiplier", "widths, as a multiple of the usual ones", offsetof(mobilenet_v3, multiplier),
     HRI_FIELD_DOUBLE, "1", .min = 0.05, .max = 16},
    {"dropout", "dropout probability", offsetof(mobilenet_v3, dropout), HRI_FIELD_DOUBLE, "0.2",
     .min = 0, .max = 0.99},
    {"kind", "which table of blocks", offsetof(mobilenet_v3, kind), HRI_FIELD_ENUM, "large",
     .choices = kinds},
    {0}};

typedef struct row {
    int kernel, inner, out;
    bool squeeze, swish;
    int stride;
} row;

static const row large[] = {{3, 16, 16, 0, 0, 1},   {3, 64, 24, 0, 0, 2},   {3, 72, 24, 0, 0, 1},
                            {5, 72, 40, 1, 0, 2},   {5, 120, 40, 1, 0, 1},  {5, 120, 40, 1, 0, 1},
                            {3, 240, 80, 0, 1, 2},  {3, 200, 80, 0, 1, 1},  {3, 184, 80, 0, 1, 1},
                            {3, 184, 80, 0, 1, 1},  {3, 480, 112, 1, 1, 1}, {3, 672, 112, 1, 1, 1},
                            {5, 672, 160, 1, 1, 2}, {5, 960, 160, 1, 1, 1}, {5, 960, 160, 1, 1, 1}};
static const row small[] = {{3, 16, 16, 1, 0, 2},  {3, 72, 24, 0, 0, 2},  {3, 88, 24, 0, 0, 1},
                            {5, 96, 40, 1, 1, 2},  {5, 240, 40, 1, 1, 1}, {5, 240, 40, 1, 1, 1},
                            {5, 120, 48, 1, 1, 1}, {5, 144, 48, 1, 1, 1}, {5, 288, 96, 1, 1, 2},
                            {5, 576, 96, 1, 1, 1}, {5, 576, 96, 1, 1, 1}};

typedef enum act { NONE, RELU, SWISH } act;

/* Convolution, norm and activation under <at>.{0,1}. */
static hr_value unit(hri_build *b, int *at, hr_value x, const hri_conv_layer *like, act a) {
    char name[16];
    hri_conv_layer layer = *like;
    const hr_init init =
        hr_init_normal(sqrt(2.0 / ((double)layer.out * layer.kernel * layer.kernel)));
    layer.weight = &init;
    layer.pad = layer.kernel / 2;
    snprintf(name, sizeof name, "%d", (*at)++);
    hr_graph_push(b->g, name);
    x = hri_layer_conv(b, "0", x, &layer);
    x = hri_layer_batch_norm_of(b, "1", x, a == RELU, HR_NONE, 0.001, 0.01);
    hr_graph_pop(b->g);
    return a == SWISH ? hr_function(b->g, x, "hard_swish", 0) : x;
}

static hr_value block(hri_build *b, hr_value x, const row *r) {
    const mobilenet_v3 *o = b->options;
    const int64_t in = hri_dim(b, x, 3), inner = hri_eights(r->inner * o->multiplier),
                  out = hri_eights(r->out * o->multiplier);
    const act a = r->swish ? SWISH : RELU;
    const hr_value before = x;
    int at = 0;
    hr_graph_push(b->g, "block");
    if (inner != in) {
        x = unit(b, &at, x, &(hri_conv_layer){.out = inner, .kernel = 1, .stride = 1}, a);
    }
    x = unit(
        b, &at, x,
        &(hri_conv_layer){.out = inner, .kernel = r->kernel, .stride = r->stride, .groups = inner},
        a);
    if (r->squeeze) {
        char name[16];
        snprintf(name, sizeof name, "%d", at++);
        x = hri_layer_squeeze(b, name, x, hri_eights((double)(inner / 4)), true);
    }
    x = unit(b, &at, x, &(hri_conv_layer){.out = out, .kernel = 1, .stride = 1}, NONE);
    hr_graph_pop(b->g);
    return r->stride == 1 && in == out ? hr_add(b->g, x, before) : x;
}

static void build(hri_build *b) {
    const mobilenet_v3 *o = b->options;
    const hr_init weight = hr_init_normal(0.01), bias = hr_init_constant(0.0);
    const row *rows = o->kind == LARGE ? large : small;
    const int count =
        o->kind == LARGE ? sizeof large / sizeof large[0] : sizeof small / sizeof small[0];
    int at = 0;
    hr_value x = hri_image(b, o->size, o->channels);
    hr_graph_push(b->g, "features");
    x = unit(b, &at, x,
             &(hri_conv_layer){.out = hri_eights(16 * o->multiplier), .kernel = 3, .stride = 2},
             SWISH);
    for (int i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", at++);
        hr_graph_push(b->g, name);
        x = block(b, x, &rows[i]);
        hr_graph_pop(b->g);
    }
    x = unit(b, &at, x, &(hri_conv_layer){.out = 6 * hri_dim(b, x, 3), .kernel = 1, .stride = 1},
             SWISH);
    hr_graph_pop(b->g);
    x = hr_global_avg_pool(b->g, x);
    x = hri_layer_linear(b, "classifier.0", x,
                         hri_eights((o->kind == LARGE ? 1280 : 1024) * o->multiplier), &weight,
                         &bias);
    x = hri_layer_dropout(b, hr_function(b->g, x, "hard_swish", 0), o->dropout);
    hri_model_loss(b, hri_layer_linear(b, "classifier.3", x, o->classes, &weight, &bias));
}

static int64_t classes(const void *options) {
    return ((const mobilenet_v3 *)options)->classes;
}

static const hri_model_name names[] = {
    {"mobilenet_v3_large", "small network for images, 5.5 million parameters", NULL},
    {"mobilenet_v3_small", "small network for images, 2.5 million parameters", "kind=small"},
    {NULL, NULL, NULL},
};

const hri_family hri_family_mobilenet_v3 = {
    .name = "mobilenet_v3",
    .names = names,
    .fields = fields,
    .options_bytes = sizeof(mobilenet_v3),
    .build = build,
    .classes = classes,
};
