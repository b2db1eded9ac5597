/* Text files cut into records: see records.h. */
#include "data/formats/records.h"

#include <string.h>
#include "data/read.h"

/* The byte at an offset of the cursor's file, from the chunk. */
static hr_status load_chunk(hri_records *r, size_t file, uint64_t offset, hri_prose *why) {
    const hri_file *f = &r->files.files[file];
    const uint64_t left = f->bytes - offset;
    const uint64_t n = left < HRI_RECORDS_CHUNK ? left : HRI_RECORDS_CHUNK;
    r->chunk_file = SIZE_MAX;
    const hr_status status = hri_filelist_read(f, offset, r->memory->data, n, why);
    if (status == HR_OK) {
        r->chunk_file = file;
        r->chunk_at = offset;
        r->chunk_bytes = n;
    }
    return status;
}

/* Walks over bytes until a line end that counts; true when found, *n is how many bytes were walked. */
static bool find_end(const char *p, uint64_t bytes, bool quotes, bool *inside, uint64_t *n) {
    if (!quotes) {
        const char *end = memchr(p, '\n', bytes);
        *n = end ? (uint64_t)(end - p) : bytes;
        return end != NULL;
    }
    for (uint64_t i = 0; i < bytes; i++) {
        if (p[i] == '"') {
            *inside = !*inside;
        } else if (p[i] == '\n' && !*inside) {
            *n = i;
            return true;
        }
    }
    *n = bytes;
    return false;
}

hr_status hri_records_next(hri_records *r, hri_cursor *cursor, hri_cursor *start, uint64_t *length,
                           hri_prose *why) {
    while (cursor->file < r->files.count && cursor->offset >= r->files.files[cursor->file].bytes) {
        *cursor = (hri_cursor){cursor->file + 1, 0};
    }
    if (cursor->file >= r->files.count) {
        return HR_E_EOF;
    }
    const uint64_t whole = r->files.files[cursor->file].bytes;
    uint64_t at = cursor->offset;
    bool inside = false, found = false;
    char last = 0; /* the byte before the line end */
    while (!found && at < whole) {
        if (r->chunk_file != cursor->file || at < r->chunk_at ||
            at >= r->chunk_at + r->chunk_bytes) {
            const hr_status status = load_chunk(r, cursor->file, at, why);
            if (status != HR_OK) {
                return status;
            }
        }
        const char *p = (const char *)r->memory->data + (at - r->chunk_at);
        uint64_t n;
        found = find_end(p, r->chunk_at + r->chunk_bytes - at, r->quotes, &inside, &n);
        last = n > 0 ? p[n - 1] : last;
        at += n;
    }
    const uint64_t bytes = at - cursor->offset;
    if (bytes >> HRI_LENGTH_BITS) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: a record is longer than 2^40 bytes",
                             r->files.files[cursor->file].path);
    }
    *start = *cursor;
    *length = bytes - (bytes > 0 && last == '\r');
    cursor->offset = at + found;
    return HR_OK;
}
