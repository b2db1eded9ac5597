/* The one option table: attributes, stage options, environment, flags, --help, completion, reference pages.
 *
 *   typedef struct train_options { int64_t batch; const char *device; uint64_t cache_bytes; } train_options;
 *   static const hri_field train_fields[] = {
 *       {"batch", "samples in a step", offsetof(train_options, batch), HRI_FIELD_INT, "32",
 *        .min = 1, .max = 1e9, .metavar = "N"},
 *       {"device", "where to run", offsetof(train_options, device), HRI_FIELD_STRING, "host",
 *        .env = "HEADROOM_DEVICE"},
 *       {"cache", "memory for ...", offsetof(train_options, cache_bytes), HRI_FIELD_BYTES, "1GiB"},
 *       {0}};
 *
 *   train_options t;  hri_options o;  hri_prose why;
 *   status = hri_options_init(&o, train_fields, &t, &why);      defaults set
 *   status = hri_options_set_env(&o, &why);                     then environment
 *   status = hri_options_set_argv(&o, argc, argv, &rest, &why); then flags
 *   ...
 *   hri_options_deinit(&o);                                     texts and lists in t die with it
 *
 * Each value goes into the caller's plain struct; texts and lists belong to the hri_options.  Every
 * setter works on all or nothing: on failure the struct is as it was, and the sentence says which name
 * ("batch: 0 is below 1", "--batch: ...", "HEADROOM_BATCH: ...").  HR_E_NOT_FOUND for an unknown name, with
 * the nearest one; HR_E_INVALID for what cannot be read; HR_E_RANGE outside the range.
 * `why` may be NULL everywhere.  Threads: one at a time. */
#ifndef HRI_BASE_OPTIONS_H
#define HRI_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <headroom/status.h>
#include "base/arena.h"
#include "base/out.h"
#include "base/prose.h"
#include "base/text.h"

typedef enum hri_field_type {
    HRI_FIELD_BOOL, /* bool, or int32_t when `wide`: true false yes no on off 1 0; a flag alone means
                       true, --no-name false */
    HRI_FIELD_INT,  /* int64_t */
    HRI_FIELD_DOUBLE, /* double */
    HRI_FIELD_STRING, /* const char *, NULL when there is no default */
    HRI_FIELD_BYTES,  /* uint64_t, as bytes.h reads sizes, no percentages */
    HRI_FIELD_SIZE, /* const char *: a size or a percentage, checked; the owner of the whole resolves
                         it with hr_bytes_parse(text, whole, ...) */
    HRI_FIELD_ENUM, /* int: the index into `choices` */
    HRI_FIELD_LIST, /* hri_list */
    HRI_FIELD_DIMS  /* hri_dims: whole numbers joined by 'x' ("2x3x-1"); empty: none */
} hri_field_type;

enum { HRI_DIMS_MAX = 8 };

/* Up to eight whole numbers, by value: shapes, axes, orders.  Unused places are 0. */
typedef struct hri_dims {
    int64_t count;
    int64_t at[HRI_DIMS_MAX];
} hri_dims;

typedef struct hri_list {
    const char *const *items;
    size_t count;
} hri_list;

typedef struct hri_field {
    const char *name; /* "batch"; words joined by '-'; NULL ends a table */
    const char *help; /* one line, lower case, no full stop */
    size_t offset;
    hri_field_type type;
    const char *value; /* the default as text; NULL: zero, empty or none */
    double min, max;   /* of INT, DOUBLE, BYTES and the length of a LIST; both 0: any */
    const char *env;   /* "HEADROOM_BATCH" or NULL */
    const char *metavar;
    const char *const *choices; /* of an ENUM, NULL at the end */
    char letter;                /* 'n' for -n, or 0 */
    bool wide;                  /* of a BOOL: its place is an int32_t, as in public structs */
    const char *alias;          /* another name that is read, never printed; NULL: none */
    const char *word; /* of an INT or DOUBLE: "auto" is read as INT64_MIN or NAN, in no range */
    /* What the field needs to have an effect, alternatives with ',' between: "also" (that field is set: not empty, not
     * zero, true), "!problem" (it is not), "optimizer=sgd/rmsprop" (its value is one of these; a '*' at the end stands
     * for any rest).  NULL: nothing. */
    const char *needs;
    bool
        once; /* a flag that may not be given twice; others take the last, and that is told (ignored) */
    bool many; /* a text that may be given again: its values, a newline between them */
} hri_field;

typedef enum hri_origin {
    HRI_ORIGIN_DEFAULT,
    HRI_ORIGIN_FILE,
    HRI_ORIGIN_ENV,
    HRI_ORIGIN_FLAG,
    HRI_ORIGIN_TEXT, /* a "key=value,..." string */
    HRI_ORIGIN_CODE  /* set by a call */
} hri_origin;

typedef struct hri_options {
    const hri_field *fields;
    size_t count;
    void *target;
    unsigned char *origins; /* hri_origin of each field */
    bool *repeated;         /* the last flag of several, with different values, was taken */
    hri_arena arena;        /* texts and lists */
} hri_options;

/* Sets the defaults.  A default that its own table refuses is HR_E_INTERNAL. */
HR_MUST_CHECK hr_status hri_options_init(hri_options *o, const hri_field *fields, void *target,
                                         hri_prose *why);
/* A zeroed hri_options is allowed. */
void hri_options_deinit(hri_options *o);

HR_MUST_CHECK hr_status hri_options_set(hri_options *o, const char *name, const char *text,
                                        hri_origin origin, hri_prose *why);
/* "key=value,key=value": the tail of a model string.  Empty text sets nothing.  A bare key sets a bool;
 * after a list, pieces without '=' are further items of it (mean=0.1,0.2).  A backslash takes the next
 * character as it is.  A key given twice is HR_E_INVALID. */
HR_MUST_CHECK hr_status hri_options_set_text(hri_options *o, const char *text, hri_prose *why);
/* Reads each field's variable.  An empty variable counts as not set.  Call it before other threads
 * change the environment. */
HR_MUST_CHECK hr_status hri_options_set_env(hri_options *o, hri_prose *why);
/* --name value, --name=value, --no-name for bools, -n value, -nvalue; "--" ends the flags.  A list flag
 * takes its items in one value, split at commas; given again it adds.  What is not a flag is left in
 * *rest, in order (pointers into argv; the array lives as long as o).  argv[0] is skipped. */
HR_MUST_CHECK hr_status hri_options_set_argv(hri_options *o, int argc, char *const *argv,
                                             hri_list *rest, hri_prose *why);

/* The field of that name or NULL. */
const hri_field *hri_options_field(const hri_options *o, const char *name);
hri_origin hri_options_origin(const hri_options *o, const hri_field *field);
/* "default", "file", "environment", "flag", "text", "code". */
const char *hri_origin_name(hri_origin origin);
/* The value as text that `set` would read back to the same value; bytes as "1536MiB", exact.  Ends buf
 * with a NUL when size > 0, cuts what does not fit; returns the whole length. */
size_t hri_options_print(const hri_options *o, const hri_field *field, char *buf, size_t size);
/* One value of a target, without its hri_options: is it the field's word ("auto"), and as text. */
bool hri_field_is_word(const hri_field *field, const void *target);
void hri_field_add(const hri_field *field, const void *target, hri_text *out);
/* Calls `say` with a sentence for each flag or key that was given and has no effect: its `needs` are not met, or another
 * value of it was given behind it.  "--gamma has no effect without --schedule step". */
void hri_options_ignored(const hri_options *o, void (*say)(void *user, const char *sentence),
                         void *user);

/* ---- back to a command line ---- */

/* A value to put in the place of what was given; text NULL: the default again. */
typedef struct hri_change {
    const char *name, *text;
} hri_change;

/* A copy of *from (a target of `fields`, `bytes` long) with some values changed, read and checked by the table.  Texts of
 * the changes belong to *o, the others to whoever owns *from.  On failure *to is undefined and *o is empty. */
HR_MUST_CHECK hr_status hri_options_changed(hri_options *o, const hri_field *fields,
                                            const void *from, size_t bytes,
                                            const hri_change *changes, size_t count, void *to,
                                            hri_prose *why);
/* Adds " --name value" for each field whose value is not its default, quoted for a shell: hri_options_set_argv reads it
 * back to the same values. */
HR_MUST_CHECK hr_status hri_fields_command(const hri_field *fields, const void *target,
                                           hri_text *out);

/* A block of lines for --help, wrapped at `width` columns (0: 80): flag, metavar, help, choices, default,
 * variable. */
void hri_options_help(const hri_field *fields, size_t width, hri_out *out);
/* The same as rows of a Markdown table, for the reference pages. */
void hri_options_reference(const hri_field *fields, hri_out *out);
size_t hri_fields_count(const hri_field *fields);

#endif
