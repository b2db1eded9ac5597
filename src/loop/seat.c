/* Numbers of a field into an input; see seat.h. */
#include "loop/seat.h"

#include <string.h>

#include "data/pipeline.h"
#include "graph/half.h"

enum { PIECE = 1024 }; /* numbers converted at a time */

hri_seat hri_seat_of(const char *data, const hri_planned_run *run, const char *name,
                     const hr_meta *sample, uint64_t index) {
    const hr_value value = hr_graph_find(run->g, name);
    return (hri_seat){.exec = run->exec,
                      .value = value,
                      .type = value == HR_NONE ? sample->type : run->g->values[value].meta.type,
                      .count = (uint64_t)hr_shape_count(&sample->shape),
                      .index = index,
                      .data = data};
}

/* Element i of a field as a number of the wanted kind. */
static float real_at(const hr_field *f, uint64_t i) {
    switch (f->meta.type) {
    case HR_TYPE_F32:
        return ((const float *)f->data)[i];
    case HR_TYPE_BF16:
        return hri_from_bf16(((const hri_bf16 *)f->data)[i]);
    case HR_TYPE_F16:
        return hri_from_f16(((const hri_f16 *)f->data)[i]);
    case HR_TYPE_U8:
        return (float)((const uint8_t *)f->data)[i] / 255.0f;
    case HR_TYPE_I32:
        return (float)((const int32_t *)f->data)[i];
    default:
        return (float)((const int64_t *)f->data)[i];
    }
}

void hri_seat_counts(hri_seat *p, const hri_model_input *want, uint64_t *counted) {
    p->counted = counted;
    p->leaves_out = want->counts;
    p->row = want->row;
    p->from = want->row_from;
    p->to = want->row_to;
}

void hri_seat_count_labels(const hri_seat *p, uint64_t first, const int32_t *labels, uint64_t n) {
    for (uint64_t i = 0; p->counted && i < n; i++) {
        const int64_t at = p->row ? (int64_t)((first + i) % (uint64_t)p->row) : 0;
        *p->counted += labels[i] >= 0 && (!p->row || (at >= p->from && at < p->to));
    }
}

void hri_seat_count_reals(const hri_seat *p, const float *targets, uint64_t n) {
    for (uint64_t i = 0; p->counted && i < n; i++) {
        *p->counted += targets[i] == targets[i]; /* NaN is not */
    }
}

hr_status hri_seat_put(const hri_seat *p, uint64_t first, const void *data, uint64_t n) {
    const uint64_t width = hr_type_bytes(p->type);
    return hri_exec_put(p->exec, p->value, (p->index * p->count + first) * width, data, n * width);
}

/* Bytes that stay bytes: the graph normalises them. */
static hr_status put_bytes(const hri_seat *p, const hr_field *f, hri_prose *why) {
    return f->meta.type == HR_TYPE_U8 ? hri_seat_put(p, 0, f->data, p->count)
                                      : hri_prose_set(why, HR_E_SHAPE, "field %s is %s, not u8",
                                                      f->name, hr_type_name(f->meta.type));
}

static hr_status put_reals(const hri_seat *p, const hr_field *f) {
    float piece[PIECE];
    hr_status status = HR_OK;
    if (p->counted && !p->numbers) {
        *p->counted += p->count; /* every target is one */
    }
    if (p->counted && p->numbers && f->meta.type == HR_TYPE_F32) {
        hri_seat_count_reals(p, f->data, p->count);
    }
    if (f->meta.type == HR_TYPE_F32) {
        return hri_seat_put(p, 0, f->data, p->count);
    }
    for (uint64_t at = 0; at < p->count && status == HR_OK; at += PIECE) {
        const uint64_t n = p->count - at < PIECE ? p->count - at : PIECE;
        for (uint64_t i = 0; i < n; i++) {
            piece[i] = p->numbers && f->meta.type == HR_TYPE_U8
                           ? (float)((const uint8_t *)f->data)[at + i]
                           : real_at(f, at + i);
        }
        if (p->numbers) {
            hri_seat_count_reals(p, piece, n);
        }
        status = hri_seat_put(p, at, piece, n);
    }
    return status;
}

/* Whole numbers as they are: what they mean is the model's business. */
static hr_status put_numbers(const hri_seat *p, const hr_field *f, hri_prose *why) {
    int32_t piece[PIECE];
    hr_status status = HR_OK;
    if (p->counted && !p->leaves_out) {
        *p->counted += p->count; /* every one */
    }
    for (uint64_t at = 0; at < p->count && status == HR_OK; at += PIECE) {
        const uint64_t n = p->count - at < PIECE ? p->count - at : PIECE;
        for (uint64_t i = 0; i < n; i++) {
            int64_t x;
            if (!hri_field_whole(f, at + i, &x) || x < INT32_MIN || x > INT32_MAX) {
                return hri_prose_set(why, HR_E_SHAPE,
                                     "field %s has values that are not 32-bit integers", f->name);
            }
            if (p->table && (x < 0 || x >= p->table)) { /* a GPU would make NaN of it */
                const int token = !strcmp(f->name, "tokens");
                return hri_prose_set(why, HR_E_INVALID,
                                     "%s: %s %lld, number %llu of a sample, is out of range: the "
                                     "model has %lld %s (0-%lld)",
                                     p->data, token ? "token" : f->name, (long long)x,
                                     (unsigned long long)(at + i), (long long)p->table,
                                     token ? "tokens" : "rows for it", (long long)p->table - 1);
            }
            piece[i] = (int32_t)x;
        }
        if (p->leaves_out) {
            hri_seat_count_labels(p, at, piece, n);
        }
        status = hri_seat_put(p, at, piece, n);
    }
    return status;
}

hr_status hri_seat_put_wholes(const hri_seat *p, const hr_field *f, uint64_t shift, int64_t limit,
                              hri_prose *why) {
    int32_t piece[PIECE];
    hr_status status = HR_OK;
    for (uint64_t at = 0; at < p->count && status == HR_OK; at += PIECE) {
        const uint64_t n = p->count - at < PIECE ? p->count - at : PIECE;
        for (uint64_t i = 0; i < n; i++) {
            int64_t x = -1;
            if (at + i + shift < p->count && !hri_field_whole(f, at + i + shift, &x)) {
                return hri_prose_set(why, HR_E_SHAPE, "field %s is %s, not an integer type",
                                     f->name, hr_type_name(f->meta.type));
            }
            if (x >= limit) {
                const int token = !strcmp(f->name, "tokens") || !strcmp(f->name, "targets");
                return hri_prose_set(why, HR_E_INVALID,
                                     "%s: %s %lld, number %llu of a sample, is out of range: the "
                                     "model has %lld %s (0-%lld)",
                                     p->data, token ? "token" : "label", (long long)x,
                                     (unsigned long long)(at + i + shift), (long long)limit,
                                     token ? "tokens" : "classes", (long long)limit - 1);
            }
            piece[i] = x < 0 ? -1 : (int32_t)x;
        }
        hri_seat_count_labels(p, at, piece, n);
        status = hri_seat_put(p, at, piece, n);
    }
    return status;
}

hr_status hri_seat_put_field(const hri_seat *p, const hr_field *f, int64_t limit, hri_prose *why) {
    if (f->bytes / hr_type_bytes(f->meta.type) != p->count) {
        char is[256];
        return hri_prose_set(why, HR_E_SHAPE,
                             "the %s of a sample is %s, but the model expects "
                             "%llu elements",
                             f->name, hr_meta_print(&f->meta, is, sizeof is),
                             (unsigned long long)p->count);
    }
    return p->type == HR_TYPE_U8    ? put_bytes(p, f, why)
           : p->type == HR_TYPE_F32 ? put_reals(p, f)
           : limit > 0              ? hri_seat_put_wholes(p, f, 0, limit, why)
                                    : put_numbers(p, f, why);
}

hr_status hri_seat_put_same(const hri_seat *p, int byte) {
    int32_t piece[PIECE];
    hr_status status = HR_OK;
    memset(piece, byte, sizeof piece);
    for (uint64_t at = 0; at < p->count && status == HR_OK; at += PIECE) {
        status = hri_seat_put(p, at, piece, p->count - at < PIECE ? p->count - at : PIECE);
    }
    return status;
}
