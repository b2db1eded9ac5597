/* npy:X.npy[,Y.npy...]  NumPy arrays, sliced along their first dimension, side by side.  The fields are "x", "y" and
 * then the files' names, or those in `names`.  Numbers of types that we have none for are converted: u16, i16 and i8
 * to i32, u32 to i64, f64 to f32.  The array of `weight` is the last, a number for each sample. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "data/formats/filelist.h"
#include "data/formats/npy.h"
#include "data/read.h"
#include "data/tabular.h"

enum { ARRAYS_MAX = 16, LABELS_PIECE = 4096, LABELS_MOST = 1 << 30 };

typedef struct options {
    hri_list path, names;
    const char *weight;
} options;

static const hri_field fields[] = {
    {"path", "files", offsetof(options, path), HRI_FIELD_LIST, .metavar = "FILE",
     .max = ARRAYS_MAX},
    {"names", "field names", offsetof(options, names), HRI_FIELD_LIST},
    {"weight", "array of one number per sample: how much it counts in the loss",
     offsetof(options, weight), HRI_FIELD_STRING, NULL, .metavar = "FILE"},
    {0}};

typedef struct own {
    hri_filelist files;
    hri_npy arrays[ARRAYS_MAX];
    hr_meta slices[ARRAYS_MAX];
    char names[ARRAYS_MAX][HR_FIELD_NAME_SIZE];
} own;

static bool is_weight(const options *o, const own *w, size_t i) {
    return o->weight && i + 1 == w->files.count;
}

static void choose_name(const options *o, own *w, size_t i) {
    static const char *const usual[] = {"x", "y"};
    char *name = w->names[i];
    if (is_weight(o, w, i)) {
        snprintf(name, HR_FIELD_NAME_SIZE, "%s", HRI_WEIGHT_FIELD);
    } else if (i < o->names.count) {
        snprintf(name, HR_FIELD_NAME_SIZE, "%s", o->names.items[i]);
    } else if (i < 2) {
        snprintf(name, HR_FIELD_NAME_SIZE, "%s", usual[i]);
    } else {
        const char *file = hri_path_name(w->files.files[i].path);
        snprintf(name, HR_FIELD_NAME_SIZE, "%.*s", (int)strcspn(file, "."), file);
    }
}

static hr_status open_array(hri_stage *s, size_t i, hri_prose *why) {
    own *w = s->own;
    const hri_file *f = &w->files.files[i];
    char head[4096];
    hri_prose inner = {{0}};
    const uint64_t n = f->bytes < sizeof head ? f->bytes : sizeof head;
    hr_status status = hri_filelist_read(f, 0, head, n, why);
    if (status == HR_OK) {
        status = hri_npy_parse(head, n, &w->arrays[i], &inner);
        if (status != HR_OK) {
            return hri_prose_set(why, status, "%s: %s", f->path, inner.text);
        }
    }
    if (status != HR_OK) {
        return status;
    }
    const hri_npy *a = &w->arrays[i];
    const uint64_t numbers = (uint64_t)hr_shape_count(&a->meta.shape);
    if (a->meta.shape.rank == 0 ||
        numbers >
            (f->bytes - (a->data_start < f->bytes ? a->data_start : f->bytes)) / a->unit_bytes) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: no first dimension, or truncated", f->path);
    }
    if (a->meta.shape.dim[0] != w->arrays[0].meta.shape.dim[0]) {
        return hri_prose_set(why, HR_E_SHAPE, "%s has %lld elements, but %s has %lld", f->path,
                             (long long)a->meta.shape.dim[0], w->files.files[0].path,
                             (long long)w->arrays[0].meta.shape.dim[0]);
    }
    hr_meta *m = &w->slices[i];
    m->type = a->meta.type;
    m->shape.rank = a->meta.shape.rank - 1;
    memcpy(m->shape.dim, a->meta.shape.dim + 1, (size_t)m->shape.rank * sizeof m->shape.dim[0]);
    choose_name(s->options, w, i);
    if (is_weight(s->options, w, i) &&
        (hr_shape_count(&m->shape) != 1 ||
         (m->type != HR_TYPE_F32 && m->type != HR_TYPE_I32 && m->type != HR_TYPE_I64))) {
        char is[256];
        return hri_prose_set(why, HR_E_SHAPE,
                             "%s has %s for each sample; a weight is one f32, f64 or integer",
                             f->path, hr_meta_print(m, is, sizeof is));
    }
    if (hri_spec_find(&s->spec, w->names[i])) {
        return hri_prose_set(why, HR_E_EXISTS, "two fields are named \"%s\"", w->names[i]);
    }
    return hri_spec_put(&s->spec, w->names[i], *m);
}

static hr_status open_files(const options *o, own *w, hri_prose *why) {
    const char *items[ARRAYS_MAX + 1];
    hri_list all = {.items = items};
    while (all.count < o->path.count && all.count < ARRAYS_MAX) {
        items[all.count] = o->path.items[all.count];
        all.count++;
    }
    if (!o->weight) {
        return hri_filelist_open(&w->files, &o->path, why);
    }
    items[all.count++] = o->weight;
    return hri_filelist_open(&w->files, &all, why);
}

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    hr_status status = open_files(o, w, why);
    if (status == HR_OK && w->files.count > ARRAYS_MAX) {
        status = hri_prose_set(why, HR_E_RANGE, "more than %d files", ARRAYS_MAX);
    }
    uint64_t raw = 0;
    for (size_t i = 0; status == HR_OK && i < w->files.count; i++) {
        status = open_array(s, i, why);
        if (status == HR_OK && w->arrays[i].kind != HRI_NPY_SAME) {
            const uint64_t n = (uint64_t)hr_shape_count(&w->slices[i].shape);
            const uint64_t bytes = hri_pool_round(n * w->arrays[i].unit_bytes);
            raw = bytes > raw ? bytes : raw;
        }
    }
    if (status != HR_OK) {
        return status;
    }
    if (o->weight) {
        hri_pipeline_note(s->pipeline, "the loss is weighted by %s", o->weight);
    }
    s->spec.count = (uint64_t)w->arrays[0].meta.shape.dim[0];
    if (!hri_spec_exact(&s->spec, &s->spec.item_bytes)) {
        return HR_E_INTERNAL;
    }
    s->spec.load_bytes = hri_bytes_add(s->spec.item_bytes, raw);
    return HR_OK;
}

static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    *out = (hri_item){.source = s, .a = i, .epoch = s->epoch, .index = i};
    return HR_OK;
}

/* The first array is what a model takes: a number in it that is none is told with its place.  In the others it may stand for a
 * target that is not known. */
static hr_status check_numbers(const own *w, size_t i, uint64_t row, const float *x, uint64_t n,
                               hr_emit *emit) {
    const hr_shape *shape = &w->slices[i].shape;
    uint64_t k = 0;
    while (k < n && isfinite(x[k])) {
        k++;
    }
    if (k == n) {
        return HR_OK;
    }
    const char *path = w->files.files[i].path, *what = isnan(x[k]) ? "not a number" : "infinite";
    char place[160] = "";
    size_t used = 0;
    if (shape->rank == 1) {
        snprintf(place, sizeof place, ", column %llu", (unsigned long long)k);
    }
    for (int d = 0; shape->rank > 1 && d < shape->rank && used < sizeof place; d++) {
        uint64_t below = 1;
        for (int e = d + 1; e < shape->rank; e++) {
            below *= (uint64_t)shape->dim[e];
        }
        used += (size_t)snprintf(place + used, sizeof place - used, "%s%llu%s",
                                 d ? ", " : ", element [",
                                 (unsigned long long)(k / below % (uint64_t)shape->dim[d]),
                                 d + 1 < shape->rank ? "" : "]");
    }
    return hri_emit_fail(emit, HR_E_FORMAT, "%s: row %llu%s (counted from 0) is %s", path,
                         (unsigned long long)row, place, what);
}

static hr_status check_weight(const own *w, size_t i, uint64_t row, const void *data,
                              hr_emit *emit) {
    const hr_field f = {.meta = w->slices[i], .data = (void *)(uintptr_t)data};
    const double x = hri_field_number(&f, 0);
    return x >= 0 && x <= HRI_WEIGHT_MOST
               ? HR_OK
               : hri_emit_fail(emit, HR_E_FORMAT,
                               "%s: the weight in row %llu (counted from 0) is %s; weights are 0 "
                               "to %g",
                               w->files.files[i].path, (unsigned long long)row,
                               isnan(x) ? "not a number"
                               : x < 0  ? "negative"
                                        : "out of range",
                               HRI_WEIGHT_MOST);
}

static hr_status load_one(const own *w, size_t i, uint64_t index, hr_emit *emit) {
    const hri_npy *a = &w->arrays[i];
    const hri_file *f = &w->files.files[i];
    const uint64_t n = (uint64_t)hr_shape_count(&w->slices[i].shape);
    const uint64_t bytes = n * a->unit_bytes;
    hri_prose why = {{0}};
    void *data;
    hri_buffer *raw = NULL;
    hr_status status = hr_emit_field(emit, w->names[i], &w->slices[i], &data);
    if (status == HR_OK && a->kind != HRI_NPY_SAME) {
        status = hri_memory_buffer(emit->memory, bytes, &raw);
    }
    if (status != HR_OK) {
        return status;
    }
    status =
        hri_filelist_read(f, a->data_start + index * bytes, raw ? raw->data : data, bytes, &why);
    if (status != HR_OK) {
        hr_emit_explain(emit, why.text);
    } else if (raw) {
        hri_npy_convert(a->kind, raw->data, data, n);
    }
    hri_buffer_unref(raw);
    if (status == HR_OK && !strcmp(w->names[i], HRI_WEIGHT_FIELD)) {
        return check_weight(w, i, index, data, emit);
    }
    return status == HR_OK && i == 0 && a->meta.type == HR_TYPE_F32
               ? check_numbers(w, i, index, data, n, emit)
               : status;
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    const own *w = s->own;
    hr_status status = HR_OK;
    for (size_t i = 0; status == HR_OK && i < w->files.count; i++) {
        status = load_one(w, i, item->a, emit);
    }
    return status;
}

/* Adds n numbers to a range; false when one is not whole. */
static bool add_to_range(hr_type type, const void *data, uint64_t n, hr_label_range *r) {
    for (uint64_t i = 0; i < n; i++) {
        int64_t x = 0;
        float real;
        switch (type) {
        case HR_TYPE_I32:
            x = ((const int32_t *)data)[i];
            break;
        case HR_TYPE_I64:
            x = ((const int64_t *)data)[i];
            break;
        case HR_TYPE_U8:
            x = ((const uint8_t *)data)[i];
            break;
        case HR_TYPE_F32:
            real = ((const float *)data)[i];
            if (!(real >= -1e9f && real <= 1e9f) || (float)(int64_t)real != real) {
                return false;
            }
            x = (int64_t)real;
            break;
        default:
            return false;
        }
        r->min = r->count == 0 || x < r->min ? x : r->min;
        r->max = r->count == 0 || x > r->max ? x : r->max;
        r->negative += x < 0;
        r->count++;
    }
    return true;
}

static hr_status labels(hri_stage *s, const char *field, hr_label_range *out) {
    const own *w = s->own;
    size_t k = 0;
    while (k < w->files.count && strcmp(w->names[k], field) != 0) {
        k++;
    }
    if (k == w->files.count) {
        return HR_E_NOT_FOUND;
    }
    const hri_npy *a = &w->arrays[k];
    const uint64_t all = (uint64_t)hr_shape_count(&a->meta.shape);
    hr_label_range range = {0};
    if (hri_bytes_mul(all, a->unit_bytes) > LABELS_MOST) {
        return HR_E_NOT_FOUND;
    }
    char *raw = hri_malloc(2 * LABELS_PIECE * sizeof(int64_t));
    void *made = raw + LABELS_PIECE * sizeof(int64_t);
    hr_status status = raw ? HR_OK : HR_E_NOMEM_HOST;
    for (uint64_t at = 0; status == HR_OK && at < all; at += LABELS_PIECE) {
        const uint64_t n = all - at < LABELS_PIECE ? all - at : LABELS_PIECE;
        status = hri_filelist_read(&w->files.files[k], a->data_start + at * a->unit_bytes, raw,
                                   n * a->unit_bytes, NULL);
        if (status == HR_OK && a->kind != HRI_NPY_SAME) {
            hri_npy_convert(a->kind, raw, made, n);
        }
        if (status == HR_OK &&
            !add_to_range(a->meta.type, a->kind == HRI_NPY_SAME ? raw : made, n, &range)) {
            status = HR_E_NOT_FOUND;
        }
    }
    hri_free(raw);
    if (status == HR_OK && range.count) {
        *out = range;
        return HR_OK;
    }
    return status == HR_OK ? HR_E_NOT_FOUND : status;
}

static void fingerprint(hri_stage *s, hri_state *w) {
    hri_filelist_fingerprint(&((own *)s->own)->files, w);
}

static int64_t newest(hri_stage *s, char *path, size_t size) {
    return hri_filelist_newest(&((own *)s->own)->files, path, size);
}

static void close(hri_stage *s) {
    hri_filelist_close(&((own *)s->own)->files);
}

const hri_stage_type hri_stage_type_npy = {
    .name = "npy",
    .help = "NumPy arrays, one field per file",
    .main = "path",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .open = open,
    .close = close,
    .at = at,
    .load = load,
    .fingerprint = fingerprint,
    .labels = labels,
    .newest = newest,
};
