/* Random numbers by counter: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").
 *
 * A number is a function of (seed, step, node, sample, index) and of nothing else: no state is carried,
 * so recomputing, micro-batches and any number of threads draw the same numbers.  The key is the seed;
 * the counter words are {index / 4, sample, node, step} and the four words of a block serve indexes
 * 4k .. 4k+3.  Device kernels follow the same rule.
 *
 *   hri_random r = hri_random_at(seed, step, node, sample);
 *   float u = hri_random_float(&r);      draws are u32 number 0, 1, 2 ... of that place
 *
 * Everything is exact integer work but the normal numbers, which go through libm.  Any thread; an
 * hri_random belongs to one. */
#ifndef HRI_BASE_RANDOM_H
#define HRI_BASE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Node numbers for draws that belong to no node of a graph; graphs stay below the first. */
enum {
    HRI_RANDOM_NODE_FIRST = 0x7fffff00,
    HRI_RANDOM_NODE_SHUFFLE = HRI_RANDOM_NODE_FIRST,
    HRI_RANDOM_NODE_AUGMENT,
    HRI_RANDOM_NODE_WEIGHTS,
    HRI_RANDOM_NODE_SYNTHETIC, /* and the next, for labels */
    HRI_RANDOM_NODE_TEXT = HRI_RANDOM_NODE_SYNTHETIC + 2,
    HRI_RANDOM_NODE_MIX
};

/* The block function: ten rounds. */
void hri_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* u32 number `index` of a place, straight. */
uint32_t hri_random_u32_of(uint64_t seed, uint32_t step, uint32_t node, uint32_t sample,
                           uint64_t index);
/* n of them from `index` on; the fast way to fill an array. */
void hri_random_fill_u32(uint64_t seed, uint32_t step, uint32_t node, uint32_t sample,
                         uint64_t index, uint32_t *out, size_t n);

/* A stream: draws from one place, in order. */
typedef struct hri_random {
    uint32_t key[2];
    uint32_t counter[4];
    uint32_t block[4];
    uint32_t used; /* words of the block already given; 4: none left */
} hri_random;

hri_random hri_random_at(uint64_t seed, uint32_t step, uint32_t node, uint32_t sample);
uint32_t hri_random_u32(hri_random *r);  /* takes 1 word */
uint64_t hri_random_u64(hri_random *r);  /* takes 2, the low one first */
float hri_random_float(hri_random *r);   /* [0, 1), 24 bits, 1 word */
double hri_random_double(hri_random *r); /* [0, 1), 53 bits, 2 words */
/* Mean 0, variance 1 (Box-Muller, cosine branch), 2 words. */
float hri_random_normal(hri_random *r);
/* [0, n) without bias; n > 0.  Takes 2 words, seldom more. */
uint64_t hri_random_below(hri_random *r, uint64_t n);

/* The conversions by themselves, for kernels that keep words. */
static inline float hri_random_to_float(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}
/* Two words to two independent normal numbers. */
void hri_random_to_normals(uint32_t a, uint32_t b, float out[2]);

/* A random order of 0 .. n-1 (Fisher and Yates). */
void hri_random_permutation(hri_random *r, uint32_t *out, uint32_t n);

/* A random order of 0 .. n-1 without memory, for shuffles of any length: a Feistel network over the next
 * power of four, walked until it lands below n.  at(i) for i < n is a bijection; fewer than four
 * steps on average. */
typedef struct hri_shuffle {
    uint64_t n;
    uint32_t half_bits;
    uint64_t keys[6];
} hri_shuffle;

hri_shuffle hri_shuffle_make(uint64_t seed, uint32_t epoch, uint64_t n);
uint64_t hri_shuffle_at(const hri_shuffle *shuffle, uint64_t i);

#endif
