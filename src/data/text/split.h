/* Text cut into pieces by a pattern: what a byte-level BPE merges within.
 *
 * Matches are pieces, and so is what lies between two of them.  Bytes that are no UTF-8 match nothing.  Patterns are those of
 * Hugging Face's files: \s means White_Space, as it does there (PCRE2 has one character more).  A pattern that takes too long
 * is HR_E_LIMIT.  Threads: each has its own. */
#ifndef HRI_DATA_TEXT_SPLIT_H
#define HRI_DATA_TEXT_SPLIT_H

#include <headroom/status.h>
#include "base/prose.h"
#include "data/text/pcre2.h"

/* GPT-2's: contractions, words, numbers, the rest, each with a space before it; spaces. */
extern const char *const hri_text_split_gpt2;

typedef struct hri_text_split {
    hri_pcre2 pcre2;
    void *code, *data, *context;
} hri_text_split;

/* HR_E_UNSUPPORTED without PCRE2; HR_E_FORMAT for a pattern that is none. */
HR_MUST_CHECK hr_status hri_text_split_open(const char *pattern, hri_text_split *out,
                                            hri_prose *why);
/* A zeroed one is allowed. */
void hri_text_split_close(hri_text_split *s);

/* One piece: any status but HR_OK ends it. */
typedef hr_status hri_piece_fn(void *user, const char *text, size_t bytes);
HR_MUST_CHECK hr_status hri_text_split_run(const hri_text_split *s, const char *text, size_t bytes,
                                           hri_piece_fn *fn, void *user, hri_prose *why);

#endif
