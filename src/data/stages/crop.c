/* crop(32,pad=4,random=on)  a rectangle of the given size out of each picture: the middle one, or one by chance.  The
 * picture may be widened by `pad` pixels of black on each side first, as is customary for CIFAR. */
#include <string.h>
#include "data/image/op.h"

typedef struct options {
    hri_apply_options apply;
    hri_dims size;
    int64_t pad, seed;
    bool random;
} options;

static const hri_field fields[] = {{"size", "output size: 32 or 32x48 (height x width)",
                                    offsetof(options, size), HRI_FIELD_DIMS, "224"},
                                   {"pad", "pixels of padding added on each side first",
                                    offsetof(options, pad), HRI_FIELD_INT, "0", .min = 0,
                                    .max = 32768},
                                   {"random", "random position instead of the centre",
                                    offsetof(options, random), HRI_FIELD_BOOL, "off"},
                                   {"seed", "random seed", offsetof(options, seed), HRI_FIELD_INT},
                                   HRI_APPLY_FIELDS,
                                   {0}};

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    int64_t height, width;
    if (!hri_bitmap_size(&o->size, &height, &width)) {
        return hri_prose_set(why, HR_E_RANGE, "size: must be like 32 or 32x48, up to 32768");
    }
    return hri_bitmap_open(s, height, width, HR_TYPE_U8,
                           hri_pool_round((uint64_t)height * (uint64_t)width * 4), why);
}

static hr_status apply(hri_stage *s, hr_emit *emit) {
    const options *o = s->options;
    int64_t height = 0, width = 0;
    hri_bitmap_size(&o->size, &height, &width);
    hri_bitmap in, out;
    hr_status status = hri_bitmap_input(emit, &in);
    if (status != HR_OK) {
        return status;
    }
    const int64_t spare_y = in.height + 2 * o->pad - height,
                  spare_x = in.width + 2 * o->pad - width;
    if (spare_y < 0 || spare_x < 0) {
        return hri_emit_fail(emit, HR_E_SHAPE,
                             "an image of %lld x %lld is too small for a crop "
                             "of %lld x %lld",
                             (long long)in.height, (long long)in.width, (long long)height,
                             (long long)width);
    }
    int64_t top = spare_y / 2 - o->pad, left = spare_x / 2 - o->pad;
    if (o->random) {
        top = (int64_t)(hri_emit_uniform(emit) * (double)(spare_y + 1)) - o->pad;
        left = (int64_t)(hri_emit_uniform(emit) * (double)(spare_x + 1)) - o->pad;
    }
    const hri_plane_move move = {{(double)left, 1, 0}, {(double)top, 0, 1}};
    status = hri_plane_apply(emit, &in, height, width, &move, false);
    if (status == HR_OK) {
        status = hri_bitmap_output(emit, height, width, in.channels, &out);
    }
    if (status != HR_OK) {
        return status;
    }
    const size_t pixel = (size_t)in.channels;
    for (int64_t y = 0; y < height; y++) {
        uint8_t *to = out.data + (size_t)(y * width) * pixel;
        const int64_t from_y = y + top;
        const int64_t first = left < 0 ? -left : 0;
        const int64_t last = left + width > in.width ? in.width - left : width;
        if (from_y < 0 || from_y >= in.height || last <= first) {
            memset(to, 0, (size_t)width * pixel);
            continue;
        }
        memset(to, 0, (size_t)first * pixel);
        memcpy(to + (size_t)first * pixel,
               in.data + (size_t)(from_y * in.width + left + first) * pixel,
               (size_t)(last - first) * pixel);
        memset(to + (size_t)last * pixel, 0, (size_t)(width - last) * pixel);
    }
    return HR_OK;
}

const hri_stage_type hri_stage_type_crop = {
    .name = "crop",
    .help = "crop images, at the centre or at random",
    .main = "size",
    .fields = fields,
    .options_bytes = sizeof(options),
    .inputs = 1,
    .open = open,
    .apply = apply,
};
