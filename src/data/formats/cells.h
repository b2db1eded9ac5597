/* The cells of a record of comma-separated values (RFC 4180), and what one of them is. */
#ifndef HRI_DATA_CELLS_H
#define HRI_DATA_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False where a quote opens in a record and is not closed before the file ends: what follows it is no longer records.  Asked
 * before the first value is taken. */
bool hri_cells_closed(const char *record, size_t length);
/* The next value of a record: *p moves behind its separator.  Quoted values are unquoted in place.  False when there
 * are no more. */
bool hri_cell_next(char **p, char *end, char separator, char **value, size_t *length);

typedef enum hri_cell_kind {
    HRI_CELL_WHOLE = 0, /* or empty: 0, NaN */
    HRI_CELL_REAL,
    HRI_CELL_TEXT
} hri_cell_kind;

/* Numbers are decimal; "inf" and "nan" are numbers, for who takes them. */
hri_cell_kind hri_cell_read(const char *value, size_t length, double *real, int64_t *whole);
/* Empty, or one of the words that stand for nothing: NA, nan, null, None, ?. */
bool hri_cell_is_missing(const char *value, size_t length);

#define HRI_CELLS_OPEN "a quote is not closed, so everything after it is one value"

#endif
