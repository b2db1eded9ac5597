/* Files whose records are known, in every format that a source reads; see files.c.
 *
 * An element is known by one number, `id`, that is drawn into everything else of it: a source that mixed two elements,
 * or read at a wrong place, does not give one that is whole. */
#ifndef HR_TEST_PROPERTY_FILES_FORMATS_H
#define HR_TEST_PROPERTY_FILES_FORMATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <headroom/data.h>

enum { FILES_ELEMENTS = 400, FILES_WINDOW = 7, FILES_FORMATS = 10 };

/* How an id is written, and how an element's is found and checked. */
typedef struct files_format {
    const char *text;              /* the pipeline; @ is the folder */
    bool random;                   /* has random access */
    void (*write)(uint64_t count); /* elements 0 .. count - 1 */
    uint64_t (*id)(const hr_element *e, uint64_t index);
} files_format;
extern const files_format files_formats[FILES_FORMATS];

/* The case's folder, made at the first call; files_clean removes it. */
const char *files_root(void);
void files_clean(void);

/* A file in the making. */
typedef struct files_bytes {
    unsigned char *data;
    size_t count, capacity;
} files_bytes;
void files_put(files_bytes *b, const void *data, size_t n);
void files_put_byte(files_bytes *b, unsigned value);
/* A TFRecord: length, data and both checksums. */
void files_put_framed(files_bytes *b, const void *data, uint64_t n);
/* The line of an id. */
void files_put_line(files_bytes *b, uint64_t id, bool first);
/* Writes it into the folder and empties b. */
void files_write(const char *name, files_bytes *b);

void files_write_tokens(uint64_t count);

#endif
