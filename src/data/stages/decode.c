/* decode(size=224,random_crop=on,flip=on)  encoded pictures to u8[height,width,channels], in one go with the crop and
 * the scaling that training wants, so that no more of a picture is decoded than is used (image/image.h).
 *
 *   size alone         the middle of the picture: of its shorter side the share `centre`, scaled to size
 *   random_crop=on     a rectangle by chance: between min_area and all of the area, 3:4 to 4:3
 *   fit=stretch        the whole picture, whatever its proportions
 *   no size            the whole picture as it is
 *   flip=on            one time in two mirrored
 *
 * A mask ("label" of [height,width], from masks:) goes through the same view and becomes i32, with -1 for pixels that are
 * ignored. */
#include <math.h>
#include "data/apply.h"
#include "data/image/image.h"
#include "data/image/op.h"

typedef struct options {
    hri_apply_options apply;
    hri_dims size;
    bool random_crop, flip;
    double centre, min_area;
    int filter, fit;
    int64_t channels, max_pixels, seed;
} options;

static const char *const filters[] = {"auto", "nearest", "bilinear", "area", NULL};
static const char *const fits[] = {"crop", "stretch", NULL};

static const hri_field fields[] = {
    {"size", "output size: 224 or 224x320 (height x width)", offsetof(options, size),
     HRI_FIELD_DIMS},
    {"random_crop", "random crop instead of a centre crop", offsetof(options, random_crop),
     HRI_FIELD_BOOL, "off"},
    {"flip", "mirror every second image, at random", offsetof(options, flip), HRI_FIELD_BOOL,
     "off"},
    {"fit", "crop to the aspect ratio of size, or stretch", offsetof(options, fit), HRI_FIELD_ENUM,
     "crop", .choices = fits},
    {"centre", "fraction of the shorter side to keep", offsetof(options, centre), HRI_FIELD_DOUBLE,
     "0.875", .min = 0.01, .max = 1},
    {"min_area", "smallest fraction of the area for random_crop", offsetof(options, min_area),
     HRI_FIELD_DOUBLE, "0.08", .min = 0.0001, .max = 1},
    {"filter", "interpolation", offsetof(options, filter), HRI_FIELD_ENUM, "auto",
     .choices = filters},
    {"channels", "3: colour, 1: greyscale", offsetof(options, channels), HRI_FIELD_INT, "3",
     .min = 1, .max = 3},
    {"max_pixels", "reject images with more pixels", offsetof(options, max_pixels), HRI_FIELD_INT,
     "268435456", .min = 1, .max = 4.6e18},
    {"seed", "random seed", offsetof(options, seed), HRI_FIELD_INT},
    HRI_APPLY_FIELDS,
    {0}};

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    const hr_field *f = hri_spec_find(&s->spec, "image");
    int64_t height = -1, width = -1;
    if (o->size.count && !hri_bitmap_size(&o->size, &height, &width)) {
        return hri_prose_set(why, HR_E_RANGE, "size: must be like 224 or 224x320, up to 32768");
    }
    if (o->channels == 2) {
        return hri_prose_set(why, HR_E_RANGE, "channels: must be 1 or 3");
    }
    if (o->random_crop && !o->size.count) {
        return hri_prose_set(why, HR_E_INVALID, "random_crop needs a size");
    }
    if (!f || f->meta.type != HR_TYPE_U8 || f->meta.shape.rank != 1) {
        return hri_prose_set(why, HR_E_SHAPE,
                             f ? "\"image\" is already decoded"
                               : "elements have no field \"image\"");
    }
    hri_spec *spec = &s->spec;
    const uint32_t w = spec->image_width ? spec->image_width : 4096;
    const uint32_t h = spec->image_height ? spec->image_height : 4096;
    const hr_meta m = {.type = HR_TYPE_U8,
                       .shape = {.rank = 3, .dim = {height, width, o->channels}}};
    hr_status status = hri_spec_put(spec, "image", m);
    const hr_field *plane = hri_spec_find(spec, "label");
    const bool has_plane = plane && plane->meta.shape.rank == 2;
    if (status == HR_OK && has_plane) {
        const hr_meta label = {.type = HR_TYPE_I32, .shape = {.rank = 2, .dim = {height, width}}};
        status = hri_spec_put(spec, "label", label);
    }
    spec->load_bytes = 0;
    const uint32_t out_w = width > 0 ? (uint32_t)width : w,
                   out_h = height > 0 ? (uint32_t)height : h;
    if (!hri_spec_exact(spec, &spec->item_bytes)) {
        const uint64_t each = (uint64_t)o->channels + (has_plane ? sizeof(int32_t) : 0);
        const uint64_t pixels = hri_bytes_mul(hri_bytes_mul(w, h), each);
        const uint64_t exact = (uint64_t)out_w * out_h * each;
        spec->item_bytes =
            hri_bytes_add(spec->item_bytes, hri_pool_round(width > 0 ? exact : pixels));
    }
    s->scratch_bytes = hri_image_scratch_bytes(w, h, spec->image_whole_bytes, out_w, out_h);
    spec->image_width = spec->image_height = 0;
    spec->image_whole_bytes = 0;
    return status;
}

/* The middle of the picture, in the proportions of the output. */
static void centre_view(const options *o, const hri_image_info *info, hri_view *v) {
    const double w = info->width, h = info->height;
    const double want = (double)v->out_width / v->out_height;
    v->width = w / h > want ? h * want : w;
    v->height = w / h > want ? h : w / want;
    v->width *= o->centre;
    v->height *= o->centre;
    v->x = (w - v->width) / 2;
    v->y = (h - v->height) / 2;
}

/* Ten tries for a rectangle that fits, then the middle. */
static void random_view(const options *o, const hri_image_info *info, hr_emit *emit, hri_view *v) {
    const double w = info->width, h = info->height;
    for (int i = 0; i < 10; i++) {
        const double area = w * h * (o->min_area + (1 - o->min_area) * hri_emit_uniform(emit));
        const double turn = log(4.0 / 3) * (2 * hri_emit_uniform(emit) - 1);
        const double ratio = exp(turn) * v->out_width / v->out_height;
        const double vw = rint(sqrt(area * ratio)), vh = rint(sqrt(area / ratio));
        if (vw >= 1 && vh >= 1 && vw <= w && vh <= h) {
            v->width = vw;
            v->height = vh;
            v->x = floor(hri_emit_uniform(emit) * (w - vw + 1));
            v->y = floor(hri_emit_uniform(emit) * (h - vh + 1));
            return;
        }
    }
    const options whole = {.centre = 1};
    centre_view(&whole, info, v);
}

static hr_status choose_view(const options *o, const hri_image_info *info, hr_emit *emit,
                             hri_view *v) {
    int64_t height = info->height, width = info->width;
    if (o->size.count) {
        hri_bitmap_size(&o->size, &height, &width);
    }
    *v = (hri_view){.width = info->width,
                    .height = info->height,
                    .out_width = (uint32_t)width,
                    .out_height = (uint32_t)height,
                    .channels = (uint32_t)o->channels,
                    .filter = (hri_filter)o->filter};
    if (o->random_crop) {
        random_view(o, info, emit, v);
    } else if (o->size.count && o->fit == 0) {
        centre_view(o, info, v);
    }
    v->flip = o->flip && hr_emit_random(emit) >> 63;
    return HR_OK;
}

/* The mask through the same view; one of another size has no place in it. */
static hr_status move_mask(hr_emit *emit, const hri_image_info *info, const hri_view *v) {
    const hr_field *f = hr_element_find(emit->input, "label");
    const hri_bitmap in = {.height = info->height, .width = info->width};
    hri_plane plane;
    if (!f || f->meta.shape.rank != 2) {
        return HR_OK;
    }
    if (!hri_plane_input(emit, in.height, in.width, &plane)) {
        return hri_emit_fail(emit, HR_E_SHAPE,
                             "the label has %lld x %lld pixels, the image %u x %u",
                             (long long)f->meta.shape.dim[1], (long long)f->meta.shape.dim[0],
                             info->width, info->height);
    }
    hri_plane_move move = {{v->x, v->width / v->out_width, 0},
                           {v->y, 0, v->height / v->out_height}};
    if (v->flip) {
        move.x[0] += v->width;
        move.x[1] = -move.x[1];
    }
    return hri_plane_apply(emit, &in, v->out_height, v->out_width, &move, true);
}

static hr_status apply(hri_stage *s, hr_emit *emit) {
    const options *o = s->options;
    const hr_field *f = hr_element_find(emit->input, "image");
    hri_prose why = {{0}};
    hri_image_info info;
    hri_view view;
    hri_bitmap out;
    if (!f || f->meta.type != HR_TYPE_U8) {
        return hri_emit_fail(emit, HR_E_SHAPE, "no encoded \"image\"");
    }
    hr_status status = hri_image_probe(f->data, f->bytes, &info, &why);
    if (status != HR_OK) {
        return hri_emit_fail(emit, HR_E_FORMAT, "%s", why.text[0] ? why.text : "truncated header");
    }
    if ((uint64_t)info.width * info.height > (uint64_t)o->max_pixels) {
        return hri_emit_fail(emit, HR_E_RANGE,
                             "the image has %u x %u pixels, more than max_pixels (%lld)",
                             info.width, info.height, (long long)o->max_pixels);
    }
    status = choose_view(o, &info, emit, &view);
    if (status == HR_OK) {
        status = move_mask(emit, &info, &view);
    }
    if (status == HR_OK) {
        status = hri_bitmap_output(emit, view.out_height, view.out_width, view.channels, &out);
    }
    if (status == HR_OK) {
        status = hri_image_decode(f->data, f->bytes, &info, &view, emit->memory, out.data, &why);
    }
    if (status != HR_OK && why.text[0]) {
        hr_emit_explain(emit, why.text);
    }
    return status;
}

const hri_stage_type hri_stage_type_decode = {
    .name = "decode",
    .help = "decode JPEG, PNG, BMP, WebP, TIFF and AVIF, with resize and crop",
    .main = "size",
    .fields = fields,
    .options_bytes = sizeof(options),
    .inputs = 1,
    .open = open,
    .apply = apply,
};
