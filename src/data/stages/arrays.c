/* arrays  arrays in the user's memory (hr_pipeline_arrays), sliced along their first dimension. */
#include <string.h>
#include "base/alloc.h"
#include "data/pipeline.h"

typedef struct own {
    hr_field *arrays;
    size_t count;
} own;

static hr_meta slice_of(const hr_meta *whole) {
    hr_meta m = {.type = whole->type, .shape = {.rank = whole->shape.rank - 1}};
    memcpy(m.shape.dim, whole->shape.dim + 1, (size_t)m.shape.rank * sizeof m.shape.dim[0]);
    return m;
}

static hr_status open(hri_stage *s, hri_prose *why) {
    const own *w = s->own;
    if (!w->arrays) {
        return hri_prose_set(why, HR_E_INVALID, "needs arrays; use hr_pipeline_arrays");
    }
    hr_status status = HR_OK;
    for (size_t i = 0; status == HR_OK && i < w->count; i++) {
        status = hri_spec_put(&s->spec, w->arrays[i].name, slice_of(&w->arrays[i].meta));
    }
    s->spec.count = (uint64_t)w->arrays[0].meta.shape.dim[0];
    if (status == HR_OK && !hri_spec_exact(&s->spec, &s->spec.item_bytes)) {
        status = HR_E_SHAPE;
    }
    s->spec.load_bytes = s->spec.item_bytes;
    return status;
}

static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    *out = (hri_item){.source = s, .a = i, .epoch = s->epoch, .index = i};
    return HR_OK;
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    const own *w = s->own;
    hr_status status = HR_OK;
    for (size_t i = 0; status == HR_OK && i < w->count; i++) {
        const hr_field *a = &w->arrays[i];
        const hr_meta meta = slice_of(&a->meta);
        const uint64_t bytes = hr_meta_bytes(&meta);
        void *data;
        status = hr_emit_field(emit, a->name, &meta, &data);
        if (status == HR_OK && bytes > 0) {
            memcpy(data, (const char *)a->data + item->a * bytes, bytes);
        }
    }
    return status;
}

static void close(hri_stage *s) {
    hri_free(((own *)s->own)->arrays);
}

const hri_stage_type hri_stage_type_arrays = {
    .name = "arrays",
    .help = "arrays in memory (C API only)",
    .own_bytes = sizeof(own),
    .open = open,
    .close = close,
    .at = at,
    .load = load,
};

hr_status hr_pipeline_arrays(hr_pipeline *p, const hr_field *arrays, size_t count) {
    if (!arrays || count == 0 || count > HR_FIELD_MAX) {
        return hri_pipeline_fail(p, HR_E_INVALID, "arrays: 1 to %d arrays are allowed",
                                 HR_FIELD_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        const hr_meta *m = &arrays[i].meta;
        uint64_t bytes;
        if (hr_meta_check(m, &bytes) != HR_OK || m->shape.rank < 1 || (!arrays[i].data && bytes) ||
            m->shape.dim[0] != arrays[0].meta.shape.dim[0]) {
            return hri_pipeline_fail(
                p, HR_E_SHAPE,
                "arrays: \"%.31s\" has no data, no first dimension, or a first dimension that "
                "differs from that of \"%.31s\"",
                arrays[i].name, arrays[0].name);
        }
    }
    hr_field *copy = hri_calloc(count, sizeof *copy);
    if (!copy) {
        return HR_E_NOMEM_HOST;
    }
    memcpy(copy, arrays, count * sizeof *copy);
    hri_stage *s;
    const hr_status status = hri_pipeline_chain(p, &hri_stage_type_arrays, NULL, &s);
    if (status != HR_OK) {
        hri_free(copy);
        return status;
    }
    *(own *)s->own = (own){copy, count};
    return HR_OK;
}
