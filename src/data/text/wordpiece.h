/* WordPiece, as BERT has it: text is made plain (BertNormalizer), cut into words and marks of punctuation (BertPreTokenizer), and each
 * word into the longest pieces of the vocabulary from the left, where a piece that goes on with a word has "##" in front.
 *
 * What characters are is bert_tables.h, which is what Hugging Face's tokenizers do with each.  A byte that is no UTF-8 is U+FFFD.
 * Left out: the order of accents that are kept (BertNormalizer sorts them when it strips others). */
#ifndef HRI_DATA_TEXT_WORDPIECE_H
#define HRI_DATA_TEXT_WORDPIECE_H

#include "data/text/bpe.h"

enum { HRI_WORDPIECE_PREFIX = 16, HRI_WORDPIECE_CHARS = 1000 };

typedef struct hri_wordpiece {
    int on; /* 0: the file is of another model */
    int clean, chinese, strip, lower;
    char prefix[HRI_WORDPIECE_PREFIX]; /* of a piece that goes on with a word */
    int64_t chars;                     /* a longer word is unknown */
    int32_t unknown, begin, end;       /* tokens; begin and end of a text: -1: there is none */
} hri_wordpiece;

/* Appends the tokens of a text; `names` of b is the vocabulary.  HR_E_NOMEM_HOST. */
HR_MUST_CHECK hr_status hri_wordpiece_encode(const hri_wordpiece *w, const hri_bpe *b,
                                             const char *text, size_t bytes, hri_tokens *out);

#endif
