/* normalise(mean=0.485,0.456,0.406,std=0.229,0.224,0.225,to=f32)  pixels 0 .. 255 to (x / 255 - mean) / std, as f32,
 * bf16 or f16.  One mean and std serve all channels.  It makes pictures two or four times as large: the device can do
 * the same behind the copy, and then batches stay u8. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "data/image/op.h"
#include "graph/half.h"

enum { CHANNELS_MAX = 16 };

typedef struct options {
    hri_apply_options apply;
    hri_list mean, std;
    int to;
} options;

static const char *const types[] = {"f32", "bf16", "f16", NULL};
static const hr_type type_of[] = {HR_TYPE_F32, HR_TYPE_BF16, HR_TYPE_F16};

static const hri_field fields[] = {
    {"mean", "subtracted; one number per channel, or one for all", offsetof(options, mean),
     HRI_FIELD_LIST, "0", .min = 1, .max = CHANNELS_MAX},
    {"std", "divisor; one number per channel, or one for all", offsetof(options, std),
     HRI_FIELD_LIST, "1", .min = 1, .max = CHANNELS_MAX},
    {"to", "output type", offsetof(options, to), HRI_FIELD_ENUM, "f32", .choices = types},
    HRI_APPLY_FIELDS,
    {0}};

typedef struct own {
    float scale[CHANNELS_MAX], shift[CHANNELS_MAX];
} own;

static bool number_at(const hri_list *list, size_t i, double *out) {
    const char *text = list->items[list->count == 1 ? 0 : i < list->count ? i : list->count - 1];
    char *end;
    *out = hri_strtod(text, &end);
    return end != text && *end == 0 && isfinite(*out);
}

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    for (size_t i = 0; i < CHANNELS_MAX; i++) {
        double mean, std;
        if (!number_at(&o->mean, i, &mean) || !number_at(&o->std, i, &std) || std == 0) {
            return hri_prose_set(why, HR_E_INVALID, "mean and std: must be numbers, and std not 0");
        }
        w->scale[i] = (float)(1 / (255 * std));
        w->shift[i] = (float)(-mean / std);
    }
    const uint64_t before = s->spec.item_bytes;
    return hri_bitmap_open(s, 0, 0, type_of[o->to], 4 * before, why);
}

static uint16_t to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); /* to nearest, ties to even */
}

static hr_status apply(hri_stage *s, hr_emit *emit) {
    const options *o = s->options;
    const own *w = s->own;
    hri_bitmap in;
    hr_status status = hri_bitmap_input(emit, &in);
    if (status != HR_OK) {
        return status;
    }
    if (in.channels > CHANNELS_MAX) {
        return hri_emit_fail(emit, HR_E_SHAPE, "more than %d channels", CHANNELS_MAX);
    }
    const hr_meta m = {.type = type_of[o->to],
                       .shape = {.rank = 3, .dim = {in.height, in.width, in.channels}}};
    void *data;
    status = hr_emit_field(emit, "image", &m, &data);
    if (status == HR_OK) {
        status = hr_emit_keep(emit, NULL);
    }
    if (status != HR_OK) {
        return status;
    }
    const int64_t pixels = in.height * in.width;
    const int64_t channels = in.channels;
    for (int64_t c = 0; c < channels; c++) {
        const float scale = w->scale[c], shift = w->shift[c];
        if (m.type == HR_TYPE_F32) {
            for (int64_t i = 0; i < pixels; i++) {
                ((float *)data)[i * channels + c] =
                    (float)in.data[i * channels + c] * scale + shift;
            }
            continue;
        }
        uint16_t table[256]; /* a byte has only so many values */
        for (int k = 0; k < 256; k++) {
            const float x = (float)k * scale + shift;
            const hri_f16 half = hri_to_f16(x);
            if (m.type == HR_TYPE_BF16) {
                table[k] = to_bf16(x);
            } else {
                memcpy(&table[k], &half, 2);
            }
        }
        for (int64_t i = 0; i < pixels; i++) {
            ((uint16_t *)data)[i * channels + c] = table[in.data[i * channels + c]];
        }
    }
    return HR_OK;
}

const hri_stage_type hri_stage_type_normalise = {
    .name = "normalise",
    .help = "convert pixels to floating point: (x / 255 - mean) / std",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .inputs = 1,
    .open = open,
    .apply = apply,
};
