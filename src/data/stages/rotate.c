/* rotate(15)  turns each picture about its middle by a random angle of up to so many degrees either way (random=off: by
 * exactly so many, counter-clockwise).  The size stays; what comes in from outside is black. */
#include <math.h>
#include <string.h>
#include "data/image/op.h"

typedef struct options {
    hri_apply_options apply;
    double degrees;
    bool random;
    int64_t seed;
} options;

static const hri_field fields[] = {
    {"degrees", "largest angle in degrees", offsetof(options, degrees), HRI_FIELD_DOUBLE, "15",
     .min = -360, .max = 360},
    {"random", "random angle", offsetof(options, random), HRI_FIELD_BOOL, "on"},
    {"seed", "random seed", offsetof(options, seed), HRI_FIELD_INT},
    HRI_APPLY_FIELDS,
    {0}};

static hr_status open(hri_stage *s, hri_prose *why) {
    return hri_bitmap_open(s, 0, 0, HR_TYPE_U8, 0, why);
}

/* Four neighbours, in 1/256 of a pixel; outside is black. */
static void sample(const hri_bitmap *in, int64_t x, int64_t y, uint8_t *to) {
    const int64_t x0 = x >> 8, y0 = y >> 8;
    const uint32_t fx = (uint32_t)(x & 255), fy = (uint32_t)(y & 255);
    const uint32_t weights[4] = {(256 - fx) * (256 - fy), fx * (256 - fy), (256 - fx) * fy,
                                 fx * fy};
    for (int64_t c = 0; c < in->channels; c++) {
        uint32_t sum = 1 << 15;
        for (int k = 0; k < 4; k++) {
            const int64_t px = x0 + (k & 1), py = y0 + (k >> 1);
            if (px >= 0 && py >= 0 && px < in->width && py < in->height) {
                sum += weights[k] * in->data[(py * in->width + px) * in->channels + c];
            }
        }
        to[c] = (uint8_t)(sum >> 16);
    }
}

static hr_status apply(hri_stage *s, hr_emit *emit) {
    const options *o = s->options;
    hri_bitmap in, out;
    hr_status status = hri_bitmap_input(emit, &in);
    if (status != HR_OK) {
        return status;
    }
    const double turn = o->random ? 2 * hri_emit_uniform(emit) - 1 : 1;
    const double angle = turn * o->degrees * 3.14159265358979323846 / 180;
    const double c = cos(angle), n = sin(angle);
    const double mx = (double)(in.width - 1) / 2, my = (double)(in.height - 1) / 2;
    const hri_plane_move move = {{mx + 0.5 - c * (mx + 0.5) + n * (my + 0.5), c, -n},
                                 {my + 0.5 - n * (mx + 0.5) - c * (my + 0.5), n, c}};
    status = hri_plane_apply(emit, &in, in.height, in.width, &move, false);
    if (status == HR_OK) {
        status = hri_bitmap_output(emit, in.height, in.width, in.channels, &out);
    }
    if (status != HR_OK) {
        return status;
    }
    for (int64_t y = 0; y < in.height; y++) {
        for (int64_t x = 0; x < in.width; x++) {
            const double dx = (double)x - mx, dy = (double)y - my;
            const int64_t sx = (int64_t)floor((mx + c * dx - n * dy) * 256 + 0.5);
            const int64_t sy = (int64_t)floor((my + n * dx + c * dy) * 256 + 0.5);
            sample(&in, sx, sy, out.data + (size_t)((y * in.width + x) * in.channels));
        }
    }
    return HR_OK;
}

const hri_stage_type hri_stage_type_rotate = {
    .name = "rotate",
    .help = "rotate images by a random angle",
    .main = "degrees",
    .fields = fields,
    .options_bytes = sizeof(options),
    .inputs = 1,
    .open = open,
    .apply = apply,
};
