/* efficientnet_b0 to b7: networks that grow in width, depth and image size together (Tan and Le 2019), as torchvision has them.
 *
 *   3x3/2 conv - seven stages of inverted residuals - 1x1 conv - global mean - dropout - linear
 *   inverted residual:  1x1 - kxk/s by channel - squeeze and excitation - 1x1; added to its input where the shape stays
 *
 * Activations are silu.  Names: features.<i>.{0,1}, features.<stage>.<i>.block.<j>.{0,1,fc1,fc2}, classifier.1.  Channels are those
 * of the table times `width_by`, rounded to eights, layers times `depth_by`, rounded up.  b5 to b7 have norms with eps 0.001 and
 * momentum 0.01.  In training a whole residual of a sample is dropped with a probability that rises to `drop` at the last one.
 * Convolutions begin normal with deviation sqrt(2 / (out * k * k)), the classifier uniform within 1 / sqrt(classes), biases at 0. */
#include "models/common/layers.h"

#include <math.h>

typedef struct efficientnet {
    int64_t size, channels, classes;
    double width_by, depth_by, dropout, drop, eps, momentum;
} efficientnet;

static const hri_field fields[] = {
    {"size", "image height and width", offsetof(efficientnet, size), HRI_FIELD_INT, "224",
     .min = 32, .max = 65536},
    {"channels", "image channels", offsetof(efficientnet, channels), HRI_FIELD_INT, "3", .min = 1,
     .max = 65536},
    {"classes", "number of classes", offsetof(efficientnet, classes), HRI_FIELD_INT, "1000",
     .min = 1, .max = 1e7},
    {"width_by", "channels, as a multiple of those of b0", offsetof(efficientnet, width_by),
     HRI_FIELD_DOUBLE, "1", .min = 0.05, .max = 16},
    {"depth_by", "layers, as a multiple of those of b0", offsetof(efficientnet, depth_by),
     HRI_FIELD_DOUBLE, "1", .min = 0.05, .max = 16},
    {"dropout", "dropout probability", offsetof(efficientnet, dropout), HRI_FIELD_DOUBLE, "0.2",
     .min = 0, .max = 0.99},
    {"drop", "probability that the last residual is dropped", offsetof(efficientnet, drop),
     HRI_FIELD_DOUBLE, "0.2", .min = 0, .max = 0.99},
    {"eps", "of batch norm", offsetof(efficientnet, eps), HRI_FIELD_DOUBLE, "1e-5", .min = 1e-12,
     .max = 1},
    {"momentum", "of batch norm's running statistics", offsetof(efficientnet, momentum),
     HRI_FIELD_DOUBLE, "0.1", .min = 0, .max = 1},
    {0}};

static const struct {
    int expand, kernel, stride, out, count;
} stages[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
              {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
enum { STAGES = sizeof stages / sizeof stages[0] };

/* Convolution, norm and silu under <at>.{0,1}. */
static hr_value unit(hri_build *b, int *at, hr_value x, const hri_conv_layer *like, bool silu) {
    const efficientnet *o = b->options;
    char name[16];
    hri_conv_layer layer = *like;
    const hr_init init =
        hr_init_normal(sqrt(2.0 / ((double)layer.out * layer.kernel * layer.kernel)));
    layer.weight = &init;
    layer.pad = layer.kernel / 2;
    snprintf(name, sizeof name, "%d", (*at)++);
    hr_graph_push(b->g, name);
    x = hri_layer_conv(b, "0", x, &layer);
    x = hri_layer_batch_norm_of(b, "1", x, false, HR_NONE, o->eps, o->momentum);
    hr_graph_pop(b->g);
    return silu ? hr_silu(b->g, x) : x;
}

static hr_value block(hri_build *b, hr_value x, size_t stage, int64_t out, int stride,
                      double drop) {
    const int64_t in = hri_dim(b, x, 3),
                  inner = stages[stage].expand == 1 ? in
                                                    : hri_eights((double)in * stages[stage].expand);
    const hr_value before = x;
    int at = 0;
    char name[16];
    hr_graph_push(b->g, "block");
    if (inner != in) {
        x = unit(b, &at, x, &(hri_conv_layer){.out = inner, .kernel = 1, .stride = 1}, true);
    }
    x = unit(b, &at, x,
             &(hri_conv_layer){
                 .out = inner, .kernel = stages[stage].kernel, .stride = stride, .groups = inner},
             true);
    snprintf(name, sizeof name, "%d", at++);
    x = hri_layer_squeeze(b, name, x, in >= 4 ? in / 4 : 1, false);
    x = unit(b, &at, x, &(hri_conv_layer){.out = out, .kernel = 1, .stride = 1}, false);
    hr_graph_pop(b->g);
    return stride == 1 && in == out ? hr_add(b->g, hri_layer_drop_path(b, x, drop), before) : x;
}

static int layers_of(const efficientnet *o, size_t stage) {
    return (int)ceil(stages[stage].count * o->depth_by);
}

static void build(hri_build *b) {
    const efficientnet *o = b->options;
    const double bound = 1.0 / sqrt((double)o->classes);
    const hr_init weight = hr_init_uniform(-bound, bound), bias = hr_init_constant(0.0);
    int at = 0, done = 0, all = 0;
    char name[32];
    for (size_t s = 0; s < STAGES; s++) {
        all += layers_of(o, s);
    }
    hr_value x = hri_image(b, o->size, o->channels);
    hr_graph_push(b->g, "features");
    x = unit(b, &at, x,
             &(hri_conv_layer){.out = hri_eights(32 * o->width_by), .kernel = 3, .stride = 2},
             true);
    for (size_t s = 0; s < STAGES; s++, at++) {
        for (int i = 0; i < layers_of(o, s); i++, done++) {
            snprintf(name, sizeof name, "%d.%d", at, i);
            hr_graph_push(b->g, name);
            x = block(b, x, s, hri_eights(stages[s].out * o->width_by), i ? 1 : stages[s].stride,
                      o->drop * done / all);
            hr_graph_pop(b->g);
        }
    }
    x = unit(b, &at, x, &(hri_conv_layer){.out = 4 * hri_dim(b, x, 3), .kernel = 1, .stride = 1},
             true);
    hr_graph_pop(b->g);
    x = hri_layer_dropout(b, hr_global_avg_pool(b->g, x), o->dropout);
    hri_model_loss(b, hri_layer_linear(b, "classifier.1", x, o->classes, &weight, &bias));
}

static int64_t classes(const void *options) {
    return ((const efficientnet *)options)->classes;
}

static const hri_model_name names[] = {
    {"efficientnet_b0", "network for images of 224 pixels, 5.3 million parameters", NULL},
    {"efficientnet_b1", "network for images of 240 pixels, 7.8 million parameters",
     "size=240,depth_by=1.1"},
    {"efficientnet_b2", "network for images of 288 pixels, 9.1 million parameters",
     "size=288,width_by=1.1,depth_by=1.2,dropout=0.3"},
    {"efficientnet_b3", "network for images of 300 pixels, 12.2 million parameters",
     "size=300,width_by=1.2,depth_by=1.4,dropout=0.3"},
    {"efficientnet_b4", "network for images of 380 pixels, 19.3 million parameters",
     "size=380,width_by=1.4,depth_by=1.8,dropout=0.4"},
    {"efficientnet_b5", "network for images of 456 pixels, 30.4 million parameters",
     "size=456,width_by=1.6,depth_by=2.2,dropout=0.4,eps=0.001,momentum=0.01"},
    {"efficientnet_b6", "network for images of 528 pixels, 43.0 million parameters",
     "size=528,width_by=1.8,depth_by=2.6,dropout=0.5,eps=0.001,momentum=0.01"},
    {"efficientnet_b7", "network for images of 600 pixels, 66.3 million parameters",
     "size=600,width_by=2,depth_by=3.1,dropout=0.5,eps=0.001,momentum=0.01"},
    {NULL, NULL, NULL},
};

const hri_family hri_family_efficientnet = {
    .name = "efficientnet",
    .names = names,
    .fields = fields,
    .options_bytes = sizeof(efficientnet),
    .build = build,
    .classes = classes,
};
