/* Records of a CSV file as rows of a table: which cell is which column, and what the columns are.
 *
 *   hri_columns_find(&c, names, count, &ask, table, &why)     places of the columns; with a table, those that it names
 *   hri_columns_look, then hri_columns_collect                every record, in two passes, where there is no table
 *   hri_columns_settle(&c, &ask, &why)                        after each of them: kinds, then values; the table is whole
 *   hri_columns_row(&c, record, end, separator, &row, &why)   one record, encoded
 *
 * A column is a number when nine of ten of its cells are; then a cell that is none is refused with its place, since it is a
 * mistake and no category.  Cells that stand for nothing (cells.h) are missing and count for neither. */
#ifndef HRI_DATA_COLUMNS_H
#define HRI_DATA_COLUMNS_H

#include "data/formats/cells.h"
#include "data/tabular.h"

typedef enum hri_columns_task {
    HRI_COLUMNS_AUTO = 0, /* classes for text, and for few different whole numbers */
    HRI_COLUMNS_CLASSES,
    HRI_COLUMNS_NUMBERS
} hri_columns_task;

/* As the user says it; names with '+' between; NULL: none. */
typedef struct hri_columns_ask {
    const char *x, *y, *key, *categories, *ids;
    const char *weight; /* the column that says how much a row counts */
    int task;           /* hri_columns_task */
    bool no_missing;    /* a missing input is refused */
    int whole; /* HRI_COLUMN_TEXT or _IMAGE: x is one column of them; 0: numbers and categories */
    const char *file; /* for sentences */
} hri_columns_ask;

typedef struct hri_columns_sums hri_columns_sums;

typedef struct hri_columns {
    const hri_tabular *table; /* NULL until settled */
    hri_tabular *own;         /* the same, where it was made here */
    int32_t *
        roles; /* by place in a record: -1: none; then inputs, targets, the key; INT32_MAX: the weight */
    uint32_t count; /* places */
    bool has_targets, has_key, has_weight;
    hri_columns_sums *sums; /* while looking */
    uint32_t sum_count, target_count;
    bool has_range; /* several targets, looked at, are whole numbers from least to most */
    int64_t least, most;
    uint64_t cells, missing; /* of them */
} hri_columns;

/* One encoded row.  x has room for table->width numbers, y for its targets. */
typedef struct hri_columns_row_out {
    float *x, *y;
    int64_t class_id; /* where the target is classes; -1: missing */
    const char *key;  /* in the record */
    size_t key_bytes;
    float weight; /* 1 where no column says it */
    char *text;   /* of a table of texts or images, in the record, which ends there */
    size_t text_bytes;
} hri_columns_row_out;

HR_MUST_CHECK hr_status hri_columns_find(hri_columns *c, char *const *names, uint32_t count,
                                         const hri_columns_ask *ask, const hri_tabular *table,
                                         hri_prose *why);
/* `number` counts records from 1, for sentences.  The record is changed: quotes are taken off. */
HR_MUST_CHECK hr_status hri_columns_look(hri_columns *c, const hri_columns_ask *ask, char *record,
                                         size_t length, char separator, uint64_t number,
                                         hri_prose *why);
HR_MUST_CHECK hr_status hri_columns_collect(hri_columns *c, const hri_columns_ask *ask,
                                            char *record, size_t length, char separator,
                                            uint64_t number, hri_prose *why);
HR_MUST_CHECK hr_status hri_columns_kinds(hri_columns *c, const hri_columns_ask *ask,
                                          hri_prose *why);
HR_MUST_CHECK hr_status hri_columns_settle(hri_columns *c, const hri_columns_ask *ask,
                                           hri_prose *why);
HR_MUST_CHECK hr_status hri_columns_row(const hri_columns *c, char *record, size_t length,
                                        char separator, hri_columns_row_out *out, hri_prose *why);
/* The text, or the path of an image, in a record alone; false: the record has no such cell. */
bool hri_columns_cell(const hri_columns *c, char *record, size_t length, char separator,
                      hri_columns_row_out *out);
/* Names and values are kept in checkpoints, which are UTF-8. */
bool hri_columns_is_utf8(const char *text);
/* Several targets are 0 or 1, as far as they were looked at: labels that a sample has or has not. */
bool hri_columns_has_flags(const hri_columns *c);
/* A zeroed one is allowed. */
void hri_columns_deinit(hri_columns *c);

#endif
