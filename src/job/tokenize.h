/* Text files to a file of tokens, and back.
 *
 * Files go through in pieces (data/text/token_stream.h).  The output is written beside its place and renamed.  Text to tokens that was
 * interrupted goes on where it was (job/token_output.h). */
#ifndef HRI_JOB_TOKENIZE_H
#define HRI_JOB_TOKENIZE_H

#include <stdbool.h>
#include "job/why.h"

typedef struct hri_tokenize_options {
    const char *const *paths; /* count of them, one after the other */
    size_t count;
    const char *tokenizer; /* NULL: tokens are bytes */
    const char *out;
    bool decode; /* tokens to text */
    uint32_t
        threads; /* 0: one for each core that this process may use; the tokens are the same for any number */
    hri_listener listener;
} hri_tokenize_options;

typedef struct hri_tokenize_result {
    uint64_t bytes, tokens; /* of text; of all */
    int64_t vocab;
    unsigned width;         /* bytes of a token: 2 or 4 */
    uint64_t resumed_bytes; /* of the text: done by earlier calls */
    double seconds;
} hri_tokenize_result;

HR_MUST_CHECK hr_status hri_tokenize(const hri_tokenize_options *o, hri_tokenize_result *out,
                                     hri_why *why);

#endif
