/* A table of columns: which of them go into a model, which come out, and the numbers that make them of use to it.
 *
 *   number    (x - mean) / std; a missing one is the mean: 0
 *   onehot    a category as one number per value: 1 for its own, 0 for the others; all 0 for a missing or unknown one
 *   ids       a category as one number: 0 for a missing or unknown one, 1 for the first value
 *   text      the one input of a table of texts: tokens instead of numbers (data/text/samples.h)
 *   image     the one input of a table of images: a path (data/formats/pictures.h)
 *   classes   of a target: the number of its value; -1 for a missing one
 *
 * The one idea: everything that is learnt from the data before training is typed and in one place, so that a checkpoint
 * keeps it, and another file is read exactly as the training split was.  A table that a file was just looked at for has
 * mean 0 and std 1; fitting (loop/survey.h) fills them in.
 *
 * A table is made by one thread, then only read. */
#ifndef HRI_DATA_TABULAR_H
#define HRI_DATA_TABULAR_H

#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/map.h"
#include "base/prose.h"

enum {
    HRI_TABULAR_COLUMNS = 4096, /* at most: inputs, and targets */
    HRI_TABULAR_VALUES = 4096,  /* of a category */
    HRI_TABULAR_TEXT = 256,     /* bytes of a name or a value */
    HRI_TABULAR_CLASSES = 32    /* whole numbers: fewer different ones than this are classes */
};

/* How much a sample counts: the field of an element, and the largest. */
#define HRI_WEIGHT_FIELD "sample_weight"
#define HRI_WEIGHT_MOST  1e6

typedef enum hri_column_kind {
    HRI_COLUMN_NUMBER = 0,
    HRI_COLUMN_ONEHOT,
    HRI_COLUMN_IDS,
    HRI_COLUMN_CLASSES,
    HRI_COLUMN_TEXT,
    HRI_COLUMN_IMAGE,
    HRI_COLUMN_KINDS
} hri_column_kind;

extern const char *const hri_column_kinds[]; /* "number" and so on; NULL at the end */

typedef struct hri_column {
    const char *name;
    int kind;         /* hri_column_kind */
    double mean, std; /* number */
    const char *const *values;
    size_t value_count;
    hri_strmap places; /* of values */
    uint64_t missing;  /* cells of the file that was looked at */
    uint64_t first;    /* its first number in a row */
} hri_column;

typedef struct hri_tabular {
    hri_arena texts;
    hri_column *inputs, *targets;
    size_t input_count, target_count;
    const char *key; /* NULL: rows have no name */
    uint64_t width;  /* numbers of an encoded row */
    int fitted;
} hri_tabular;

/* An empty one.  hri_tabular_close(NULL) is allowed. */
HR_MUST_CHECK hr_status hri_tabular_open(size_t inputs, size_t targets, hri_tabular **out);
void hri_tabular_close(hri_tabular *t);
/* Texts are copied.  HR_E_RANGE beyond the limits above, HR_E_EXISTS for a value that is there twice. */
HR_MUST_CHECK hr_status hri_column_set(hri_tabular *t, hri_column *c, const char *name, int kind,
                                       const char *const *values, size_t count);
HR_MUST_CHECK hr_status hri_tabular_set_key(hri_tabular *t, const char *name);
/* After all columns are set: places and width.  HR_E_RANGE for rows that are too wide. */
HR_MUST_CHECK hr_status hri_tabular_settle(hri_tabular *t);
/* Targets are classes: there is one, and it has names. */
int hri_tabular_has_classes(const hri_tabular *t);

/* Its input is a text; an image; neither, but numbers. */
int hri_tabular_is_text(const hri_tabular *t);
int hri_tabular_is_image(const hri_tabular *t);
int hri_tabular_has_numbers(const hri_tabular *t);

/* One cell into its numbers of a row.  number: of a NUMBER, NAN when missing; text: of the others, NULL when missing. */
void hri_column_encode(const hri_column *c, double number, const char *text, float *row);
/* The class of a text; -1: it is none. */
int64_t hri_column_class(const hri_column *c, const char *text);

#endif
