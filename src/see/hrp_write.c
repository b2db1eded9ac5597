/* Writing recordings; see hrp.h. */
#include "see/hrp.h"

#include <endian.h>
#include <string.h>
#include <zlib.h>

#include "base/file.h"
#include "base/json.h"

/* One chunk is built, then given away. */
typedef struct building {
    const hri_recording *r;
    hri_hrp_sink *sink;
    void *user;
    hri_prose *why;
    bool lean;
    unsigned char *bytes;
    size_t used, room;
} building;

static size_t padded(size_t bytes) {
    return (bytes + 7) / 8 * 8;
}

static hr_status reserve(building *b, size_t bytes) {
    if (bytes > b->room) {
        unsigned char *more = hri_realloc(b->bytes, bytes);
        if (!more) {
            return HR_E_NOMEM_HOST;
        }
        b->bytes = more;
        b->room = bytes;
    }
    memset(b->bytes, 0, bytes);
    b->used = bytes;
    return HR_OK;
}

static void put_u32(unsigned char *at, uint32_t x) {
    x = htole32(x);
    memcpy(at, &x, sizeof x);
}

static void put_u64(unsigned char *at, uint64_t x) {
    x = htole64(x);
    memcpy(at, &x, sizeof x);
}

static hr_status send(building *b, const char *kind, size_t count) {
    unsigned char head[24] = {0}, zeros[8] = {0};
    memcpy(head, kind, 4);
    put_u32(head + 4, (uint32_t)count);
    put_u64(head + 8, b->used);
    put_u32(head + 16, (uint32_t)crc32_z(crc32_z(0, NULL, 0), b->bytes, b->used));
    hr_status status = b->sink(b->user, head, sizeof head, b->why);
    if (status == HR_OK && b->used) {
        status = b->sink(b->user, b->bytes, b->used, b->why);
    }
    const size_t rest = padded(b->used) - b->used;
    return status == HR_OK && rest ? b->sink(b->user, zeros, rest, b->why) : status;
}

static hr_status send_head(building *b) {
    hri_json json;
    char *text = NULL;
    hri_json_init(&json);
    for (size_t i = 0; i < hri_see_head_field_count; i++) {
        const hri_see_column *f = &hri_see_head_fields[i];
        const char *at = (const char *)&b->r->head + f->offset;
        if (f->type == HRI_SEE_TEXT) {
            hri_json_string(&json, f->name, *(const char *const *)(const void *)at);
        } else if (f->type == HRI_SEE_F64) {
            hri_json_double(&json, f->name, *(const double *)(const void *)at);
        } else {
            const uint64_t x = *(const uint64_t *)(const void *)at;
            hri_json_u64(&json, f->name, x < INT64_MAX ? x : INT64_MAX);
        }
    }
    hr_status status = hri_json_print(&json, 0, &text);
    hri_json_deinit(&json);
    if (status == HR_OK) {
        status = reserve(b, strlen(text));
    }
    if (status == HR_OK) {
        memcpy(b->bytes, text, b->used);
        status = send(b, "head", 1);
    }
    hri_free(text);
    return status;
}

static hr_status send_texts(building *b, size_t from, size_t to) {
    size_t bytes = 4 * (to - from), at = bytes;
    for (size_t i = from; i < to; i++) {
        bytes += strlen(b->r->texts.items[i]);
    }
    hr_status status = reserve(b, bytes);
    for (size_t i = from; i < to && status == HR_OK; i++) {
        const size_t length = strlen(b->r->texts.items[i]);
        put_u32(b->bytes + 4 * (i - from), (uint32_t)length);
        memcpy(b->bytes + at, b->r->texts.items[i], length);
        at += length;
    }
    return status == HR_OK ? send(b, "text", to - from) : status;
}

static void put_cell(unsigned char *to, const char *from, size_t width) {
    uint64_t x8;
    uint32_t x4;
    if (width == 1) {
        *to = *(const unsigned char *)from;
    } else if (width == 4) {
        memcpy(&x4, from, sizeof x4);
        put_u32(to, x4);
    } else {
        memcpy(&x8, from, sizeof x8);
        put_u64(to, x8);
    }
}

enum { COLUMNS = 32 };

/* Every column, or those in which something is not zero.  Returns how many there are. */
static size_t choose(const building *b, const hri_see_table_info *t, const char *rows, size_t count,
                     const hri_see_column *chosen[COLUMNS]) {
    static const char zeros[8];
    size_t used = 0;
    for (size_t c = 0; c < t->column_count && used < COLUMNS; c++) {
        const size_t width = hri_see_width(t->columns[c].type);
        const char *at = rows + t->columns[c].offset;
        bool any = !b->lean;
        for (size_t i = 0; i < count && !any; i++) {
            any = memcmp(at + i * t->row_bytes, zeros, width) != 0;
        }
        if (any) {
            chosen[used++] = &t->columns[c];
        }
    }
    return used;
}

static hr_status send_rows(building *b, const hri_see_table_info *t, const char *rows,
                           size_t count) {
    const hri_see_column *chosen[COLUMNS];
    const size_t columns = choose(b, t, rows, count, chosen);
    size_t bytes = 8 + 24 * columns;
    for (size_t c = 0; c < columns; c++) {
        bytes += padded(hri_see_width(chosen[c]->type) * count);
    }
    const hr_status status = reserve(b, bytes);
    if (status != HR_OK) {
        return status;
    }
    put_u32(b->bytes, (uint32_t)columns);
    size_t at = 8 + 24 * columns;
    for (size_t c = 0; c < columns; c++) {
        const hri_see_column *column = chosen[c];
        const size_t width = hri_see_width(column->type);
        unsigned char *entry = b->bytes + 8 + 24 * c;
        memcpy(entry, column->name, strlen(column->name));
        put_u32(entry + 16, column->type == HRI_SEE_TEXT ? HRI_SEE_U32 : column->type);
        put_u32(entry + 20, (uint32_t)at);
        for (size_t i = 0; i < count; i++) {
            put_cell(b->bytes + at + i * width, rows + i * t->row_bytes + column->offset, width);
        }
        at += padded(width * count);
    }
    return send(b, t->chunk, count);
}

static hr_status send_all(building *b) {
    unsigned char start[16] = "\x89HRP\r\n\x1a\n";
    put_u32(start + 8, HRI_HRP_VERSION);
    hr_status status = b->sink(b->user, start, sizeof start, b->why);
    if (status == HR_OK) {
        status = send_head(b);
    }
    const size_t block = HRI_HRP_BLOCK_ROWS, texts = b->r->texts.count;
    for (size_t i = 0; i < texts && status == HR_OK; i += block) {
        status = send_texts(b, i, i + block < texts ? i + block : texts);
    }
    /* Ops stand before buffers, whose lifetimes they bound. */
    for (int t = 0; t < HRI_SEE_TABLES && status == HR_OK; t++) {
        const hri_see_rows *rows = &b->r->tables[t];
        for (size_t i = 0; i < rows->count && status == HR_OK; i += block) {
            const size_t left = rows->count - i;
            status = send_rows(b, &hri_see_tables[t],
                               (const char *)rows->items + i * hri_see_tables[t].row_bytes,
                               left < block ? left : block);
        }
    }
    if (status == HR_OK) {
        status = reserve(b, 0);
    }
    return status == HR_OK ? send(b, "end ", 0) : status;
}

static hr_status encode(building *b) {
    const hr_status status = reserve(b, 4096);
    const hr_status sent = status == HR_OK ? send_all(b) : status;
    hri_free(b->bytes);
    return sent;
}

hr_status hri_hrp_encode(const hri_recording *r, hri_hrp_sink *sink, void *user, hri_prose *why) {
    return encode(&(building){.r = r, .sink = sink, .user = user, .why = why});
}

hr_status hri_hrp_encode_lean(const hri_recording *r, hri_hrp_sink *sink, void *user,
                              hri_prose *why) {
    return encode(&(building){.r = r, .sink = sink, .user = user, .why = why, .lean = true});
}

static hr_status to_file(void *user, const void *bytes, size_t count, hri_prose *why) {
    return hri_writer_write(user, bytes, count, why);
}

hr_status hri_hrp_write(const hri_recording *r, const char *path, hri_prose *why) {
    hri_writer w = {.fd = -1};
    hr_status status = hri_writer_open(&w, path, why);
    if (status == HR_OK) {
        status = hri_hrp_encode(r, to_file, &w, why);
    }
    if (status == HR_OK) {
        status = hri_writer_commit(&w, why);
    }
    hri_writer_abandon(&w);
    return status;
}
