/* resize(224) or resize(224x320,filter=area)  pictures to one size, whatever their proportions. */
#include <string.h>
#include "data/image/op.h"
#include "data/image/resize.h"

typedef struct options {
    hri_apply_options apply;
    hri_dims size;
    int filter;
} options;

static const char *const filters[] = {"auto", "nearest", "bilinear", "area", NULL};

static const hri_field fields[] = {{"size", "output size: 224 or 224x320 (height x width)",
                                    offsetof(options, size), HRI_FIELD_DIMS, "224"},
                                   {"filter", "interpolation", offsetof(options, filter),
                                    HRI_FIELD_ENUM, "auto", .choices = filters},
                                   HRI_APPLY_FIELDS,
                                   {0}};

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    int64_t height, width;
    if (!hri_bitmap_size(&o->size, &height, &width)) {
        return hri_prose_set(why, HR_E_RANGE, "size: must be like 224 or 224x320, up to 32768");
    }
    const hr_field *f = hri_spec_find(&s->spec, "image");
    const int64_t w =
        f && f->meta.shape.rank == 3 && f->meta.shape.dim[1] > 0 ? f->meta.shape.dim[1] : 4096;
    const int64_t h =
        f && f->meta.shape.rank == 3 && f->meta.shape.dim[0] > 0 ? f->meta.shape.dim[0] : 4096;
    s->scratch_bytes = hri_pool_round(
        hri_resizer_bytes((uint32_t)w, (uint32_t)h, (uint32_t)width, (uint32_t)height));
    return hri_bitmap_open(s, height, width, HR_TYPE_U8,
                           hri_pool_round((uint64_t)height * (uint64_t)width * 4), why);
}

static hr_status apply(hri_stage *s, hr_emit *emit) {
    const options *o = s->options;
    int64_t height = 0, width = 0;
    hri_bitmap_size(&o->size, &height, &width);
    hri_bitmap in, out;
    hr_status status = hri_bitmap_input(emit, &in);
    if (status == HR_OK) {
        const hri_plane_move move = {{0, (double)in.width / (double)width, 0},
                                     {0, 0, (double)in.height / (double)height}};
        status = hri_plane_apply(emit, &in, height, width, &move, false);
    }
    if (status == HR_OK) {
        status = hri_bitmap_output(emit, height, width, in.channels, &out);
    }
    hri_resizer r = {0};
    if (status == HR_OK) {
        status = hri_resizer_init(&r, emit->memory, 0, 0, (double)in.width, (double)in.height,
                                  (uint32_t)in.width, (uint32_t)in.height, (uint32_t)width,
                                  (uint32_t)height, (uint32_t)in.channels, (hri_filter)o->filter,
                                  false, out.data);
    }
    const size_t row = (size_t)(in.width * in.channels);
    for (int64_t y = 0; status == HR_OK && y < in.height; y++) {
        memcpy(hri_resizer_row(&r), in.data + (size_t)y * row, row);
        hri_resizer_done_row(&r);
    }
    hri_resizer_deinit(&r);
    return status;
}

const hri_stage_type hri_stage_type_resize = {
    .name = "resize",
    .help = "resize images",
    .main = "size",
    .fields = fields,
    .options_bytes = sizeof(options),
    .inputs = 1,
    .open = open,
    .apply = apply,
};
