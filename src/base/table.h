/* A table for people: cells are collected, then printed as columns when they fit, else as one short block a row.
 *
 * The one idea: a narrow terminal never wraps a table into a heap of broken lines; the same cells are stood upright,
 * with the heading in front of each, or, without headings, made into a wrapped sentence a row.  Cells are cleaned of
 * control characters when they are put in. */
#ifndef HRI_BASE_TABLE_H
#define HRI_BASE_TABLE_H

#include <stddef.h>
#include "base/out.h"
#include "base/term.h"

enum { HRI_TABLE_COLUMNS = 16 };

typedef struct hri_table_item {
    char *text; /* owned */
    hri_style style;
} hri_table_item;

typedef struct hri_table {
    size_t column_count;
    const char *headings[HRI_TABLE_COLUMNS];
    int right[HRI_TABLE_COLUMNS]; /* 1: numbers, set to the right */
    hri_table_item *cells;        /* (rows, columns) */
    size_t used, room;
    int failed; /* a cell found no memory */
} hri_table;

/* headings[0..count); a heading that starts with '>' is set to the right (the mark is dropped). */
void hri_table_init(hri_table *table, const char *const *headings, size_t count);
void hri_table_deinit(hri_table *table);
/* The next cell, row by row.  Text is copied. */
void hri_table_cell(hri_table *table, hri_style style, const char *format, ...) HR_PRINTF(3, 4);
/* `indent` spaces stand in front of each line.  Without headings (`heads` 0) the rows stand alone. */
hr_status hri_table_print(const hri_table *table, hri_out *out, const hri_term *term, size_t indent,
                          int heads) HR_MUST_CHECK;

#endif
