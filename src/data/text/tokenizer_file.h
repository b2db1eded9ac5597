/* Tokenizers of files: Hugging Face's tokenizer.json (BPE over bytes, or BERT's WordPiece), GPT-2's vocab.json with merges.txt, and
 * BERT's vocab.txt (with tokenizer_config.json beside it, which says whether case matters).
 *
 * Taken: added tokens, a pattern (Split or ByteLevel), vocabulary and merges; of WordPiece BertNormalizer and BertPreTokenizer.  What
 * would give other tokens (another normalizer or model, dropout, subword prefixes of BPE) is refused by name.  The file is read as a stream; nothing in it is run. */
#ifndef HRI_DATA_TEXT_TOKENIZER_FILE_H
#define HRI_DATA_TEXT_TOKENIZER_FILE_H

#include "data/text/bpe.h"
#include "data/text/wordpiece.h"

enum { HRI_TOKENIZER_ADDED = 4096 };

typedef struct hri_added_token {
    const char *text;
    uint32_t length;
    int32_t token;
} hri_added_token;

HRI_VECTOR(hri_added_tokens, hri_added_token)

typedef struct hri_tokenizer_file {
    hri_bpe bpe; /* of WordPiece the vocabulary alone */
    hri_wordpiece wordpiece;
    const char *pattern; /* NULL: a text is one piece */
    int prefix_space;    /* a text that does not begin with a space gets one */
    int whole;           /* a piece that is a token is not merged */
    hri_added_tokens added;
    int32_t end; /* of a text; -1: none */
} hri_tokenizer_file;

/* A tokenizer.json, a merges file with vocab.json beside it, a vocab.txt, or a folder with one of them. */
HR_MUST_CHECK hr_status hri_tokenizer_file_read(const char *path, hri_tokenizer_file *out,
                                                hri_prose *why);
/* The same of a tokenizer.json in memory. */
HR_MUST_CHECK hr_status hri_tokenizer_file_parse(const char *text, size_t bytes,
                                                 hri_tokenizer_file *out, hri_prose *why);
/* A zeroed one is allowed. */
void hri_tokenizer_file_deinit(hri_tokenizer_file *t);

#endif
