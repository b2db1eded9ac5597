/* Where text for people goes: a buffer of our own in front of write(2), or of whoever takes the text.
 *
 * The one idea: a result that was not delivered must not look delivered.  Every byte of a result passes here, and the
 * first failure of a write is remembered with its errno; the program turns it into its exit code.
 * stdio is left out because it forgets the errno of a flush that happened in the middle of a print. */
#ifndef HRI_BASE_OUT_H
#define HRI_BASE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <headroom/status.h>

/* Takes some bytes: 0, or an errno. */
typedef int hri_out_sink(void *user, const char *bytes, size_t count);

typedef struct hri_out {
    int fd;
    hri_out_sink *sink; /* in place of fd; NULL: fd */
    void *sink_user;
    int error; /* errno of the first failed write; 0: none.  After it nothing more is written */
    size_t used;
    /* On a terminal, lines of prose are broken between words before they reach its edge.  0: never, for what programs
     * read. */
    size_t width;
    size_t column, spaces, word_used,
        word_columns; /* of the line so far, and the word that is not yet out */
    bool escape;      /* inside a sequence that takes no column */
    char word[256];
    char buf[8192];
} hri_out;

void hri_out_init(hri_out *out, int fd);
void hri_out_init_sink(hri_out *out, hri_out_sink *sink, void *user);
/* As they are: our own words and control sequences, JSON, texts that were made visible. */
void hri_out_bytes(hri_out *out, const char *bytes, size_t count);
void hri_out_text(hri_out *out, const char *text);
/* Whatever does not print, newlines apart, comes out as \xNN (base/visible.h): names of others may be in it. */
void hri_out_printf(hri_out *out, const char *format, ...) HR_PRINTF(2, 3);
/* count spaces */
void hri_out_pad(hri_out *out, size_t count);
/* The result cannot be whole: remembered like a failed write, unless one came before. */
void hri_out_failed(hri_out *out, int error);
/* Writes what is buffered. */
void hri_out_flush(hri_out *out);

#endif
