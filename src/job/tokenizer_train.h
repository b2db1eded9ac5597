/* A byte-level BPE trained from text files, as a tokenizer.json of Hugging Face's form with GPT-2's pattern.
 *
 * Files are read line by line and their pieces counted in bounded memory (data/text/word_counts.h), then merged
 * (data/text/bpe_train.h).  Token 0 is <|endoftext|>, then come the 256 bytes.  The file is that which BpeTrainer of the package
 * `tokenizers` writes for train(files) with ByteLevel's alphabet, as long as nothing had to be forgotten and the text is UTF-8. */
#ifndef HRI_JOB_TOKENIZER_TRAIN_H
#define HRI_JOB_TOKENIZER_TRAIN_H

#include "job/why.h"

enum { HRI_TOKENIZER_LEAST = 257, HRI_TOKENIZER_MOST = 1 << 20 }; /* tokens */

typedef struct hri_tokenizer_train_options {
    const char *const *paths; /* count of them */
    size_t count;
    int64_t tokens; /* HRI_TOKENIZER_LEAST to HRI_TOKENIZER_MOST */
    const char *out;
    size_t memory_bytes; /* for the counts; 0: 256 MiB */
    hri_listener listener;
} hri_tokenizer_train_options;

typedef struct hri_tokenizer_trained {
    uint64_t bytes, words; /* of text; different pieces */
    uint64_t forgotten;    /* how often rare pieces were, for want of memory */
    int64_t tokens;        /* fewer than asked for when the text has no more pairs */
    double seconds;
} hri_tokenizer_trained;

HR_MUST_CHECK hr_status hri_tokenizer_train(const hri_tokenizer_train_options *o,
                                            hri_tokenizer_trained *out, hri_why *why);

#endif
