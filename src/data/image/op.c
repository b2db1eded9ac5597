/* What the stages that work on decoded pictures share: see op.h. */
#include "data/image/op.h"

#include <string.h>

bool hri_bitmap_size(const hri_dims *dims, int64_t *height, int64_t *width) {
    if (dims->count < 1 || dims->count > 2) {
        return false;
    }
    *height = dims->at[0];
    *width = dims->count == 2 ? dims->at[1] : dims->at[0];
    return *height >= 1 && *width >= 1 && *height <= 32768 && *width <= 32768;
}

hr_status hri_bitmap_open(hri_stage *s, int64_t height, int64_t width, hr_type type, uint64_t bound,
                          hri_prose *why) {
    const hr_field *f = hri_spec_find(&s->spec, "image");
    if (s->spec.field_count > 0 && (!f || f->meta.shape.rank != 3)) {
        return hri_prose_set(
            why, HR_E_SHAPE,
            f ? "its \"image\" has %d dimensions instead of 3: put decode before this stage and "
                "batch after it"
              : "elements have no field \"image\"",
            f ? f->meta.shape.rank : 0);
    }
    const uint64_t before = s->spec.item_bytes;
    if (f) {
        hr_meta m = f->meta;
        m.type = type;
        m.shape.dim[0] = height ? height : m.shape.dim[0];
        m.shape.dim[1] = width ? width : m.shape.dim[1];
        const hr_status status = hri_spec_put(&s->spec, "image", m);
        if (status != HR_OK) {
            return status;
        }
    }
    s->spec.load_bytes = 0;
    if (!hri_spec_exact(&s->spec, &s->spec.item_bytes)) {
        s->spec.item_bytes = hri_bytes_add(before, bound);
    }
    return HR_OK;
}

hr_status hri_bitmap_input(hr_emit *emit, hri_bitmap *out) {
    const hr_field *f = hr_element_find(emit->input, "image");
    if (!f || f->meta.type != HR_TYPE_U8 || f->meta.shape.rank != 3) {
        return hri_emit_fail(emit, HR_E_SHAPE,
                             "there is no \"image\" of type u8[height,width,channels]");
    }
    const int64_t *d = f->meta.shape.dim;
    *out = (hri_bitmap){f->data, d[0], d[1], d[2]};
    return d[0] > 0 && d[1] > 0 && d[2] > 0
               ? HR_OK
               : hri_emit_fail(emit, HR_E_SHAPE, "the image has no pixels");
}

hr_status hri_bitmap_output(hr_emit *emit, int64_t height, int64_t width, int64_t channels,
                            hri_bitmap *out) {
    const hr_meta m = {.type = HR_TYPE_U8, .shape = {.rank = 3, .dim = {height, width, channels}}};
    void *data;
    hr_status status = hr_emit_field(emit, "image", &m, &data);
    if (status == HR_OK) {
        status = hr_emit_keep(emit, NULL);
    }
    if (status == HR_OK) {
        *out = (hri_bitmap){data, height, width, channels};
    }
    return status;
}

double hri_emit_uniform(hr_emit *emit) {
    return (double)(hr_emit_random(emit) >> 11) * 0x1p-53;
}
