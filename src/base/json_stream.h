/* JSON of others, read as a stream: one token at a call, through a window of a few KiB.
 *
 *   hri_json_stream *s;
 *   hri_json_token t;
 *   hri_json_stream_open(&options, &s, &why);
 *   while ((status = hri_json_stream_next(s, &t, &why)) == HR_OK && t.kind != HRI_JSON_OVER) {
 *       switch (t.kind) ... t.key, t.text, t.integer
 *   }
 *   hri_json_stream_close(s);
 *
 * The one idea: what is read and what is kept are two things.  The stream holds its window, the texts of one token and
 * nothing else, whatever the length of the document; what a reader keeps is the reader's own business, and so are its
 * bounds.  The whole document is checked as RFC 8259 has it (UTF-8, escapes, numbers), one value and nothing behind it.
 * What is left out on purpose: keys given twice are not looked for, because that would mean to keep them.
 *
 * HR_E_FORMAT for wrong JSON with "line 3, column 7: ..."; HR_E_RANGE over a limit.  After a failure only close is left.
 * Threads: one at a time. */
#ifndef HRI_BASE_JSON_STREAM_H
#define HRI_BASE_JSON_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/status.h>
#include "base/prose.h"

typedef enum hri_json_kind {
    HRI_JSON_OVER, /* the document has ended, and well */
    HRI_JSON_OBJECT,
    HRI_JSON_OBJECT_END,
    HRI_JSON_ARRAY,
    HRI_JSON_ARRAY_END,
    HRI_JSON_STRING,
    HRI_JSON_INTEGER,
    HRI_JSON_REAL,
    HRI_JSON_BOOL,
    HRI_JSON_NULL
} hri_json_kind;

typedef struct hri_json_token {
    hri_json_kind kind;
    unsigned depth;   /* objects and arrays around it: 0 for the root and its end */
    const char *key;  /* of a member of an object, else ""; both texts live until the next call */
    const char *text; /* of a string, with a NUL behind; else "" */
    size_t bytes;     /* of text: it may hold a NUL inside only when `nul` is set */
    int cut; /* the string is longer than max_text: its beginning is here, its end was read over */
    int nul; /* the string holds \u0000 */
    int64_t integer; /* INTEGER; BOOL: 0 or 1 */
    double real;     /* REAL; INTEGER too */
} hri_json_token;

/* Up to `room` bytes into `to`; *got 0 at the end. */
typedef hr_status hri_json_read_fn(void *user, void *to, size_t room, size_t *got, hri_prose *why);

typedef struct hri_json_stream_options {
    hri_json_read_fn *read;
    void *user;
    uint64_t max_bytes; /* of the document; 0: 64 MiB */
    unsigned max_depth; /* 0: 32; 64 at most */
    size_t max_key;     /* bytes; a longer one is HR_E_RANGE; 0: 1 KiB */
    size_t max_text;    /* of a string that is kept; see `cut`; 0: 4 KiB */
} hri_json_stream_options;

typedef struct hri_json_stream hri_json_stream;

HR_MUST_CHECK hr_status hri_json_stream_open(const hri_json_stream_options *o,
                                             hri_json_stream **out, hri_prose *why);
HR_MUST_CHECK hr_status hri_json_stream_next(hri_json_stream *s, hri_json_token *out,
                                             hri_prose *why);
/* After a token OBJECT or ARRAY: reads over everything up to and with its end.  Any other token: nothing. */
HR_MUST_CHECK hr_status hri_json_stream_skip(hri_json_stream *s, const hri_json_token *t,
                                             hri_prose *why);
/* NULL is allowed. */
void hri_json_stream_close(hri_json_stream *s);

/* Reading from memory: .read = hri_json_read_memory, .user = an hri_json_memory that lives as long as the stream. */
typedef struct hri_json_memory {
    const char *text;
    size_t bytes, at;
} hri_json_memory;
hr_status hri_json_read_memory(void *user, void *to, size_t room, size_t *got, hri_prose *why);
/* Reading from a file, from its place `at` up to `end`. */
typedef struct hri_json_file {
    int fd;
    uint64_t at, end;
} hri_json_file;
hr_status hri_json_read_file(void *user, void *to, size_t room, size_t *got, hri_prose *why);

#endif
