/* Reading the end of a zip container; see zip.h. */
#include "weights/zip.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "weights/tensors_int.h"

enum {
    END_BYTES = 22, /* the record at the end, and a comment of up to 65535 bytes behind it */
    LOCATOR_BYTES = 20,
    END64_BYTES = 56,
    ENTRY_BYTES = 46,
    HEAD_BYTES = 30
};

static uint64_t number(const unsigned char *at, int bytes) {
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++) {
        x |= (uint64_t)at[i] << (8 * i);
    }
    return x;
}

static int is(const unsigned char *at, const char *mark) {
    return at[0] == 'P' && at[1] == 'K' && at[2] == mark[0] && at[3] == mark[1];
}

typedef struct reading {
    const char *path;
    int fd;
    uint64_t size;
    uint64_t list_at, list_bytes, count;
    hri_zip z;
    hri_prose *why;
} reading;

static hr_status wrong(const reading *r, const char *what) {
    return hri_prose_set(r->why, HR_E_FORMAT, "%s: %s", r->path, what);
}

/* The numbers of a container that is larger than the old record can say. */
static hr_status read_end64(reading *r, uint64_t end_at) {
    unsigned char b[END64_BYTES];
    if (end_at < LOCATOR_BYTES) {
        return HR_OK;
    }
    hr_status status =
        hri_tensors_read_at(r->fd, r->path, b, LOCATOR_BYTES, end_at - LOCATOR_BYTES, r->why);
    if (status != HR_OK || !is(b, "\x06\x07")) {
        return status;
    }
    const uint64_t at = number(b + 8, 8);
    if (at > end_at || end_at - at < END64_BYTES) {
        return wrong(r, "its last record lies outside of the file");
    }
    status = hri_tensors_read_at(r->fd, r->path, b, END64_BYTES, at, r->why);
    if (status == HR_OK && !is(b, "\x06\x06")) {
        return wrong(r, "its last record is not that of a zip file");
    }
    if (status == HR_OK) {
        r->count = number(b + 32, 8);
        r->list_bytes = number(b + 40, 8);
        r->list_at = number(b + 48, 8);
    }
    return status;
}

static hr_status read_end(reading *r) {
    enum { MOST = END_BYTES + 65535 };
    const size_t bytes = r->size < MOST ? (size_t)r->size : MOST;
    unsigned char *tail = hri_malloc(bytes + 1);
    if (!tail) {
        return hri_prose_set(r->why, HR_E_NOMEM_HOST, "%s: out of memory for its list", r->path);
    }
    hr_status status = hri_tensors_read_at(r->fd, r->path, tail, bytes, r->size - bytes, r->why);
    size_t at = bytes >= END_BYTES ? bytes - END_BYTES + 1 : 0;
    while (status == HR_OK && at > 0 && !is(tail + at - 1, "\x05\x06")) {
        at--;
    }
    if (status == HR_OK && at == 0) {
        status = wrong(r, "the list at the end of the zip file is missing: truncated?");
    }
    if (status == HR_OK) {
        const unsigned char *end = tail + at - 1;
        r->count = number(end + 10, 2);
        r->list_bytes = number(end + 12, 4);
        r->list_at = number(end + 16, 4);
        status = read_end64(r, r->size - bytes + at - 1);
    }
    hri_free(tail);
    if (status == HR_OK && (r->list_at > r->size || r->list_bytes > r->size - r->list_at)) {
        status = wrong(r, "the list of the zip file lies outside of it: truncated?");
    }
    if (status == HR_OK && r->list_bytes > HRI_ZIP_LIST_MAX) {
        return hri_prose_set(r->why, HR_E_RANGE,
                             "%s: its list has %llu bytes, more than the %d allowed", r->path,
                             (unsigned long long)r->list_bytes, HRI_ZIP_LIST_MAX);
    }
    return status;
}

/* Numbers that did not fit stand in a field of their own, in this order. */
static int read_wide(const unsigned char *extra, size_t bytes, hri_zip_entry *e, uint64_t *packed) {
    uint64_t *const wide[] = {&e->bytes, packed, &e->at};
    while (bytes >= 4) {
        const size_t n = (size_t)number(extra + 2, 2);
        if (n > bytes - 4) {
            return 0;
        }
        if (number(extra, 2) == 1) {
            size_t at = 0;
            for (size_t i = 0; i < 3; i++) {
                if (*wide[i] == UINT32_MAX) {
                    if (n - at < 8) {
                        return 0;
                    }
                    *wide[i] = number(extra + 4 + at, 8);
                    at += 8;
                }
            }
        }
        extra += 4 + n;
        bytes -= 4 + n;
    }
    return 1;
}

static hr_status read_entry(reading *r, const unsigned char *at, size_t left, size_t *used) {
    if (left < ENTRY_BYTES || !is(at, "\x01\x02")) {
        return wrong(r, "the list of the zip file is not whole");
    }
    const size_t name = (size_t)number(at + 28, 2), extra = (size_t)number(at + 30, 2);
    const size_t all = ENTRY_BYTES + name + extra + (size_t)number(at + 32, 2);
    uint64_t packed = number(at + 20, 4);
    hri_zip_entry e = {.flags = (uint16_t)number(at + 8, 2),
                       .method = (uint16_t)number(at + 10, 2),
                       .bytes = number(at + 24, 4),
                       .at = number(at + 42, 4)};
    if (all > left || name > HRI_ZIP_NAME_MAX || memchr(at + ENTRY_BYTES, 0, name) ||
        !read_wide(at + ENTRY_BYTES + name, extra, &e, &packed)) {
        return wrong(r, "the list of the zip file is not whole");
    }
    e.name = hri_arena_strndup(&r->z.names, (const char *)at + ENTRY_BYTES, name);
    if (!e.name) {
        return hri_prose_set(r->why, HR_E_NOMEM_HOST, "%s: out of memory for its list", r->path);
    }
    if (e.method == 0 && e.bytes != packed) {
        return wrong(r, "the list of the zip file gives a stored file two sizes");
    }
    r->z.items[r->z.count++] = e;
    *used = all;
    return HR_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const hri_zip_entry *)a)->name, ((const hri_zip_entry *)b)->name);
}

static hr_status read_list(reading *r) {
    const size_t bytes = (size_t)r->list_bytes, most = bytes / ENTRY_BYTES;
    if (r->count > most) {
        return wrong(r, "the list of the zip file is shorter than it says");
    }
    unsigned char *list = hri_malloc(bytes + 1);
    r->z.items = hri_calloc((size_t)r->count + 1, sizeof *r->z.items);
    hr_status status =
        list && r->z.items
            ? HR_OK
            : hri_prose_set(r->why, HR_E_NOMEM_HOST, "%s: out of memory for its list", r->path);
    if (status == HR_OK) {
        status = hri_tensors_read_at(r->fd, r->path, list, bytes, r->list_at, r->why);
    }
    for (size_t at = 0; status == HR_OK && r->z.count < r->count;) {
        size_t used = 0;
        status = read_entry(r, list + at, bytes - at, &used);
        at += used;
    }
    hri_free(list);
    if (status == HR_OK && r->z.count) {
        qsort(r->z.items, r->z.count, sizeof *r->z.items, by_name);
    }
    for (size_t i = 1; status == HR_OK && i < r->z.count; i++) {
        if (!by_name(&r->z.items[i - 1], &r->z.items[i])) {
            status = hri_prose_set(r->why, HR_E_FORMAT, "%s: the zip file has two files %.80s",
                                   r->path, r->z.items[i].name);
        }
    }
    return status;
}

hr_status hri_zip_open(const char *path, int fd, uint64_t size, hri_zip *out, hri_prose *why) {
    reading r = {.path = path, .fd = fd, .size = size, .why = why};
    hr_status status = read_end(&r);
    if (status == HR_OK) {
        status = read_list(&r);
    }
    if (status != HR_OK) {
        hri_zip_close(&r.z);
        return status;
    }
    *out = r.z;
    return HR_OK;
}

void hri_zip_close(hri_zip *z) {
    hri_free(z->items);
    hri_arena_deinit(&z->names);
    *z = (hri_zip){.count = 0};
}

const hri_zip_entry *hri_zip_find(const hri_zip *z, const char *name) {
    const hri_zip_entry wanted = {.name = name};
    return z->count ? bsearch(&wanted, z->items, z->count, sizeof *z->items, by_name) : NULL;
}

hr_status hri_zip_data(const char *path, int fd, uint64_t size, const hri_zip_entry *e,
                       uint64_t *out, hri_prose *why) {
    unsigned char head[HEAD_BYTES];
    if (e->method != 0 || e->flags & 1) {
        return hri_prose_set(why, HR_E_UNSUPPORTED,
                             "%s: %.80s is %s in the zip file; torch.save stores it as it is", path,
                             e->name, e->method ? "compressed" : "encrypted");
    }
    if (e->at > size || size - e->at < HEAD_BYTES) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: %.80s lies outside of the zip file", path,
                             e->name);
    }
    const hr_status status = hri_tensors_read_at(fd, path, head, HEAD_BYTES, e->at, why);
    if (status != HR_OK) {
        return status;
    }
    const uint64_t begin = e->at + HEAD_BYTES + number(head + 26, 2) + number(head + 28, 2);
    if (!is(head, "\x03\x04") || begin > size || e->bytes > size - begin) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: %.80s is not whole in the zip file", path,
                             e->name);
    }
    *out = begin;
    return HR_OK;
}
