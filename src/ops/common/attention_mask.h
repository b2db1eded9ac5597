/* What a mask becomes in the work space (attention_mask.c), for those that choose kernels by it.  See attention.h for the words, tiles and
 * rows themselves. */
#ifndef HRI_OPS_COMMON_ATTENTION_MASK_H
#define HRI_OPS_COMMON_ATTENTION_MASK_H

#include "ops/common/attention.h"

enum { HRI_ATTENTION_TILE_KEYS = 64 };

/* Of 16 queries by 64 keys, or turned.  With one row for all queries there is one tile of queries. */
typedef struct hri_attention_tiles {
    int64_t along, across, all;
} hri_attention_tiles;

hri_attention_tiles hri_attention_tiles_of(const hri_attention *a, int causal, int turned);

static inline int hri_attention_has_mask(const hri_attention *a) {
    return a->extra.mask_samples > 0;
}

static inline int hri_attention_adds(const hri_attention *a) {
    return hri_attention_has_mask(a) && a->extra.mask_type != HR_TYPE_U8;
}

/* One row for all queries, whose numbers (and those of what it hides) are added by a product.  f16 has not the range for those of f32. */
int hri_attention_keyed(const hri_attention *a);

/* Numbers whose rows are no whole pieces of 16 bytes are written again for the kernel that adds them, with so many in a row; 0: they are
 * not. */
int64_t hri_attention_pitch(const hri_attention *a);
uint64_t hri_attention_copy_bytes(const hri_attention *a);

/* Of hri_attention_spread_make. */
int64_t hri_attention_spread_planes(const hri_attention *a);

/* Masks of each sample or head: the first pass makes those that the first `blocks` blocks use, and sets `counters` to 0; the kernel makes the
 * others meanwhile (attention_hopper_bits_wide.cuh, which has the same struct).  Counts are tiles: made first, all, of a mask, side by side. */
typedef struct hri_attention_making {
    hr_addr counters;
    uint32_t first, tiles, each, across;
} hri_attention_making;

uint64_t hri_attention_making_bytes(const hri_attention *a);
/* 0: nothing is left to be made meanwhile, or this mask cannot be. */
int hri_attention_making_of(const hri_attention *a, hr_addr mask, hr_addr counters, uint32_t blocks,
                            hri_attention_making *out);

/* Rows of numbers, finite and as bf16, for kernels that add them by products (attention_spread.cu): rows of whole tiles of 64 keys, then a second
 * plane where the mask is no bf16, then what each tile does.  out->words is where they begin.  m, which may be NULL: only the first. */
int hri_attention_spread_fits(const hri_attention *a);
uint64_t hri_attention_spread_bytes(const hri_attention *a);
hr_status hri_attention_spread_make(const hri_attention *a, const hri_gpu_call *c, hr_addr mask,
                                    hr_addr at, const hri_attention_making *m,
                                    hri_attention_words *out);
/* Numbers of f32 in whole tiles as two of bf16, for threads that add them: words of bits first, and then at `halves` rows of numbers, of which minus
 * infinity hides; `plane` elements behind them their second parts, where a tile has any. */
uint64_t hri_attention_halves_bytes(const hri_attention *a);
hr_status hri_attention_halves_make(const hri_attention *a, const hri_gpu_call *c, hr_addr mask,
                                    hr_addr at, hri_attention_words *out, hr_addr *halves,
                                    int64_t *plane);
/* The same of bits, NATURAL. */
hr_status hri_attention_words_begin(const hri_attention *a, const hri_gpu_call *c, hr_addr mask,
                                    hr_addr at, const hri_attention_making *m,
                                    hri_attention_words *out);

/* The numbers of one row for all queries, `tile_bytes` for each 64 keys, and what they do there, at the start of the work space; `kernel` is
 * the one of attention_words.cu that writes them. */
uint64_t hri_attention_key_rows_bytes(const hri_attention *a, uint64_t tile_bytes);
hr_status hri_attention_key_rows_make(const hri_attention *a, const hri_gpu_call *c, hr_addr mask,
                                      const char *kernel, uint64_t tile_bytes,
                                      hri_attention_words *out);

#endif
