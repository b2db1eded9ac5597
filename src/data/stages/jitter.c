/* jitter(brightness=0.4,contrast=0.4,saturation=0.4,hue=0.1)  random changes of colour.
 *
 * Each is a linear map of (red, green, blue), so the four are multiplied into one 3 x 4 matrix and a picture is gone
 * through once: brightness scales, contrast blends with the picture's mean grey, saturation with each pixel's grey,
 * hue turns about the grey axis.  Numbers are drawn from [1 - x, 1 + x], hue from [-x, x] of a full turn. */
#include <math.h>
#include <string.h>
#include "data/image/op.h"

typedef struct options {
    hri_apply_options apply;
    double brightness, contrast, saturation, hue;
    int64_t seed;
} options;

static const hri_field fields[] = {
    {"brightness", "largest relative change", offsetof(options, brightness), HRI_FIELD_DOUBLE,
     "0.4", .min = 0, .max = 1},
    {"contrast", "largest relative change", offsetof(options, contrast), HRI_FIELD_DOUBLE, "0.4",
     .min = 0, .max = 1},
    {"saturation", "largest relative change", offsetof(options, saturation), HRI_FIELD_DOUBLE,
     "0.4", .min = 0, .max = 1},
    {"hue", "largest change, as a fraction of a full turn", offsetof(options, hue),
     HRI_FIELD_DOUBLE, "0", .min = 0, .max = 0.5},
    {"seed", "random seed", offsetof(options, seed), HRI_FIELD_INT},
    HRI_APPLY_FIELDS,
    {0}};

static const double grey[3] = {0.299, 0.587, 0.114};

static hr_status open(hri_stage *s, hri_prose *why) {
    return hri_bitmap_open(s, 0, 0, HR_TYPE_U8, 0, why);
}

/* out = a x m */
static void multiply(double out[3][3], const double a[3][3]) {
    double r[3][3];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            r[i][j] = a[i][0] * out[0][j] + a[i][1] * out[1][j] + a[i][2] * out[2][j];
        }
    }
    memcpy(out, r, sizeof r);
}

/* Turning about (1, 1, 1). */
static void hue_matrix(double turn, double m[3][3]) {
    const double angle = turn * 2 * 3.14159265358979323846;
    const double c = cos(angle), n = sin(angle) / sqrt(3), third = (1 - c) / 3;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            m[i][j] = third + (i == j ? c : (j - i + 3) % 3 == 1 ? -n : n);
        }
    }
}

static double mean_grey(const hri_bitmap *in) {
    uint64_t sums[3] = {0};
    const int64_t n = in->height * in->width;
    for (int64_t i = 0; i < n; i++) {
        for (int c = 0; c < 3; c++) {
            sums[c] += in->data[3 * i + c];
        }
    }
    return (grey[0] * (double)sums[0] + grey[1] * (double)sums[1] + grey[2] * (double)sums[2]) /
           (double)n;
}

static double around_one(hr_emit *emit, double x) {
    return 1 + x * (2 * hri_emit_uniform(emit) - 1);
}

static void run(const hri_bitmap *in, uint8_t *out, const double m[3][3], double offset) {
    int32_t q[3][3], add = (int32_t)lrint(offset * 4096) + 2048;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            q[i][j] = (int32_t)lrint(m[i][j] * 4096);
        }
    }
    const int64_t n = in->height * in->width;
    for (int64_t i = 0; i < n; i++) {
        const int32_t r = in->data[3 * i], g = in->data[3 * i + 1], b = in->data[3 * i + 2];
        for (int c = 0; c < 3; c++) {
            const int32_t v = (q[c][0] * r + q[c][1] * g + q[c][2] * b + add) >> 12;
            out[3 * i + c] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
        }
    }
}

static hr_status apply(hri_stage *s, hr_emit *emit) {
    const options *o = s->options;
    hri_bitmap in, out;
    hr_status status = hri_bitmap_input(emit, &in);
    if (status == HR_OK && in.channels != 3) {
        status = hri_emit_fail(emit, HR_E_SHAPE, "the image has %lld channels instead of 3",
                               (long long)in.channels);
    }
    if (status == HR_OK) {
        status = hri_bitmap_output(emit, in.height, in.width, in.channels, &out);
    }
    if (status != HR_OK) {
        return status;
    }
    const double bright = around_one(emit, o->brightness), contrast = around_one(emit, o->contrast);
    const double saturation = around_one(emit, o->saturation);
    const double turn = o->hue * (2 * hri_emit_uniform(emit) - 1);
    double m[3][3] = {{bright * contrast}, {0, bright * contrast}, {0, 0, bright * contrast}};
    double a[3][3];
    const double offset = (1 - contrast) * bright * mean_grey(&in);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            a[i][j] = (1 - saturation) * grey[j] + (i == j ? saturation : 0);
        }
    }
    multiply(m, a);
    hue_matrix(turn, a);
    multiply(m, a);
    run(&in, out.data, m, offset); /* grey stays grey under both, so the offset does too */
    return HR_OK;
}

const hri_stage_type hri_stage_type_jitter = {
    .name = "jitter",
    .help = "random brightness, contrast, saturation and hue",
    .main = "brightness",
    .fields = fields,
    .options_bytes = sizeof(options),
    .inputs = 1,
    .open = open,
    .apply = apply,
};
