/* Reading safetensors: the header is checked whole before any number is believed, one token after the other.
 *
 * Offsets are checked by sorting: tensors in the order of their data must touch one another from 0 to the end.  That one
 * pass finds holes, overlaps and a file that is longer or shorter than it says. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json_stream.h"
#include "weights/tensor_types.h"
#include "weights/tensors_int.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the format is little-endian, and so are we");

/* ---- one tensor of the header ---- */

typedef struct reading {
    hri_tensors *t;
    hri_json_stream *s;
    size_t room;    /* of t->items */
    int texts_seen; /* "__metadata__" was there */
    hri_prose *why;
} reading;

static hr_status wrong(const reading *r, const char *name, const char *what) {
    return hri_prose_set(r->why, HR_E_FORMAT, "%s: tensor %s: %s", r->t->path, name, what);
}

static hr_status no_memory(const reading *r) {
    return hri_prose_set(r->why, HR_E_NOMEM_HOST, "%s: out of memory for the header", r->t->path);
}

static hr_status next(reading *r, hri_json_token *out) {
    hri_prose inner = {""};
    const hr_status status = hri_json_stream_next(r->s, out, &inner);
    return status == HR_OK
               ? HR_OK
               : hri_prose_set(r->why, status, "%s: the header: %s", r->t->path, inner.text);
}

/* An array of whole numbers of 0 or more: at most `most` of them are kept, *count counts all.  HR_E_INVALID for one that
 * is something else. */
static hr_status read_numbers(reading *r, const hri_json_token *first, int64_t *out, size_t most,
                              size_t *count) {
    hri_json_token token = *first;
    int good = token.kind == HRI_JSON_ARRAY;
    hr_status status = HR_OK;
    *count = 0;
    while (good && (status = next(r, &token)) == HR_OK && token.kind != HRI_JSON_ARRAY_END) {
        good = token.kind == HRI_JSON_INTEGER && token.integer >= 0;
        if (good && *count < most) {
            out[*count] = token.integer;
        }
        ++*count;
    }
    return status != HR_OK ? status : good ? HR_OK : HR_E_INVALID;
}

static hr_status read_shape(reading *r, const hri_json_token *first, hri_tensor *t) {
    int64_t dims[HR_RANK_MAX] = {0};
    size_t rank;
    const hr_status status = read_numbers(r, first, dims, HR_RANK_MAX, &rank);
    if (status == HR_E_INVALID) {
        return wrong(r, t->name,
                     first->kind == HRI_JSON_ARRAY ? "a dimension is not an integer >= 0"
                                                   : "its shape is missing");
    }
    if (status == HR_OK && rank > HR_RANK_MAX) {
        return hri_prose_set(r->why, HR_E_UNSUPPORTED,
                             "%s: tensor %s has %zu dimensions, more than %d", r->t->path, t->name,
                             rank, HR_RANK_MAX);
    }
    if (status == HR_OK) {
        t->shape = hr_shape_from((int)rank, dims);
    }
    return status;
}

static hr_status read_dtype(reading *r, const hri_json_token *token, hri_tensor *t) {
    const int text = token->kind == HRI_JSON_STRING;
    if (!text || token->cut || token->nul || !hri_dtype_find(token->text, &t->kind)) {
        return hri_prose_set(r->why, text ? HR_E_UNSUPPORTED : HR_E_FORMAT,
                             "%s: tensor %s has the unknown type %.40s", r->t->path, t->name,
                             text ? token->text : "(none)");
    }
    t->dtype = hri_dtypes[t->kind].name;
    return HR_OK;
}

static hr_status read_offsets(reading *r, const hri_json_token *token, hri_tensor *t) {
    int64_t places[2] = {0};
    size_t count;
    const hr_status status = read_numbers(r, token, places, 2, &count);
    if (status == HR_E_INVALID || (status == HR_OK && (count != 2 || places[1] < places[0]))) {
        return wrong(r, t->name, "its offsets are not a start and an end");
    }
    t->begin = (uint64_t)places[0];
    t->end = (uint64_t)places[1];
    return status;
}

/* bytes of the shape; 0 on overflow of 63 bits. */
static int shape_bytes(const hr_shape *shape, uint64_t item, uint64_t *out) {
    uint64_t bytes = item;
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dim[d] == 0) {
            *out = 0;
            return 1;
        }
    }
    for (int d = 0; d < shape->rank; d++) {
        if (__builtin_mul_overflow(bytes, (uint64_t)shape->dim[d], &bytes) || bytes > INT64_MAX) {
            return 0;
        }
    }
    *out = bytes;
    return 1;
}

/* Do type, shape and offsets speak of the same bytes, and are they there? */
static hr_status check_tensor(const reading *r, const hri_tensor *t) {
    uint64_t bytes = 0;
    char shape[256];
    const hr_meta meta = {HR_TYPE_U8, t->shape}; /* only the brackets are shown */
    const char *dims = strchr(hr_meta_print(&meta, shape, sizeof shape), '[');
    if (!shape_bytes(&t->shape, hri_dtypes[t->kind].bytes, &bytes) || bytes != t->end - t->begin) {
        return hri_prose_set(
            r->why, HR_E_FORMAT, "%s: tensor %s: its offsets span %llu bytes, which is not %s%s",
            r->t->path, t->name, (unsigned long long)(t->end - t->begin), t->dtype, dims);
    }
    if (t->end > r->t->data_bytes) {
        return hri_prose_set(
            r->why, HR_E_FORMAT,
            "%s: tensor %s ends at byte %llu of the data, but the file has only %llu", r->t->path,
            t->name, (unsigned long long)t->end, (unsigned long long)r->t->data_bytes);
    }
    return HR_OK;
}

static hr_status read_tensor(reading *r, const hri_json_token *first, hri_tensor *out) {
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 };
    static const char form[] = "it is not an object with dtype, shape and data_offsets";
    hri_tensor t = {.name = hri_arena_strdup(&r->t->texts, first->key)};
    hri_json_token token = *first;
    int seen = 0;
    if (!t.name) {
        return no_memory(r);
    }
    if (token.kind != HRI_JSON_OBJECT) {
        return wrong(r, t.name, form);
    }
    hr_status status;
    while ((status = next(r, &token)) == HR_OK && token.kind != HRI_JSON_OBJECT_END) {
        const int part = !strcmp(token.key, "dtype")          ? DTYPE
                         : !strcmp(token.key, "shape")        ? SHAPE
                         : !strcmp(token.key, "data_offsets") ? OFFSETS
                                                              : 0;
        if (!part || (seen & part)) {
            return wrong(r, t.name, form);
        }
        seen |= part;
        status = part == DTYPE   ? read_dtype(r, &token, &t)
                 : part == SHAPE ? read_shape(r, &token, &t)
                                 : read_offsets(r, &token, &t);
        if (status != HR_OK) {
            return status;
        }
    }
    if (status == HR_OK && seen != (DTYPE | SHAPE | OFFSETS)) {
        return wrong(r, t.name, form);
    }
    if (status == HR_OK && (status = check_tensor(r, &t)) == HR_OK) {
        *out = t;
    }
    return status;
}

/* ---- the header ---- */

static int by_place(const void *a, const void *b) {
    const hri_tensor *x = a, *y = b;
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    if (x->end != y->end) {
        return x->end < y->end ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

static hr_status check_places(const hri_tensors *t, hri_prose *why) {
    uint64_t at = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (t->items[i].begin != at) {
            return hri_prose_set(why, HR_E_FORMAT, "%s: tensor %s starts at byte %llu, %s %llu",
                                 t->path, t->items[i].name, (unsigned long long)t->items[i].begin,
                                 t->items[i].begin < at ? "inside the tensor that ends at"
                                                        : "after a gap that starts at",
                                 (unsigned long long)at);
        }
        at = t->items[i].end;
    }
    if (at != t->data_bytes) {
        return hri_prose_set(
            why, HR_E_FORMAT,
            "%s: the tensors end at byte %llu, but the file has %llu bytes of data", t->path,
            (unsigned long long)at, (unsigned long long)t->data_bytes);
    }
    return HR_OK;
}

/* Keeps one text; those that nobody asks for are bounded and then left out. */
static hr_status keep_note(reading *r, const hri_json_token *token) {
    hri_tensors *t = r->t;
    const int ours = !strcmp(token->key, "headroom") || !strcmp(token->key, HRI_TENSORS_GRAPH);
    if (hri_tensors_metadata(t, token->key)) {
        return hri_prose_set(r->why, HR_E_FORMAT, "%s: __metadata__: %s is a duplicate", t->path,
                             token->key);
    }
    if (ours && (token->cut || token->nul)) {
        return hri_prose_set(r->why, token->cut ? HR_E_RANGE : HR_E_FORMAT,
                             token->cut ? "%s: its metadata is longer than %d bytes"
                                        : "%s: its metadata (at most %d bytes) contains a NUL",
                             t->path, HRI_TENSORS_TEXT_MAX);
    }
    if (!ours && (token->nul || token->cut || token->bytes > HRI_TENSORS_NOTE_MAX ||
                  t->note_count == HRI_TENSORS_NOTES_MAX)) {
        return HR_OK;
    }
    if (!t->notes) { /* the last places are for ours */
        t->notes = hri_calloc(2 * (HRI_TENSORS_NOTES_MAX + 2), sizeof *t->notes);
    }
    const char *key = t->notes ? hri_arena_strdup(&t->texts, token->key) : NULL;
    const char *text = key ? hri_arena_strdup(&t->texts, token->text) : NULL;
    if (!text) {
        return no_memory(r);
    }
    t->notes[2 * t->note_count] = key;
    t->notes[2 * t->note_count++ + 1] = text;
    return HR_OK;
}

static hr_status read_metadata(reading *r, const hri_json_token *first) {
    hri_json_token token = *first;
    hr_status status;
    if (token.kind != HRI_JSON_OBJECT || r->texts_seen++) {
        return hri_prose_set(r->why, HR_E_FORMAT, "%s: __metadata__ is not an object", r->t->path);
    }
    while ((status = next(r, &token)) == HR_OK && token.kind != HRI_JSON_OBJECT_END) {
        if (token.kind != HRI_JSON_STRING) {
            return hri_prose_set(r->why, HR_E_FORMAT, "%s: __metadata__: %s is not a string",
                                 r->t->path, token.key);
        }
        status = keep_note(r, &token);
        if (status != HR_OK) {
            return status;
        }
    }
    return status;
}

static hr_status add_tensor(reading *r, const hri_json_token *first) {
    hri_tensors *t = r->t;
    if (strlen(first->key) > HRI_TENSORS_NAME_MAX) {
        return hri_prose_set(r->why, HR_E_RANGE, "%s: a tensor name is longer than %d bytes",
                             t->path, HRI_TENSORS_NAME_MAX);
    }
    if (t->count == HRI_TENSORS_COUNT_MAX) {
        return hri_prose_set(r->why, HR_E_RANGE, "%s: more than %d tensors", t->path,
                             HRI_TENSORS_COUNT_MAX);
    }
    if (t->count == r->room) {
        const size_t room = r->room ? r->room + r->room / 2 : 64;
        hri_tensor *more = hri_realloc(t->items, room * sizeof *more);
        if (!more) {
            return no_memory(r);
        }
        t->items = more;
        r->room = room;
    }
    const hr_status status = read_tensor(r, first, &t->items[t->count]);
    t->count += status == HR_OK;
    return status;
}

static hr_status read_header(reading *r) {
    hri_tensors *t = r->t;
    hri_json_token token;
    hr_status status = next(r, &token);
    if (status == HR_OK && token.kind != HRI_JSON_OBJECT) {
        return hri_prose_set(r->why, HR_E_FORMAT, "%s: the header is not an object", t->path);
    }
    while (status == HR_OK && (status = next(r, &token)) == HR_OK &&
           token.kind != HRI_JSON_OBJECT_END) {
        status =
            !strcmp(token.key, "__metadata__") ? read_metadata(r, &token) : add_tensor(r, &token);
    }
    if (status == HR_OK) {
        status = next(r, &token); /* nothing may stand behind */
    }
    if (status != HR_OK) {
        return status;
    }
    if (t->count) {
        qsort(t->items, t->count, sizeof *t->items, by_place);
    }
    status = hri_tensors_sort(t, r->why);
    return status == HR_OK ? check_places(t, r->why) : status;
}

static hr_status parse(const char *path, const hri_json_stream_options *from, uint64_t bytes,
                       uint64_t data_bytes, hri_tensors *out, hri_prose *why) {
    hri_tensors t = {.fd = -1, .data_begin = 8 + bytes, .data_bytes = data_bytes};
    reading r = {.t = &t, .why = why};
    hri_json_stream_options o = *from;
    o.max_bytes = HRI_TENSORS_HEADER_MAX;
    o.max_depth = 3;
    o.max_text = HRI_TENSORS_TEXT_MAX;
    t.path = hri_strdup(path);
    if (!t.path) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "%s: out of memory for the header", path);
    }
    hr_status status = hri_json_stream_open(&o, &r.s, why);
    if (status == HR_OK) {
        status = read_header(&r);
    }
    hri_json_stream_close(r.s);
    if (status != HR_OK) {
        hri_tensors_close(&t);
        return status;
    }
    *out = t;
    return HR_OK;
}

hr_status hri_tensors_parse(const char *path, const char *header, size_t bytes, uint64_t data_bytes,
                            hri_tensors *out, hri_prose *why) {
    hri_json_memory memory = {.text = header, .bytes = bytes};
    const hri_json_stream_options o = {.read = hri_json_read_memory, .user = &memory};
    return parse(path, &o, bytes, data_bytes, out, why);
}

/* ---- the file ---- */

hr_status hri_safetensors_open(const char *path, int fd, uint64_t size, hri_tensors *out,
                               hri_prose *why) {
    uint64_t bytes = 0;
    char first = 0;
    if (size < 8) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: not a safetensors file (only %llu bytes)", path,
                             (unsigned long long)size);
    }
    hr_status status = hri_tensors_read_at(fd, path, &bytes, sizeof bytes, 0, why);
    if (status != HR_OK) {
        return status;
    }
    if (bytes > size - 8) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "%s: a header of %llu bytes in a file of %llu bytes: truncated, or "
                             "not a safetensors file",
                             path, (unsigned long long)bytes, (unsigned long long)size);
    }
    if (bytes > HRI_TENSORS_HEADER_MAX) {
        return hri_prose_set(why, HR_E_RANGE,
                             "%s: the header has %llu bytes, more than the %d allowed", path,
                             (unsigned long long)bytes, HRI_TENSORS_HEADER_MAX);
    }
    status = bytes ? hri_tensors_read_at(fd, path, &first, 1, 8, why) : HR_OK;
    if (status == HR_OK && first != '{') {
        status = hri_prose_set(why, HR_E_FORMAT, "%s: the header does not start with '{'", path);
    }
    if (status != HR_OK) {
        return status;
    }
    hri_json_file file = {.fd = fd, .at = 8, .end = 8 + bytes};
    const hri_json_stream_options o = {.read = hri_json_read_file, .user = &file};
    return parse(path, &o, bytes, size - 8 - bytes, out, why);
}
