/* The file of a file cache: see cachefile.h. */
#include "data/formats/cachefile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/prose.h"
#include "base/crc32c.h"
#include "data/read.h"

enum { ELEMENT = 1, MARK = 2, END = 3, HEAD_BYTES = 24, PIECE = 64 << 10 };

typedef struct file_head {
    char magic[8];
    uint64_t fingerprint;
    uint32_t zero, crc;
} file_head;

typedef struct record_head {
    uint32_t magic, kind;
    uint64_t bytes;
    uint32_t data_crc, crc;
} record_head;

_Static_assert(sizeof(file_head) == HEAD_BYTES, "the head has no holes");
_Static_assert(sizeof(record_head) == HEAD_BYTES, "a record's head has no holes");

static const char magic[8] = {'H', 'R', 'c', 'a', 'c', 'h', 'e', '1'};
static const uint32_t record_magic = 0x63725248; /* "HRrc" */

static hr_status write_at(int fd, uint64_t offset, const void *data, size_t bytes) {
    const char *p = data;
    while (bytes > 0) {
        const size_t piece = bytes < HRI_BEHIND_BYTES ? bytes : HRI_BEHIND_BYTES;
        const ssize_t n = HRI_FAULT(WRITE) ? -1 : pwrite(fd, p, piece, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return HR_E_IO;
        }
        hri_file_behind(fd, offset, offset + (uint64_t)n);
        p += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return HR_OK;
}

/* The head of the record at `offset`, when it is whole: HR_E_EOF when not. */
static hr_status read_head(const hri_cachefile *c, uint64_t offset, uint64_t file_bytes,
                           record_head *h) {
    if (file_bytes - offset < HEAD_BYTES ||
        hri_read_at(c->fd, c->path, offset, h, HEAD_BYTES, NULL) != HR_OK) {
        return HR_E_EOF;
    }
    if (h->magic != record_magic || h->crc != hri_crc32c(0, h, HEAD_BYTES - 4) ||
        h->kind < ELEMENT || h->kind > END || h->bytes > file_bytes - offset - HEAD_BYTES) {
        return HR_E_EOF;
    }
    return HR_OK;
}

static bool data_is_whole(const hri_cachefile *c, uint64_t offset, const record_head *h,
                          char *piece) {
    uint32_t crc = 0;
    for (uint64_t at = 0; at < h->bytes;) {
        const uint64_t n = h->bytes - at < PIECE ? h->bytes - at : PIECE;
        if (hri_read_at(c->fd, c->path, offset + HEAD_BYTES + at, piece, n, NULL) != HR_OK) {
            return false;
        }
        crc = hri_crc32c(crc, piece, n);
        at += n;
    }
    return crc == h->data_crc;
}

static hr_status note_mark(hri_cachefile *c, uint64_t data_offset, uint64_t bytes) {
    if (c->mark_count == c->mark_capacity) {
        const size_t capacity = c->mark_capacity ? 2 * c->mark_capacity : 64;
        hri_cache_mark *grown = hri_realloc(c->marks, capacity * sizeof *grown);
        if (!grown) {
            return HR_E_NOMEM_HOST;
        }
        c->marks = grown;
        c->mark_capacity = capacity;
    }
    c->marks[c->mark_count++] = (hri_cache_mark){c->element_count, data_offset, bytes};
    return HR_OK;
}

/* Walks the records; with `piece` the data is checked too.  *finished: there is an end. */
static hr_status walk(hri_cachefile *c, uint64_t file_bytes, char *piece, bool *finished) {
    hr_status status = HR_OK;
    c->end = c->first;
    c->element_count = 0;
    c->mark_count = 0;
    *finished = false;
    record_head h;
    while (status == HR_OK && !*finished && read_head(c, c->end, file_bytes, &h) == HR_OK) {
        if (piece && !data_is_whole(c, c->end, &h, piece)) {
            break;
        }
        if (h.kind == MARK) {
            status = note_mark(c, c->end + HEAD_BYTES, h.bytes);
        }
        c->element_count += h.kind == ELEMENT;
        *finished = h.kind == END;
        c->end += HEAD_BYTES + h.bytes;
    }
    return status;
}

static hr_status begin(hri_cachefile *c, uint64_t fingerprint) {
    file_head h = {.fingerprint = fingerprint};
    memcpy(h.magic, magic, sizeof magic);
    h.crc = hri_crc32c(0, &h, HEAD_BYTES - 4);
    if (ftruncate(c->fd, 0) != 0) {
        return HR_E_IO;
    }
    c->end = c->first;
    c->element_count = 0;
    c->mark_count = 0;
    c->complete = false;
    return write_at(c->fd, 0, &h, sizeof h);
}

static hr_status recover(hri_cachefile *c, uint64_t fingerprint) {
    struct stat st;
    file_head h = {0};
    if (fstat(c->fd, &st) != 0) {
        return HR_E_IO;
    }
    const uint64_t bytes = (uint64_t)st.st_size;
    const bool ours = bytes >= HEAD_BYTES &&
                      hri_read_at(c->fd, c->path, 0, &h, sizeof h, NULL) == HR_OK &&
                      memcmp(h.magic, magic, sizeof magic) == 0 && h.fingerprint == fingerprint &&
                      h.crc == hri_crc32c(0, &h, HEAD_BYTES - 4);
    if (!ours) {
        return c->writable ? begin(c, fingerprint) : HR_E_BUSY;
    }
    hr_status status = walk(c, bytes, NULL, &c->complete);
    if (status != HR_OK || c->complete) {
        return status;
    }
    char *piece = hri_malloc(PIECE);
    if (!piece) {
        return HR_E_NOMEM_HOST;
    }
    status = walk(c, bytes, piece, &c->complete);
    hri_free(piece);
    if (status == HR_OK && c->writable && c->end < bytes && ftruncate(c->fd, (off_t)c->end) != 0) {
        status = HR_E_IO;
    }
    return status;
}

hr_status hri_cachefile_open(hri_cachefile *c, const char *path, uint64_t fingerprint,
                             hri_prose *why) {
    *c = (hri_cachefile){.fd = -1, .first = HEAD_BYTES, .end = HEAD_BYTES};
    errno = EIO;
    c->path = hri_strdup(path);
    if (!c->path) {
        return HR_E_NOMEM_HOST;
    }
    /* It is written, and cut short where it is torn: never through a link, and nothing but a file of ours. */
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    struct stat info;
    c->fd = HRI_FAULT(OPEN) ? -1 : open(path, flags, 0666);
    if (c->fd < 0) {
        hri_prose_set(why, HR_E_IO, "%s: %s", path, strerror(errno));
        hri_cachefile_close(c);
        return HR_E_IO;
    }
    if (fstat(c->fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) {
        hri_prose_set(why, HR_E_FORMAT, "%s: not a regular file of this user", path);
        hri_cachefile_close(c);
        return HR_E_FORMAT;
    }
    c->writable = flock(c->fd, LOCK_EX | LOCK_NB) == 0;
    const hr_status status = recover(c, fingerprint);
    if (status != HR_OK) {
        hri_prose_set(why, status,
                      status == HR_E_BUSY ? "%s: another process is creating it"
                                          : "%s: cannot be read or written",
                      path);
        hri_cachefile_close(c);
    }
    return status;
}

void hri_cachefile_close(hri_cachefile *c) {
    if (c->fd >= 0) {
        close(c->fd);
    }
    hri_free(c->path);
    hri_free(c->marks);
    *c = (hri_cachefile){.fd = -1};
}

static hr_status append(hri_cachefile *c, uint32_t kind, const void *data, size_t bytes) {
    record_head h = {.magic = record_magic,
                     .kind = kind,
                     .bytes = bytes,
                     .data_crc = hri_crc32c(0, data, bytes)};
    h.crc = hri_crc32c(0, &h, HEAD_BYTES - 4);
    hr_status status = c->writable ? write_at(c->fd, c->end, &h, sizeof h) : HR_E_BUSY;
    if (status == HR_OK) {
        status = write_at(c->fd, c->end + HEAD_BYTES, data, bytes);
    }
    if (status != HR_OK) {
        if (c->writable && ftruncate(c->fd, (off_t)c->end) != 0) {
            status = HR_E_IO; /* the torn record is recognised by its checksum anyway */
        }
        c->writable = false;
        return status;
    }
    c->end += HEAD_BYTES + bytes;
    return HR_OK;
}

hr_status hri_cachefile_add_element(hri_cachefile *c, const void *data, size_t bytes) {
    const hr_status status = append(c, ELEMENT, data, bytes);
    c->element_count += status == HR_OK;
    return status;
}

hr_status hri_cachefile_add_mark(hri_cachefile *c, const void *data, size_t bytes) {
    const uint64_t at = c->end + HEAD_BYTES;
    const hr_status status = append(c, MARK, data, bytes);
    return status == HR_OK ? note_mark(c, at, bytes) : status;
}

hr_status hri_cachefile_finish(hri_cachefile *c) {
    if (c->writable && (HRI_FAULT(WRITE) || fdatasync(c->fd) != 0)) {
        c->writable = false;
        return HR_E_IO;
    }
    const hr_status status = append(c, END, "", 0);
    c->complete = status == HR_OK;
    return status;
}

hr_status hri_cachefile_next(const hri_cachefile *c, uint64_t *cursor, uint64_t *data_offset,
                             uint64_t *bytes, hri_prose *why) {
    uint64_t at = *cursor;
    while (at < c->end) {
        record_head h;
        if (read_head(c, at, c->end, &h) != HR_OK) {
            return hri_prose_set(why, HR_E_IO, "%s: a record has changed since it was opened",
                                 c->path);
        }
        if (h.kind == END) {
            return HR_E_EOF;
        }
        const uint64_t data = at + HEAD_BYTES;
        at = data + h.bytes;
        if (h.kind == ELEMENT) {
            *cursor = at;
            *data_offset = data;
            *bytes = h.bytes;
            return HR_OK;
        }
    }
    return HR_E_EOF;
}

hr_status hri_cachefile_bytes(const hri_cachefile *c, uint64_t data_offset, uint64_t *out,
                              hri_prose *why) {
    record_head h;
    const hr_status status =
        hri_read_at(c->fd, c->path, data_offset - HEAD_BYTES, &h, sizeof h, why);
    if (status == HR_OK &&
        (h.magic != record_magic || h.crc != hri_crc32c(0, &h, HEAD_BYTES - 4))) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "%s: a record is damaged; delete the file to have it rebuilt",
                             c->path);
    }
    if (status == HR_OK) {
        *out = h.bytes;
    }
    return status;
}

hr_status hri_cachefile_read(const hri_cachefile *c, uint64_t data_offset, void *to, uint64_t bytes,
                             hri_prose *why) {
    record_head h;
    hr_status status = hri_read_at(c->fd, c->path, data_offset - HEAD_BYTES, &h, sizeof h, why);
    if (status == HR_OK) {
        status = hri_read_at(c->fd, c->path, data_offset, to, bytes, why);
    }
    if (status == HR_OK && (h.bytes != bytes || hri_crc32c(0, to, bytes) != h.data_crc)) {
        status =
            hri_prose_set(why, HR_E_FORMAT,
                          "%s: a record is damaged; delete the file to have it rebuilt", c->path);
    }
    return status;
}

/* ---- elements ---- */

typedef struct packed_field {
    char name[HR_FIELD_NAME_SIZE];
    uint64_t type, rank;
    int64_t dim[HR_RANK_MAX];
    uint64_t bytes;
} packed_field;

static uint64_t padded(uint64_t bytes) {
    return (bytes + 7) / 8 * 8;
}

uint64_t hri_element_packed_bytes(const hr_element *element) {
    uint64_t sum = 8;
    for (uint32_t i = 0; i < element->count; i++) {
        sum += sizeof(packed_field) + padded(element->parts[i].field.bytes);
    }
    return sum;
}

void hri_element_pack(const hr_element *element, void *to) {
    char *at = to;
    const uint64_t count = element->count;
    memcpy(at, &count, 8);
    at += 8;
    for (uint32_t i = 0; i < element->count; i++) {
        const hr_field *f = &element->parts[i].field;
        packed_field p = {.type = (uint64_t)f->meta.type,
                          .rank = (uint64_t)f->meta.shape.rank,
                          .bytes = f->bytes};
        memcpy(p.name, f->name, sizeof p.name);
        memcpy(p.dim, f->meta.shape.dim, (size_t)f->meta.shape.rank * sizeof p.dim[0]);
        memcpy(at, &p, sizeof p);
        memcpy(at + sizeof p, f->data, f->bytes);
        memset(at + sizeof p + f->bytes, 0, padded(f->bytes) - f->bytes);
        at += sizeof p + padded(f->bytes);
    }
}

hr_status hri_element_unpack(const void *data, uint64_t bytes, hr_emit *emit) {
    const char *at = data;
    uint64_t count, left = bytes;
    if (left < 8) {
        return hri_emit_fail(emit, HR_E_FORMAT, "the cached element is damaged");
    }
    memcpy(&count, at, 8);
    at += 8;
    left -= 8;
    for (uint64_t i = 0; i < count; i++) {
        packed_field p;
        if (i >= HR_FIELD_MAX || left < sizeof p) {
            return hri_emit_fail(emit, HR_E_FORMAT, "the cached element is damaged");
        }
        memcpy(&p, at, sizeof p);
        at += sizeof p;
        left -= sizeof p;
        hr_meta m = {.type = (hr_type)p.type, .shape = {.rank = (int32_t)p.rank}};
        uint64_t wanted;
        if (p.type >= HR_TYPE_COUNT || p.rank > HR_RANK_MAX || !memchr(p.name, 0, sizeof p.name)) {
            return hri_emit_fail(emit, HR_E_FORMAT, "the cached element is damaged");
        }
        memcpy(m.shape.dim, p.dim, (size_t)p.rank * sizeof p.dim[0]);
        if (hr_meta_check(&m, &wanted) != HR_OK || wanted != p.bytes || p.bytes > left ||
            padded(p.bytes) > left) {
            return hri_emit_fail(emit, HR_E_FORMAT, "the cached element is damaged");
        }
        void *to;
        const hr_status status = hr_emit_field(emit, p.name, &m, &to);
        if (status != HR_OK) {
            return status;
        }
        memcpy(to, at, p.bytes);
        at += padded(p.bytes);
        left -= padded(p.bytes);
    }
    return HR_OK;
}
