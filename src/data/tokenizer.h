/* Text to tokens and back.
 *
 *   hri_tokenizer_open(NULL, &t, &why);                  tokens are bytes
 *   hri_tokenizer_open("tokenizer.json", &t, &why);      byte-level BPE or WordPiece of a file
 *   hri_tokenizer_encode(t, text, bytes, &tokens, &why);
 *   hri_tokenizer_text(t, token, &bytes);
 *
 * Threads: a tokenizer may be read by many; each encoding has its own memory. */
#ifndef HRI_DATA_TOKENIZER_H
#define HRI_DATA_TOKENIZER_H

#include <stdint.h>
#include "base/prose.h"
#include "base/sha256.h"
#include "base/vector.h"

HRI_VECTOR(hri_tokens, int32_t)

typedef struct hri_tokenizer hri_tokenizer;

/* path NULL: bytes.  HR_E_NOT_FOUND, HR_E_IO, HR_E_FORMAT with file and place. */
HR_MUST_CHECK hr_status hri_tokenizer_open(const char *path, hri_tokenizer **out, hri_prose *why);
/* NULL is allowed. */
void hri_tokenizer_close(hri_tokenizer *t);
/* Tokens are numbers below this. */
int64_t hri_tokenizer_count(const hri_tokenizer *t);
/* The token that ends a text; -1: there is none. */
int32_t hri_tokenizer_end(const hri_tokenizer *t);
/* The token that hides others from a masked language model ("[MASK]", "<mask>", "<|mask|>"); -1: there is none. */
int32_t hri_tokenizer_mask(const hri_tokenizer *t);
/* The token that fills short texts ("[PAD]", "<pad>", "<|pad|>"); -1: there is none. */
int32_t hri_tokenizer_pad(const hri_tokenizer *t);
/* What stands before and behind a text that a model takes whole ("[CLS]" and "[SEP]" of WordPiece); -1: nothing. */
void hri_tokenizer_around(const hri_tokenizer *t, int32_t *begin, int32_t *end);
/* Are bytes that are not UTF-8 lost in its tokens?  Those of WordPiece are of characters. */
int hri_tokenizer_needs_utf8(const hri_tokenizer *t);
/* What it holds in memory, roughly and rather too much. */
uint64_t hri_tokenizer_bytes(const hri_tokenizer *t);
/* Everything that decides which tokens a text has. */
void hri_tokenizer_print(const hri_tokenizer *t, hri_sha256 *to);
/* Appends the tokens of a text; on failure `out` is as it was. */
HR_MUST_CHECK hr_status hri_tokenizer_encode(const hri_tokenizer *t, const char *text, size_t bytes,
                                             hri_tokens *out, hri_prose *why);
/* The same with a text that goes on where another ended: it gets no space in front. */
HR_MUST_CHECK hr_status hri_tokenizer_go_on(const hri_tokenizer *t, const char *text, size_t bytes,
                                            hri_tokens *out, hri_prose *why);
/* One who encodes many texts, with what each of them needs made once.  Threads: each has its own. */
typedef struct hri_encoder hri_encoder;
HR_MUST_CHECK hr_status hri_encoder_open(const hri_tokenizer *t, hri_encoder **out, hri_prose *why);
/* NULL is allowed. */
void hri_encoder_close(hri_encoder *e);
/* As hri_tokenizer_encode; inside: as hri_tokenizer_go_on. */
HR_MUST_CHECK hr_status hri_encoder_encode(hri_encoder *e, int inside, const char *text,
                                           size_t bytes, hri_tokens *out, hri_prose *why);
/* The bytes of a token, valid as long as the tokenizer; NULL for a number that is none. */
const char *hri_tokenizer_text(const hri_tokenizer *t, int32_t token, size_t *bytes);

#endif
