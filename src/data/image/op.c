/* What the stages that work on decoded pictures share: see op.h. */
#include "data/image/op.h"

#include <math.h>
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
    const hr_field *plane = hri_spec_find(&s->spec, "label");
    if (plane && plane->meta.shape.rank == 2 && height) {
        hr_meta m = plane->meta;
        m.shape.dim[0] = height;
        m.shape.dim[1] = width;
        const hr_status status = hri_spec_put(&s->spec, "label", m);
        if (status != HR_OK) {
            return status;
        }
        bound = hri_bytes_add(
            bound, hri_pool_round((uint64_t)height * (uint64_t)width * hr_type_bytes(m.type)));
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

bool hri_plane_input(const hr_emit *emit, int64_t height, int64_t width, hri_plane *out) {
    const hr_field *f = hr_element_find(emit->input, "label");
    if (!f || f->meta.shape.rank != 2 || f->meta.shape.dim[0] != height ||
        f->meta.shape.dim[1] != width) {
        return false;
    }
    *out = (hri_plane){f->data, f->meta.type, height, width};
    return true;
}

static void move_row(const hri_plane *in, const hri_plane_move *move, int64_t y, hri_plane *out) {
    const size_t from = hr_type_bytes(in->type), to = hr_type_bytes(out->type);
    uint8_t *at = (uint8_t *)out->data + (size_t)(y * out->width) * to;
    const double v = (double)y + 0.5;
    for (int64_t x = 0; x < out->width; x++, at += to) {
        const double u = (double)x + 0.5;
        const double sx = floor(move->x[0] + move->x[1] * u + move->x[2] * v);
        const double sy = floor(move->y[0] + move->y[1] * u + move->y[2] * v);
        if (!(sx >= 0 && sy >= 0 && sx < (double)in->width && sy < (double)in->height)) {
            memset(at, 0xff, to); /* ignored in every type */
            continue;
        }
        const uint8_t *pixel =
            (const uint8_t *)in->data + ((size_t)sy * (size_t)in->width + (size_t)sx) * from;
        if (from == to) {
            memcpy(at, pixel, to);
        } else {
            const int32_t wide = *pixel == 255 ? -1 : *pixel;
            memcpy(at, &wide, sizeof wide);
        }
    }
}

hr_status hri_plane_apply(hr_emit *emit, const hri_bitmap *in, int64_t height, int64_t width,
                          const hri_plane_move *move, bool wide) {
    hri_plane from, to;
    if (!hri_plane_input(emit, in->height, in->width, &from)) {
        return HR_OK;
    }
    to = (hri_plane){.type = wide && from.type == HR_TYPE_U8 ? HR_TYPE_I32 : from.type,
                     .height = height,
                     .width = width};
    const hr_meta m = {.type = to.type, .shape = {.rank = 2, .dim = {height, width}}};
    const hr_status status = hr_emit_field(emit, "label", &m, &to.data);
    for (int64_t y = 0; status == HR_OK && y < height; y++) {
        move_row(&from, move, y, &to);
    }
    return status;
}

double hri_emit_uniform(hr_emit *emit) {
    return (double)(hr_emit_random(emit) >> 11) * 0x1p-53;
}
