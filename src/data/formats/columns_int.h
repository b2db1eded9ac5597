/* Between the files of columns.h: columns_find.c says which place of a record is which column, columns.c the rest. */
#ifndef HRI_DATA_COLUMNS_INT_H
#define HRI_DATA_COLUMNS_INT_H

#include "base/map.h"
#include "data/formats/columns.h"

enum { HRI_COLUMNS_SHOWN = 40, HRI_COLUMNS_WEIGHT = INT32_MAX /* a role */ };

/* What was seen of one column. */
struct hri_columns_sums {
    char *name;
    uint64_t numbers, texts, missing;
    bool whole; /* all numbers are */
    int64_t least, most;
    uint64_t odd; /* the record with the first text */
    char odd_text[HRI_COLUMNS_SHOWN + 1];
    hri_strmap values; /* of a category */
    bool forced, as_ids, category, too_many;
    bool text;       /* nothing is learnt from it */
    uint64_t commas; /* texts such as 0,5 */
};

#endif
