/* The tokens of a file of any length, in bounded memory, and files of them.
 *
 * Text goes through in pieces of a few MiB, some of them side by side, cut behind a line that ends in a letter or digit, where no known
 * pattern joins what lies on both sides: the tokens are the same for any number of threads.  What a tokenizer of characters cannot
 * read is refused with its place.  Token files are u16, little-endian, or
 * u32 where there are more than 65,536 tokens: what the source tokens:FILE reads.  They are written beside their place and renamed.
 *
 * Threads: a stream and a writer belong to one. */
#ifndef HRI_DATA_TEXT_TOKEN_STREAM_H
#define HRI_DATA_TEXT_TOKEN_STREAM_H

#include <stdbool.h>
#include "base/file.h"
#include "data/tokenizer.h"

enum { HRI_TOKEN_PIECE = 4 << 20 };

typedef struct hri_token_stream hri_token_stream;

/* threads 0: one for each core that this process may use.  With their tokens, pieces take five times piece_bytes for each
 * thread, of which there are at most 8. */
HR_MUST_CHECK hr_status hri_token_stream_open(const hri_tokenizer *t, uint32_t threads,
                                              size_t piece_bytes, hri_token_stream **out);
/* NULL is allowed. */
void hri_token_stream_close(hri_token_stream *s);
/* The tokens of the next `bytes` bytes of the text: any status but HR_OK ends the stream. */
typedef hr_status hri_token_fn(void *user, const hri_tokens *tokens, size_t bytes);
/* From where fd stands to the end of the file.  inside: what comes first goes on with a text. */
HR_MUST_CHECK hr_status hri_token_stream_run(hri_token_stream *s, int fd, bool inside,
                                             hri_token_fn *fn, void *user, hri_prose *why);

/* Bytes of a token in a file: 2 or 4. */
unsigned hri_token_width(int64_t vocab);

typedef struct hri_token_writer {
    hri_writer to; /* {.fd = -1} when it is not open */
    unsigned width;
    char *packed; /* tokens as they are written */
    size_t room;
} hri_token_writer;

HR_MUST_CHECK hr_status hri_token_writer_write(hri_token_writer *w, const hri_tokens *tokens,
                                               hri_prose *why);
/* Without a commit of `to` nothing is left. */
void hri_token_writer_deinit(hri_token_writer *w);

#endif
