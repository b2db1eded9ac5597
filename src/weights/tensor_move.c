/* Values that lie alike go through a piece on the stack, or a larger one where every copy costs a wait (a GPU); matrices that are turned through a band of columns. */
#include "weights/tensor_move.h"

#include <string.h>

#include "base/alloc.h"

enum { PIECE = 4096, BAND = 256 << 10 }; /* bytes */

hr_shape hri_file_shape(const hr_shape *memory, int32_t layout) {
    if (layout != HR_LAYOUT_CONV || memory->rank != 4) {
        return *memory;
    }
    const int64_t *d = memory->dim;
    return hr_shape_from(4, (const int64_t[]){d[3], d[2], d[0], d[1]});
}

/* ---- alike ---- */

static hr_status move_failed(hri_prose *why, hr_status status) {
    return hri_prose_set(why, status, "copying a parameter to or from the device failed: %s",
                         hr_status_text(status));
}

/* The memory of a piece: `small`, or more of it if the other side asks for that and there is any. */
typedef struct space {
    unsigned char *data, *own;
    uint64_t bytes;
} space;

static space space_for(const hri_values *x, const hr_meta *meta, unsigned char *small) {
    space r = {.data = small, .bytes = PIECE};
    const uint64_t all = hr_meta_bytes(meta);
    const uint64_t wanted = x->buffer_bytes < all ? x->buffer_bytes : all;
    if (wanted > PIECE && (r.own = hri_malloc((size_t)wanted)) != NULL) {
        r.data = r.own;
        r.bytes = wanted;
    }
    return r;
}

static hr_status load_alike(const hri_tensors *file, const hri_tensor *tensor, const hri_values *to,
                            hr_value value, const hr_meta *meta, hri_prose *why) {
    _Alignas(16) unsigned char small[PIECE];
    const space piece = space_for(to, meta, small);
    const uint64_t width = hr_type_bytes(meta->type), most = piece.bytes / width;
    const uint64_t count = (uint64_t)hr_shape_count(&meta->shape);
    hr_status status = HR_OK;
    for (uint64_t at = 0; at < count && status == HR_OK; at += most) {
        const uint64_t n = count - at < most ? count - at : most;
        status = hri_tensors_read(file, tensor, at, n, meta->type, piece.data, why);
        if (status == HR_OK) {
            status = to->put(to->user, value, at * width, piece.data, n * width);
            status = status == HR_OK ? HR_OK : move_failed(why, status);
        }
    }
    hri_free(piece.own);
    return status;
}

static hr_status save_alike(hri_tensors_writer *w, hr_type type, const hri_values *from,
                            hr_value value, const hr_meta *meta, hri_prose *why) {
    _Alignas(16) unsigned char small[PIECE];
    const space piece = space_for(from, meta, small);
    const uint64_t width = hr_type_bytes(meta->type), most = piece.bytes / width;
    const uint64_t count = (uint64_t)hr_shape_count(&meta->shape);
    hr_status status = HR_OK;
    for (uint64_t at = 0; at < count && status == HR_OK; at += most) {
        const uint64_t n = count - at < most ? count - at : most;
        status = from->get(from->user, value, at * width, piece.data, n * width);
        status = status == HR_OK ? hri_tensors_write(w, piece.data, n, meta->type, type, why)
                                 : move_failed(why, status);
    }
    hri_free(piece.own);
    return status;
}

/* ---- turned ---- */

/* Columns first .. first + columns of a matrix of rows x all. */
typedef struct band {
    const hr_shape *shape;
    unsigned char *data; /* (rows, columns) */
    hr_type type;        /* f32, i8 or u8 */
    uint64_t width;      /* its bytes */
    int64_t rows, all, room, first, columns;
} band;

static hr_status band_init(band *b, const hr_meta *meta, uint64_t bytes, hri_prose *why) {
    if (meta->type != HR_TYPE_F32 && meta->type != HR_TYPE_I8 && meta->type != HR_TYPE_U8) {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "a convolution weight is %s, not f32, i8 or u8",
                             hr_type_name(meta->type));
    }
    const int64_t *d = meta->shape.dim;
    *b = (band){.shape = &meta->shape,
                .type = (hr_type)meta->type,
                .width = hr_type_bytes((hr_type)meta->type),
                .rows = d[0] * d[1] * d[2],
                .all = d[3]};
    const int64_t fits = b->rows ? (int64_t)((bytes ? bytes : BAND) / b->width) / b->rows : 1;
    b->room = fits < 1 ? 1 : fits < b->all ? fits : b->all;
    b->data = hri_malloc((size_t)(b->rows * b->room + 1) * b->width);
    return b->data ? HR_OK
                   : hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory to transpose a parameter");
}

/* The next band; 0 at the end. */
static int band_next(band *b) {
    b->first += b->columns;
    b->columns = b->all - b->first < b->room ? b->all - b->first : b->room;
    return b->columns > 0;
}

/* The element of the band that stands at place i of its run of the file. */
static int64_t band_index(const band *b, int64_t i) {
    const int64_t kh = b->shape->dim[0], kw = b->shape->dim[1], c = b->shape->dim[2];
    const int64_t column = i / b->rows, at = i % b->rows;
    const int64_t row = (at / kw % kh * kw + at % kw) * c + at / kw / kh;
    return row * b->columns + column;
}

/* Copies the band in or out: in one go when it is the whole matrix, else row by row. */
static hr_status band_copy(const band *b, const hri_values *x, hr_value value, int in) {
    const int whole = b->columns == b->all;
    const int64_t runs = whole ? 1 : b->rows, length = whole ? b->rows * b->all : b->columns;
    hr_status status = HR_OK;
    for (int64_t r = 0; r < runs && status == HR_OK; r++) {
        const uint64_t at = (uint64_t)(r * b->all + b->first) * b->width;
        const uint64_t bytes = (uint64_t)length * b->width;
        unsigned char *data = b->data + (uint64_t)(r * b->columns) * b->width;
        status =
            in ? x->put(x->user, value, at, data, bytes) : x->get(x->user, value, at, data, bytes);
    }
    return status;
}

static hr_status load_band(const hri_tensors *file, const hri_tensor *tensor, const band *b,
                           hri_prose *why) {
    _Alignas(16) unsigned char piece[PIECE];
    const int64_t count = b->rows * b->columns, room = (int64_t)(PIECE / b->width);
    for (int64_t at = 0; at < count; at += room) {
        const int64_t n = count - at < room ? count - at : room;
        const hr_status status = hri_tensors_read(file, tensor, (uint64_t)(b->first * b->rows + at),
                                                  (uint64_t)n, b->type, piece, why);
        if (status != HR_OK) {
            return status;
        }
        for (int64_t i = 0; i < n; i++) {
            memcpy(b->data + (uint64_t)band_index(b, at + i) * b->width,
                   piece + (uint64_t)i * b->width, b->width);
        }
    }
    return HR_OK;
}

static hr_status save_band(hri_tensors_writer *w, hr_type type, const band *b, hri_prose *why) {
    _Alignas(16) unsigned char piece[PIECE];
    const int64_t count = b->rows * b->columns, room = (int64_t)(PIECE / b->width);
    for (int64_t at = 0; at < count; at += room) {
        const int64_t n = count - at < room ? count - at : room;
        for (int64_t i = 0; i < n; i++) {
            memcpy(piece + (uint64_t)i * b->width,
                   b->data + (uint64_t)band_index(b, at + i) * b->width, b->width);
        }
        const hr_status status = hri_tensors_write(w, piece, (uint64_t)n, b->type, type, why);
        if (status != HR_OK) {
            return status;
        }
    }
    return HR_OK;
}

/* ---- both ---- */

hr_status hri_tensor_load(const hri_tensors *file, const hri_tensor *tensor, const hri_values *to,
                          hr_value value, const hr_meta *meta, int32_t layout, hri_prose *why) {
    if (hr_shape_count(&meta->shape) == 0) {
        return HR_OK;
    }
    if (layout != HR_LAYOUT_CONV || meta->shape.rank != 4) {
        return load_alike(file, tensor, to, value, meta, why);
    }
    band b;
    hr_status status = band_init(&b, meta, to->buffer_bytes, why);
    if (status != HR_OK) {
        return status;
    }
    while (status == HR_OK && band_next(&b)) {
        status = load_band(file, tensor, &b, why);
        if (status == HR_OK) {
            status = band_copy(&b, to, value, 1);
            status = status == HR_OK ? HR_OK : move_failed(why, status);
        }
    }
    hri_free(b.data);
    return status;
}

hr_status hri_tensor_save(hri_tensors_writer *w, hr_type type, const hri_values *from,
                          hr_value value, const hr_meta *meta, int32_t layout, hri_prose *why) {
    if (hr_shape_count(&meta->shape) == 0) {
        return HR_OK;
    }
    if (layout != HR_LAYOUT_CONV || meta->shape.rank != 4) {
        return save_alike(w, type, from, value, meta, why);
    }
    band b;
    hr_status status = band_init(&b, meta, from->buffer_bytes, why);
    if (status != HR_OK) {
        return status;
    }
    while (status == HR_OK && band_next(&b)) {
        status = band_copy(&b, from, value, 0);
        status = status == HR_OK ? save_band(w, type, &b, why) : move_failed(why, status);
    }
    hri_free(b.data);
    return status;
}
