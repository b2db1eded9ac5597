/* The file of tokens while it is written: interrupted at any point, the next call goes on where it was.
 *
 * Tokens go to OUT.part, and every few MiB, once they are on the disk, OUT.part.at says how far they are: a text of a few numbers that is
 * replaced as a whole, with a digest of everything that decides the tokens (the tokenizer; the paths, sizes and times of the texts) and
 * a checksum.  Opening cuts OUT.part to the place that was noted, or begins anew where nothing fits.  A lock on OUT.part keeps a second process out.
 *
 * Pieces of text begin where the ones before them end (token_stream.h), so what is written after an interruption is the same, byte for
 * byte.  Threads: one. */
#ifndef HRI_JOB_TOKEN_OUTPUT_H
#define HRI_JOB_TOKEN_OUTPUT_H

#include "base/sha256.h"
#include "data/text/token_stream.h"

/* How far it is: bytes of the text `file`, of all texts before that place, tokens of them and bytes of the output. */
typedef struct hri_token_mark {
    uint64_t file, offset, text_bytes, tokens, out_bytes;
} hri_token_mark;

typedef struct hri_token_output {
    hri_token_writer to; /* to.width is the caller's */
    char *mark_path;
    unsigned char print[HRI_SHA256_BYTES];
    hri_token_mark at, saved;
} hri_token_output;

/* `out` is zeroed but for to.width and print; out->at is where to go on.  HR_E_BUSY: another process writes it. */
HR_MUST_CHECK hr_status hri_token_output_open(hri_token_output *out, const char *path,
                                              hri_prose *why);
/* After tokens were written and out->at was moved on: now and then the place is noted. */
HR_MUST_CHECK hr_status hri_token_output_note(hri_token_output *out, hri_prose *why);
HR_MUST_CHECK hr_status hri_token_output_commit(hri_token_output *out, hri_prose *why);
/* What was noted stays for the next call; without a note nothing is left.  A zeroed one with to.to.fd -1 is allowed. */
void hri_token_output_close(hri_token_output *out);

/* HR_E_FORMAT where the text is no note, or one of something else. */
HR_MUST_CHECK hr_status hri_token_mark_parse(const char *text, size_t bytes,
                                             const unsigned char print[HRI_SHA256_BYTES],
                                             hri_token_mark *out);

#endif
