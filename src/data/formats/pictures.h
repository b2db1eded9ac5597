/* The images that a column of a table names: paths from a folder on, that of the file unless another is said.
 *
 *   hri_pictures_open(&p, s, folder, file, &why)
 *   hri_pictures_look(&p, i, count, cell, bytes, &why)     every row: sizes and times, and of up to 4096 the largest image
 *   hri_pictures_emit(&p, cell, bytes, emit)               the file as the field "image"
 *
 * A file that is not there is a bad element; when none is, the last look says so.  Threads: one while it looks; then any number may
 * emit. */
#ifndef HRI_DATA_PICTURES_H
#define HRI_DATA_PICTURES_H

#include "base/hash.h"
#include "data/stage.h"

typedef struct hri_pictures {
    hri_stage *stage; /* NULL: not open */
    char *folder;     /* with a slash behind it, or "" */
    const char *file; /* the table's */
    uint64_t largest_file, found;
    hri_hasher print; /* of sizes and times */
    int64_t newest_s;
    char *newest; /* the file that was changed last */
    char *head;   /* while it looks */
} hri_pictures;

HR_MUST_CHECK hr_status hri_pictures_open(hri_pictures *p, hri_stage *s, const char *folder,
                                          const char *file, hri_prose *why);
/* HR_E_NOT_FOUND at the last row when there is no file of any. */
HR_MUST_CHECK hr_status hri_pictures_look(hri_pictures *p, uint64_t row, uint64_t rows,
                                          const char *cell, size_t bytes, hri_prose *why);
HR_MUST_CHECK hr_status hri_pictures_emit(const hri_pictures *p, const char *cell, size_t bytes,
                                          hr_emit *emit);
void hri_pictures_fingerprint(const hri_pictures *p, hri_state *state);
/* See hri_stage_type. */
int64_t hri_pictures_newest(const hri_pictures *p, char *path, size_t size);
/* A zeroed one is allowed. */
void hri_pictures_close(hri_pictures *p);

#endif
