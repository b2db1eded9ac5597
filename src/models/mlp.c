/* mlp: linear layers with relu between them.
 *
 *   image (N, size, size, channels) -> flat -> [linear(width), relu, dropout] * layers -> linear(classes)
 *   x (N, inputs) -> the same, for rows of a table
 *
 * Parameters: layers.<i>.{weight,bias} for i = 0 .. layers - 1, then head.{weight,bias}.  There is no such model in
 * torchvision; with one channel the order of the flat image is torch's too. */
#include "models/common/layers.h"

typedef struct mlp {
    int64_t size, channels, inputs, width, layers, classes;
    double dropout;
} mlp;

static const hri_field fields[] = {
    {"size", "image height and width", offsetof(mlp, size), HRI_FIELD_INT, "28", .min = 1,
     .max = 65536},
    {"channels", "image channels", offsetof(mlp, channels), HRI_FIELD_INT, "1", .min = 1,
     .max = 65536},
    {"inputs", "numbers per sample of a table; 0: an image", offsetof(mlp, inputs), HRI_FIELD_INT,
     "0", .min = 0, .max = 1e7},
    {"width", "width of the hidden layers", offsetof(mlp, width), HRI_FIELD_INT, "512", .min = 1,
     .max = 1e6},
    {"layers", "number of hidden layers", offsetof(mlp, layers), HRI_FIELD_INT, "2", .min = 0,
     .max = 1000},
    {"classes", "number of classes", offsetof(mlp, classes), HRI_FIELD_INT, "10", .min = 1,
     .max = 1e7},
    {"dropout", "dropout probability of the hidden units", offsetof(mlp, dropout), HRI_FIELD_DOUBLE,
     "0", .min = 0, .max = 0.99},
    {0}};

static void build(hri_build *b) {
    const mlp *o = b->options;
    hr_value x;
    if (o->inputs) {
        x = hr_graph_input(b->g, "x", HR_TYPE_F32, hr_shape_2(b->batch, o->inputs));
    } else {
        x = hr_reshape(b->g, hri_image(b, o->size, o->channels),
                       hr_shape_2(b->batch, o->size * o->size * o->channels));
    }
    for (int64_t i = 0; i < o->layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%d", (int)i);
        x = hr_relu(b->g, hri_layer_linear(b, name, x, o->width, NULL, NULL));
        x = hri_layer_dropout(b, x, o->dropout);
    }
    hri_model_loss(b, hri_layer_linear(b, "head", x, o->classes, NULL, NULL));
}

static int64_t classes(const void *options) {
    return ((const mlp *)options)->classes;
}

static const hri_model_name names[] = {
    {"mlp", "linear layers with ReLU between them", NULL},
    {NULL, NULL, NULL},
};

const hri_family hri_family_mlp = {
    .name = "mlp",
    .names = names,
    .fields = fields,
    .options_bytes = sizeof(mlp),
    .build = build,
    .classes = classes,
};
