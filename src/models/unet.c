/* unet: a class for every pixel (Ronneberger et al. 2015), in the form of the widely used PyTorch one.
 *
 *   down: two 3x3 convolutions with norm and relu, 2x2 max pool       `depth` times, the width doubling
 *   up:   resize by 2, the skip of the same size before it, two 3x3 convolutions
 *   out:  1x1 convolution to the classes
 *
 * The skips live from the way down to the way up: the longest lifetimes of any model here.  Names: inc.double_conv.
 * {0,1,3,4}, down<i>.maxpool_conv.1.double_conv.*, up<i>.conv.double_conv.*, outc.conv.  Resizing is bilinear with
 * corners not aligned, and the size must be a multiple of 2^depth, so that nothing has to be padded. */
#include "models/common/layers.h"

typedef struct unet {
    int64_t size, channels, classes, width, depth;
} unet;

static const hri_field fields[] = {
    {"size", "image height and width", offsetof(unet, size), HRI_FIELD_INT, "256", .min = 1,
     .max = 65536},
    {"channels", "image channels", offsetof(unet, channels), HRI_FIELD_INT, "3", .min = 1,
     .max = 65536},
    {"classes", "classes of a pixel", offsetof(unet, classes), HRI_FIELD_INT, "2", .min = 1,
     .max = 1e6},
    {"width", "channels at full resolution", offsetof(unet, width), HRI_FIELD_INT, "64", .min = 1,
     .max = 65536},
    {"depth", "halvings", offsetof(unet, depth), HRI_FIELD_INT, "4", .min = 1, .max = 8},
    {0}};

static hr_status check(const void *options, hri_prose *why) {
    const unet *o = options;
    if (o->size % ((int64_t)1 << o->depth)) {
        return hri_prose_set(why, HR_E_INVALID, "size: %lld is not a multiple of %lld (2^depth)",
                             (long long)o->size, (long long)1 << o->depth);
    }
    return HR_OK;
}

static hr_value conv3(hri_build *b, const char *name, hr_value x, int64_t out) {
    return hri_layer_conv(b, name, x,
                          &(hri_conv_layer){.out = out, .kernel = 3, .stride = 1, .pad = 1});
}

static hr_value two(hri_build *b, const char *scope, hr_value x, int64_t middle, int64_t out) {
    hr_graph_push(b->g, scope);
    hr_graph_push(b->g, "double_conv");
    x = hri_layer_batch_norm(b, "1", conv3(b, "0", x, middle), true, HR_NONE);
    x = hri_layer_batch_norm(b, "4", conv3(b, "3", x, out), true, HR_NONE);
    hr_graph_pop(b->g);
    hr_graph_pop(b->g);
    return x;
}

static void build(hri_build *b) {
    const unet *o = b->options;
    const int depth = (int)o->depth;
    char name[64];
    hr_value skip[16];
    skip[0] = two(b, "inc", hri_image(b, o->size, o->channels), o->width, o->width);
    for (int i = 1; i <= depth; i++) {
        const int64_t out = o->width << (i < depth ? i : i - 1);
        snprintf(name, sizeof name, "down%d.maxpool_conv.1", i);
        skip[i] = two(b, name, hr_max_pool(b->g, skip[i - 1], 2, 2, 0), out, out);
    }
    hr_value x = skip[depth];
    for (int i = depth - 1; i >= 0; i--) {
        const int size = (int)(o->size >> i);
        snprintf(name, sizeof name, "up%d.conv", depth - i);
        x = hr_resize(b->g, x, size, size, "bilinear");
        x = hr_concat(b->g, (const hr_value[]){skip[i], x}, 2, 3);
        x = two(b, name, x, o->width << i, o->width << (i > 0 ? i - 1 : 0));
    }
    x = hri_layer_conv(
        b, "outc.conv", x,
        &(hri_conv_layer){.out = o->classes, .kernel = 1, .stride = 1, .bias = true});
    hri_model_loss(b, x);
}

static int64_t classes(const void *options) {
    return ((const unet *)options)->classes;
}

static const hri_model_name names[] = {
    {"unet", "U-Net for segmentation, 17.3 million parameters", NULL},
    {NULL, NULL, NULL},
};

const hri_family hri_family_unet = {
    .name = "unet",
    .names = names,
    .fields = fields,
    .options_bytes = sizeof(unet),
    .check = check,
    .build = build,
    .classes = classes,
};
