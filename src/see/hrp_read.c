/* Reading recordings, which nobody trusts; see hrp.h.
 *
 * Nothing is allocated for a count before the bytes that it counts are there; rows take at most about twenty times their bytes
 * in the file, because every column of a table must be present. */
#include "see/hrp.h"

#include <endian.h>
#include <string.h>
#include <zlib.h>

#include "base/json.h"

typedef struct reading {
    hri_recording *r;
    const unsigned char *bytes;
    size_t count, at;
    hri_prose *why;
    bool headed, ended;
} reading;

typedef struct chunk {
    char kind[5];
    uint32_t count;
    const unsigned char *bytes;
    size_t size;
} chunk;

static uint32_t get_u32(const unsigned char *at) {
    uint32_t x;
    memcpy(&x, at, sizeof x);
    return le32toh(x);
}

static uint64_t get_u64(const unsigned char *at) {
    uint64_t x;
    memcpy(&x, at, sizeof x);
    return le64toh(x);
}

/* The next chunk that is whole; 0: there is none. */
static int next(reading *in, chunk *out) {
    const unsigned char *head = in->bytes + in->at;
    if (in->count - in->at < 24) {
        return 0;
    }
    const uint64_t size = get_u64(head + 8);
    const size_t left = in->count - in->at - 24;
    if (size > left) {
        return 0;
    }
    *out = (chunk){.count = get_u32(head + 4), .bytes = head + 24, .size = (size_t)size};
    memcpy(out->kind, head, 4);
    if (get_u32(head + 16) != (uint32_t)crc32_z(crc32_z(0, NULL, 0), out->bytes, out->size)) {
        return 0;
    }
    const size_t whole = (out->size + 7) / 8 * 8;
    in->at += 24 + (whole < left ? whole : left);
    return 1;
}

static hr_status read_field(reading *in, const json_t *root, const hri_see_column *f) {
    char *at = (char *)&in->r->head + f->offset;
    const json_t *x = json_object_get(root, f->name);
    if (f->type == HRI_SEE_TEXT && json_is_string(x)) {
        return hri_recording_keep(in->r, json_string_value(x), (const char **)(void *)at);
    }
    if (f->type == HRI_SEE_F64 && json_is_number(x)) {
        *(double *)(void *)at = json_number_value(x);
    } else if (f->type == HRI_SEE_U64 && json_is_integer(x) && json_integer_value(x) >= 0) {
        *(uint64_t *)(void *)at = (uint64_t)json_integer_value(x);
    }
    return HR_OK;
}

static hr_status read_head(reading *in, const chunk *c) {
    json_t *root = NULL;
    const hri_json_limits limits = {.max_bytes = 1 << 20, .max_values = 1000};
    hr_status status = hri_json_parse((const char *)c->bytes, c->size, &limits, &root, in->why);
    for (size_t i = 0; i < hri_see_head_field_count && status == HR_OK; i++) {
        status = read_field(in, root, &hri_see_head_fields[i]);
    }
    json_decref(root);
    in->headed = status == HR_OK;
    return status;
}

static hr_status read_texts(reading *in, const chunk *c) {
    size_t at = 4 * (size_t)c->count;
    hr_status status = at <= c->size ? HR_OK : HR_E_FORMAT;
    for (uint32_t i = 0; i < c->count && status == HR_OK; i++) {
        const size_t length = get_u32(c->bytes + 4 * (size_t)i);
        if (length > c->size - at) {
            return HR_E_FORMAT;
        }
        const char *text = hri_arena_strndup(&in->r->arena, (const char *)c->bytes + at, length);
        status = text ? hri_see_texts_push(&in->r->texts, text) : HR_E_NOMEM_HOST;
        at += length;
    }
    return status;
}

/* Where the column lies in the chunk; NULL: it is not there. */
static const unsigned char *find(const chunk *c, const hri_see_column *column, size_t width) {
    char name[17] = {0};
    const uint32_t count = c->size >= 8 ? get_u32(c->bytes) : 0;
    if (count > (c->size - (c->size < 8 ? c->size : 8)) / 24) {
        return NULL;
    }
    const uint32_t type = column->type == HRI_SEE_TEXT ? HRI_SEE_U32 : column->type;
    for (uint32_t i = 0; i < count; i++) {
        const unsigned char *entry = c->bytes + 8 + 24 * (size_t)i;
        memcpy(name, entry, 16);
        const size_t at = get_u32(entry + 20);
        if (!strcmp(name, column->name) && get_u32(entry + 16) == type) {
            return at <= c->size && width * c->count <= c->size - at ? c->bytes + at : NULL;
        }
    }
    return NULL;
}

static void take_column(const unsigned char *from, size_t width, size_t count, char *to,
                        size_t stride) {
    for (size_t i = 0; i < count; i++, from += width, to += stride) {
        if (width == 1) {
            *to = (char)*from;
        } else if (width == 4) {
            const uint32_t x = get_u32(from);
            memcpy(to, &x, sizeof x);
        } else {
            const uint64_t x = get_u64(from);
            memcpy(to, &x, sizeof x);
        }
    }
}

static hr_status read_rows(reading *in, const chunk *c, int table) {
    const hri_see_table_info *t = &hri_see_tables[table];
    hri_see_rows *rows = &in->r->tables[table];
    for (size_t k = 0; k < t->column_count; k++) {
        if (!t->columns[k].optional &&
            !find(c, &t->columns[k], hri_see_width(t->columns[k].type))) {
            return HR_E_FORMAT;
        }
    }
    const size_t wanted = rows->count + c->count;
    if (wanted > rows->capacity) {
        const hr_status status =
            hri_vector_grow(&rows->items, &rows->capacity, wanted, t->row_bytes);
        if (status != HR_OK) {
            return status;
        }
    }
    char *to = (char *)rows->items + rows->count * t->row_bytes;
    memset(to, 0, c->count * t->row_bytes);
    for (size_t k = 0; k < t->column_count; k++) {
        const size_t width = hri_see_width(t->columns[k].type);
        const unsigned char *from = find(c, &t->columns[k], width);
        if (from) {
            take_column(from, width, c->count, to + t->columns[k].offset, t->row_bytes);
        }
    }
    rows->count = wanted;
    return HR_OK;
}

static hr_status read_chunk(reading *in, const chunk *c) {
    if (!strcmp(c->kind, "head")) {
        return read_head(in, c);
    }
    if (!strcmp(c->kind, "text")) {
        return read_texts(in, c);
    }
    for (int t = 0; t < HRI_SEE_TABLES; t++) {
        if (!strcmp(c->kind, hri_see_tables[t].chunk)) {
            return c->count ? read_rows(in, c, t) : HR_OK;
        }
    }
    in->ended = in->ended || !strcmp(c->kind, "end ");
    return HR_OK; /* a chunk of a later version */
}

bool hri_hrp_is(const void *bytes, size_t count) {
    return count >= 8 && !memcmp(bytes, "\x89HRP\r\n\x1a\n", 8);
}

static hr_status read_all(reading *in) {
    chunk c;
    if (!hri_hrp_is(in->bytes, in->count) || in->count < 16) {
        return hri_prose_set(in->why, HR_E_FORMAT, "not a recording (.hrp)");
    }
    const uint32_t version = get_u32(in->bytes + 8);
    if (version != HRI_HRP_VERSION) {
        return hri_prose_set(in->why, HR_E_UNSUPPORTED,
                             "version %u of the format; this program reads version %d", version,
                             HRI_HRP_VERSION);
    }
    hr_status status = HR_OK;
    in->at = 16;
    while (status == HR_OK && !in->ended && next(in, &c)) {
        status = read_chunk(in, &c);
    }
    /* A chunk whose contents are wrong ends the file like a missing one. */
    in->r->truncated = !in->ended;
    if (!in->headed && (status == HR_OK || status == HR_E_FORMAT)) {
        return hri_prose_set(in->why, HR_E_FORMAT,
                             "truncated before its head: nothing can be read");
    }
    return status == HR_E_FORMAT ? HR_OK : status;
}

hr_status hri_hrp_decode(const void *bytes, size_t count, hri_recording *out, hri_prose *why) {
    hri_recording r = {.truncated = false};
    reading in = {.r = &r, .bytes = bytes, .count = count, .why = why};
    hr_status status = read_all(&in);
    if (status == HR_OK) {
        status = hri_recording_finish(&r);
    }
    if (status != HR_OK) {
        hri_recording_deinit(&r);
        return status;
    }
    *out = r;
    return HR_OK;
}
