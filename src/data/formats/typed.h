/* A CSV file that is no table: a field for each column, whose types are given or learnt from the first 1000 records.
 *
 * i64 where all are whole numbers, f32 where all are numbers, else text (u8[n]).
 *
 * Threads: one while it learns; then any number may read. */
#ifndef HRI_DATA_TYPED_H
#define HRI_DATA_TYPED_H

#include "base/field.h"
#include "data/element.h"
#include "data/formats/records.h"

typedef struct hri_typed_column {
    char name[HR_FIELD_NAME_SIZE];
    hr_type type; /* U8: text */
    bool given;
} hri_typed_column;

typedef struct hri_typed {
    hri_typed_column columns[HR_FIELD_MAX];
    uint32_t count;
    char separator; /* the caller's */
} hri_typed;

typedef struct hri_typed_ask {
    hri_records *records;
    const hri_list *types; /* NAME:i64, NAME:f32, NAME:text */
    bool header;           /* the first record of each file has the names */
    uint64_t max_bytes;    /* of a record */
} hri_typed_ask;

/* `record` has room for max_bytes.  HR_E_FORMAT, HR_E_NOT_FOUND and others with file and place. */
HR_MUST_CHECK hr_status hri_typed_learn(hri_typed *t, const hri_typed_ask *ask, char *record,
                                        hri_prose *why);
/* The fields of a record, which is changed: quotes are taken off. */
HR_MUST_CHECK hr_status hri_typed_emit(const hri_typed *t, char *record, uint64_t length,
                                       hr_emit *emit);

#endif
