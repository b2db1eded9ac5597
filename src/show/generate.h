/* Generated text for people and scripts. */
#ifndef HRI_SHOW_GENERATE_H
#define HRI_SHOW_GENERATE_H

#include <headroom/generator.h>
#include "base/vector.h"
#include "data/tokenizer.h"
#include "show/show.h"

HRI_VECTOR(hri_text_bytes_of, char)

/* Where tokens go as they come.  A terminal gets whole characters that print, a file or a pipe the bytes; with `keep` nothing
 * is written, and all of it is kept for the object of --json. */
typedef struct hri_generate_stream {
    hri_out *out;
    bool tty, keep;
    char part[8]; /* of a character */
    size_t used;
    hri_text_bytes_of text;
    hri_tokens tokens;
} hri_generate_stream;

/* An hr_token_fn for a stream. */
hr_status hri_generate_token(void *stream, int32_t token, const char *text, size_t bytes);
/* What is left of a last character. */
void hri_generate_end(hri_generate_stream *s);
void hri_generate_deinit(hri_generate_stream *s);

/* "200 tokens, 312 tokens/s; planned 12.4 MiB (256 KiB of cache), peak resident 11.9 MiB, budget 16 MiB" */
void hri_generate_sum(const hr_generate_info *n, const hr_generate_result *r, char *buf,
                      size_t size);
/* The members of the object. */
void hri_generate_json(const hri_generate_stream *s, const char *prompt, const hr_generate_info *n,
                       const hr_generate_result *r, hri_json *json);

#endif
