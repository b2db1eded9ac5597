/* flip  mirrors pictures left and right with a chance of one in two (chance=1: always); vertical=on: top and bottom. */
#include <string.h>
#include "data/image/op.h"

typedef struct options {
    hri_apply_options apply;
    double chance;
    bool vertical;
    int64_t seed;
} options;

static const hri_field fields[] = {{"chance", "fraction of the images to mirror",
                                    offsetof(options, chance), HRI_FIELD_DOUBLE, "0.5", .min = 0,
                                    .max = 1},
                                   {"vertical", "top to bottom instead of left to right",
                                    offsetof(options, vertical), HRI_FIELD_BOOL, "off"},
                                   {"seed", "random seed", offsetof(options, seed), HRI_FIELD_INT},
                                   HRI_APPLY_FIELDS,
                                   {0}};

static hr_status open(hri_stage *s, hri_prose *why) {
    return hri_bitmap_open(s, 0, 0, HR_TYPE_U8, 0, why);
}

static hr_status apply(hri_stage *s, hr_emit *emit) {
    const options *o = s->options;
    hri_bitmap in, out;
    hr_status status = hri_bitmap_input(emit, &in);
    if (status != HR_OK) {
        return status;
    }
    if (hri_emit_uniform(emit) >= o->chance) {
        return hr_emit_keep(emit, NULL);
    }
    hri_plane_move move = {{0, 1, 0}, {0, 0, 1}};
    if (o->vertical) {
        move.y[0] = (double)in.height;
        move.y[2] = -1;
    } else {
        move.x[0] = (double)in.width;
        move.x[1] = -1;
    }
    status = hri_plane_apply(emit, &in, in.height, in.width, &move, false);
    if (status == HR_OK) {
        status = hri_bitmap_output(emit, in.height, in.width, in.channels, &out);
    }
    if (status != HR_OK) {
        return status;
    }
    const size_t row = (size_t)(in.width * in.channels), pixel = (size_t)in.channels;
    for (int64_t y = 0; y < in.height; y++) {
        const uint8_t *from = in.data + (size_t)y * row;
        if (o->vertical) {
            memcpy(out.data + (size_t)(in.height - 1 - y) * row, from, row);
            continue;
        }
        uint8_t *to = out.data + (size_t)y * row;
        for (int64_t x = 0; x < in.width; x++) {
            memcpy(to + (size_t)(in.width - 1 - x) * pixel, from + (size_t)x * pixel, pixel);
        }
    }
    return HR_OK;
}

const hri_stage_type hri_stage_type_flip = {
    .name = "flip",
    .help = "mirror images at random",
    .main = "chance",
    .fields = fields,
    .options_bytes = sizeof(options),
    .inputs = 1,
    .open = open,
    .apply = apply,
};
