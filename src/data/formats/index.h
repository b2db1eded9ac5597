/* The places of all records of a source, so that a format without random access gets it: 16 bytes a record, charged to
 * the source's account, made by one pass over the files when the pipeline is opened (`index=on`).  A shuffle over such
 * a source is a full one.
 *
 * Places lie in pieces of 4096, so that growing copies nothing and never holds a table twice. */
#ifndef HRI_DATA_INDEX_H
#define HRI_DATA_INDEX_H

#include "data/stage.h"

typedef struct hri_index {
    hri_buffer **pieces;
    uint64_t count;
    size_t piece_count;
} hri_index;

/* Appends a ticket's place.  HR_E_LIMIT when the budget has no room for another piece. */
HR_MUST_CHECK hr_status hri_index_add(hri_index *x, hri_stage *s, uint64_t a, uint64_t b,
                                      hri_prose *why);
/* Fills the places of *item: a and b.  i < count. */
void hri_index_get(const hri_index *x, uint64_t i, hri_item *item);
void hri_index_deinit(hri_index *x);

/* Pulls every ticket of the stream `s` (a stage with `start` and `next`) into x and makes s a source with random
 * access.  Damage that loses the rest of a file is left out and counted when bad elements are skipped, else refused. */
HR_MUST_CHECK hr_status hri_index_fill(hri_index *x, hri_stage *s, hri_prose *why);

#endif
