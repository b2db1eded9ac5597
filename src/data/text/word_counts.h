/* How often each piece of a text occurs: what a byte-level BPE is trained from.
 *
 * Pieces are bytes, any of them.  Memory is bounded: when the table would pass `most_bytes`, the rarest pieces are forgotten, those
 * that occurred once first, then twice, until half of it is free; `forgotten` says how often that was.  The result depends on the
 * pieces and their order alone.  Threads: one at a time. */
#ifndef HRI_DATA_TEXT_WORD_COUNTS_H
#define HRI_DATA_TEXT_WORD_COUNTS_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/status.h>

typedef struct hri_word {
    uint64_t at; /* in texts */
    uint64_t count;
    uint32_t length;
    uint32_t hash;
} hri_word;

typedef struct hri_word_counts {
    char *texts;
    size_t texts_used, texts_room;
    hri_word *words; /* in the order of their first occurrence */
    size_t count, room;
    uint32_t *slots; /* word + 1, or 0: free */
    size_t slot_count;
    size_t most_bytes;
    uint64_t forgotten;
} hri_word_counts;

/* A zeroed one with most_bytes is empty.  HR_E_NOMEM_HOST leaves it as it was. */
HR_MUST_CHECK hr_status hri_word_counts_add(hri_word_counts *c, const char *text, size_t bytes);
void hri_word_counts_deinit(hri_word_counts *c);

#endif
