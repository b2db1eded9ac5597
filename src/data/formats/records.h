/* Text files cut into records: lines, or CSV records, whose quoted fields may hold line ends.  Reads ahead in pieces of
 * 64 KiB; a record's place is its file, its offset and its length, and it is read again when it is loaded. */
#ifndef HRI_DATA_RECORDS_H
#define HRI_DATA_RECORDS_H

#include "data/formats/filelist.h"

enum { HRI_RECORDS_CHUNK = 64 << 10 };

typedef struct hri_records {
    hri_filelist files;
    bool quotes; /* a line end inside "..." ends no record */
    hri_buffer *memory;
    uint64_t chunk_at; /* offset of the chunk in its file */
    uint64_t chunk_bytes;
    size_t chunk_file; /* SIZE_MAX: no chunk */
} hri_records;

typedef struct hri_cursor {
    size_t file;
    uint64_t offset;
} hri_cursor;

/* The record at the cursor, without its line end; the cursor moves behind it.  HR_E_EOF behind the last file.  A
 * record of 2^40 bytes is HR_E_FORMAT. */
HR_MUST_CHECK hr_status hri_records_next(hri_records *r, hri_cursor *cursor, hri_cursor *start,
                                         uint64_t *length, hri_prose *why);

#endif
