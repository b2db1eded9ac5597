/* Training a byte-level BPE (Sennrich et al. 2016): again and again the pair of neighbours that occurs most often becomes a token.
 *
 * Of pairs that occur equally often the one with the lower numbers comes first, so the result depends on the counts alone; it is that of
 * Hugging Face's BpeTrainer.  Counts of pairs are kept up to date: a merge looks only into the words where its pair is.  Tokens are the 256
 * bytes, numbered from `first` on in the order of the letters that files write them with (bpe.h), then one for each merge. */
#ifndef HRI_DATA_TEXT_BPE_TRAIN_H
#define HRI_DATA_TEXT_BPE_TRAIN_H

#include "base/vector.h"
#include "data/text/word_counts.h"

typedef struct hri_bpe_pair {
    int32_t left, right, token;
} hri_bpe_pair;

HRI_VECTOR(hri_bpe_merges, hri_bpe_pair)

/* Any status but HR_OK ends the training. */
typedef hr_status hri_bpe_train_fn(void *user, uint64_t merges, uint64_t total);

/* The numbers of the bytes. */
void hri_bpe_train_alphabet(int32_t first, int32_t number[256]);
/* Appends merges, in order, until there are `tokens` tokens, or until no pair is left that occurs `least` times. */
HR_MUST_CHECK hr_status hri_bpe_train(const hri_word_counts *counts, int32_t first, int32_t tokens,
                                      uint64_t least, hri_bpe_merges *out, hri_bpe_train_fn *fn,
                                      void *user);

#endif
