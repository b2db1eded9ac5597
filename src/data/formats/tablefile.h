/* A CSV file as a table: the names in its first record, and what its columns are, learnt from all records in two passes
 * (columns.h) or given.
 *
 * Threads: one while it learns; then any number may read. */
#ifndef HRI_DATA_TABLEFILE_H
#define HRI_DATA_TABLEFILE_H

#include "data/formats/columns.h"
#include "data/formats/records.h"

typedef struct hri_tablefile {
    hri_records *records; /* the caller's, as are the next two */
    char separator;
    uint64_t max_bytes; /* of a record */
    char **names;       /* of all columns */
    uint32_t count;
    hri_columns columns;
} hri_tablefile;

/* `record` has room for max_bytes.  With a table (NULL: none) its columns are looked for.  HR_E_FORMAT, HR_E_NOT_FOUND and others
 * with file and place. */
HR_MUST_CHECK hr_status hri_tablefile_learn(hri_tablefile *t, const hri_columns_ask *ask,
                                            const hri_tabular *given, char *record, hri_prose *why);
/* A zeroed one is allowed. */
void hri_tablefile_deinit(hri_tablefile *t);

#endif
