/* The file of a file cache: a log of records that is right after any crash.
 *
 *   head    "HRcache1", fingerprint of the pipeline above, checksum
 *   record  kind, length, checksum of the data, checksum of these; then the data
 *
 * Records are elements, marks (a saved state of the input before the next element: from there the filling can go on
 * in another process), and one end.  The end is written after all before it has reached the disk, so a file that has
 * one is trusted; a file without one is read through when it is opened, and cut at the first record that is damaged
 * or not whole.  Nothing is ever overwritten.
 *
 * One process writes: it holds a lock on the file.  Others may read what is there. */
#ifndef HRI_DATA_CACHEFILE_H
#define HRI_DATA_CACHEFILE_H

#include "data/element.h"
#include "data/state.h"

enum { HRI_CACHE_MARK_EVERY = 256 };

typedef struct hri_cache_mark {
    uint64_t element, offset, bytes; /* the state before that element lies there */
} hri_cache_mark;

typedef struct hri_cachefile {
    int fd; /* -1: closed */
    char *path;
    bool writable, complete;
    uint64_t first; /* offset of the first record */
    uint64_t end;   /* offset behind the last whole record */
    uint64_t element_count;
    hri_cache_mark *marks;
    size_t mark_count, mark_capacity;
} hri_cachefile;

/* Opens or makes the file.  One of another pipeline, or damaged in its head, is begun anew. */
HR_MUST_CHECK hr_status hri_cachefile_open(hri_cachefile *c, const char *path, uint64_t fingerprint,
                                           hri_prose *why);
void hri_cachefile_close(hri_cachefile *c);
/* Appends; on failure (a full disk) the file is as before and no longer writable. */
HR_MUST_CHECK hr_status hri_cachefile_add_element(hri_cachefile *c, const void *data, size_t bytes);
HR_MUST_CHECK hr_status hri_cachefile_add_mark(hri_cachefile *c, const void *data, size_t bytes);
HR_MUST_CHECK hr_status hri_cachefile_finish(hri_cachefile *c);
/* The element record at *cursor (marks are passed over); *cursor moves behind it.  HR_E_EOF behind the last. */
HR_MUST_CHECK hr_status hri_cachefile_next(const hri_cachefile *c, uint64_t *cursor,
                                           uint64_t *data_offset, uint64_t *bytes, hri_prose *why);
/* How many bytes the data has that starts at data_offset. */
HR_MUST_CHECK hr_status hri_cachefile_bytes(const hri_cachefile *c, uint64_t data_offset,
                                            uint64_t *out, hri_prose *why);
/* Reads and checks the data of a record that starts at data_offset. */
HR_MUST_CHECK hr_status hri_cachefile_read(const hri_cachefile *c, uint64_t data_offset, void *to,
                                           uint64_t bytes, hri_prose *why);

/* An element as bytes and back. */
uint64_t hri_element_packed_bytes(const hr_element *element);
void hri_element_pack(const hr_element *element, void *to);
HR_MUST_CHECK hr_status hri_element_unpack(const void *data, uint64_t bytes, hr_emit *emit);

#endif
