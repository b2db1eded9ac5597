/* erase(chance=0.5,least=0.02,most=0.33)  puts a rectangle of one colour into pictures at random: random erasing (Zhong et al. 2017).
 *
 * The rectangle has a share of the area drawn between the two and a ratio of height to width whose logarithm is drawn from that of
 * 0.3 to 3.3, as in torchvision; one that does not fit is drawn again, ten times at most.  All channels get `value`; 124 is
 * near the mean of photographs, which is 0 once they are normalised. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "data/image/op.h"

typedef struct options {
    hri_apply_options apply;
    double chance, least, most;
    int64_t value, seed;
} options;

enum { TRIES = 10 };

static const hri_field fields[] = {{"chance", "fraction of the images in which something is erased",
                                    offsetof(options, chance), HRI_FIELD_DOUBLE, "0.5", .min = 0,
                                    .max = 1},
                                   {"least", "smallest share of the area", offsetof(options, least),
                                    HRI_FIELD_DOUBLE, "0.02", .min = 0, .max = 1},
                                   {"most", "largest share of the area", offsetof(options, most),
                                    HRI_FIELD_DOUBLE, "0.33", .min = 0, .max = 1},
                                   {"value", "what all channels get", offsetof(options, value),
                                    HRI_FIELD_INT, "124", .min = 0, .max = 255},
                                   {"seed", "random seed", offsetof(options, seed), HRI_FIELD_INT},
                                   HRI_APPLY_FIELDS,
                                   {0}};

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    if (o->least > o->most) {
        return hri_prose_set(why, HR_E_RANGE, "erase: least=%g is more than most=%g", o->least,
                             o->most);
    }
    return hri_bitmap_open(s, 0, 0, HR_TYPE_U8, 0, why);
}

typedef struct box {
    int64_t top, left, height, width;
} box;

/* False: none fits. */
static bool draw(hr_emit *emit, const options *o, const hri_bitmap *in, box *out) {
    const double all = (double)(in->height * in->width), low = log(0.3), high = log(3.3);
    for (int i = 0; i < TRIES; i++) {
        const double area = all * (o->least + (o->most - o->least) * hri_emit_uniform(emit));
        const double ratio = exp(low + (high - low) * hri_emit_uniform(emit));
        const int64_t h = llround(sqrt(area * ratio)), w = llround(sqrt(area / ratio));
        if (h > 0 && w > 0 && h < in->height && w < in->width) {
            const double y = hri_emit_uniform(emit) * (double)(in->height - h + 1);
            const double x = hri_emit_uniform(emit) * (double)(in->width - w + 1);
            *out = (box){(int64_t)y, (int64_t)x, h, w};
            return true;
        }
    }
    return false;
}

static hr_status apply(hri_stage *s, hr_emit *emit) {
    const options *o = s->options;
    hri_bitmap in, out;
    box b;
    hr_status status = hri_bitmap_input(emit, &in);
    if (status != HR_OK) {
        return status;
    }
    if (hri_emit_uniform(emit) >= o->chance || !draw(emit, o, &in, &b)) {
        return hr_emit_keep(emit, NULL);
    }
    status = hri_bitmap_output(emit, in.height, in.width, in.channels, &out);
    if (status != HR_OK) {
        return status;
    }
    const size_t row = (size_t)(in.width * in.channels), pixel = (size_t)in.channels;
    memcpy(out.data, in.data, (size_t)in.height * row);
    for (int64_t y = b.top; y < b.top + b.height; y++) {
        memset(out.data + (size_t)y * row + (size_t)b.left * pixel, (int)o->value,
               (size_t)b.width * pixel);
    }
    return HR_OK;
}

const hri_stage_type hri_stage_type_erase = {
    .name = "erase",
    .help = "erase a rectangle of images at random",
    .main = "chance",
    .fields = fields,
    .options_bytes = sizeof(options),
    .inputs = 1,
    .open = open,
    .apply = apply,
};
