/* Byte-level BPE: a vocabulary of byte strings, and which two neighbours become one, in which order.
 *
 * A piece of text begins as single bytes; of all neighbours that can be merged the pair with the lowest rank is, the leftmost of
 * equal ones, until none is left: a heap of pairs, so a piece of n bytes takes O(n log n) whatever it is.
 *
 * Files write bytes as printable characters (GPT-2's alphabet), which are turned back.  Threads: many may read. */
#ifndef HRI_DATA_TEXT_BPE_H
#define HRI_DATA_TEXT_BPE_H

#include "base/arena.h"
#include "base/map.h"
#include "data/tokenizer.h"

enum { HRI_BPE_TOKENS = 1 << 21, HRI_BPE_TOKEN_BYTES = 4096 };

typedef struct hri_bpe_token {
    char *bytes; /* NULL: there is no such token */
    uint32_t length;
} hri_bpe_token;

HRI_VECTOR(hri_bpe_tokens, hri_bpe_token)

typedef struct hri_bpe {
    hri_arena texts;
    hri_bpe_tokens tokens;
    hri_strmap names;     /* texts of the file -> token */
    hri_intmap merges;    /* left << 32 | right -> rank << 32 | token */
    int32_t bytes[256];   /* the token of each byte; -1: none yet */
    uint16_t letter[256]; /* how files write it */
    int16_t byte_of[512]; /* and back; -1: no byte */
} hri_bpe;

void hri_bpe_init(hri_bpe *b);
void hri_bpe_deinit(hri_bpe *b);
/* A token with its text as the file has it; raw: the text itself (an added token).  HR_E_FORMAT, HR_E_RANGE with a sentence. */
HR_MUST_CHECK hr_status hri_bpe_add(hri_bpe *b, const char *name, int64_t id, int raw,
                                    hri_prose *why);
/* The next merge, "left right" or the two apart. */
HR_MUST_CHECK hr_status hri_bpe_merge(hri_bpe *b, const char *left, size_t left_bytes,
                                      const char *right, size_t right_bytes, hri_prose *why);
/* All 256 bytes must have a token. */
HR_MUST_CHECK hr_status hri_bpe_settle(hri_bpe *b, hri_prose *why);

/* Memory of one who encodes. */
typedef struct hri_bpe_work hri_bpe_work;
HR_MUST_CHECK hr_status hri_bpe_work_open(hri_bpe_work **out);
void hri_bpe_work_close(hri_bpe_work *w);
/* Appends the tokens of a piece.  whole: a piece that is a token is that token, whatever the merges say. */
HR_MUST_CHECK hr_status hri_bpe_encode(const hri_bpe *b, hri_bpe_work *w, const char *piece,
                                       size_t bytes, int whole, hri_tokens *out);

#endif
