/* Philox4x32-10 and what is drawn from it.
 *
 * The block function is a bijection of the counter for each key: ten rounds of two 32x32-bit products
 * with the key bumped in between.  All else here is arithmetic on its words; the order in which a stream
 * takes words is part of the contract (random.h) because device kernels must draw the same. */
#include "base/random.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"

#define MULTIPLIER_0 0xd2511f53u
#define MULTIPLIER_1 0xcd9e8d57u
#define BUMP_0       0x9e3779b9u /* the golden ratio */
#define BUMP_1       0xbb67ae85u /* sqrt(3) - 1 */

void hri_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)MULTIPLIER_0 * c0;
        const uint64_t p1 = (uint64_t)MULTIPLIER_1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += BUMP_0;
        k1 += BUMP_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

static void block_of(uint64_t seed, uint32_t step, uint32_t node, uint32_t sample, uint64_t block,
                     uint32_t out[4]) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)block, sample, node, step};
    hri_philox(counter, key, out);
}

uint32_t hri_random_u32_of(uint64_t seed, uint32_t step, uint32_t node, uint32_t sample,
                           uint64_t index) {
    uint32_t words[4];
    block_of(seed, step, node, sample, index / 4, words);
    return words[index % 4];
}

void hri_random_fill_u32(uint64_t seed, uint32_t step, uint32_t node, uint32_t sample,
                         uint64_t index, uint32_t *out, size_t n) {
    while (n > 0) {
        uint32_t words[4];
        block_of(seed, step, node, sample, index / 4, words);
        const size_t from = index % 4;
        const size_t taken = n < 4 - from ? n : 4 - from;
        memcpy(out, words + from, taken * sizeof *out);
        out += taken;
        index += taken;
        n -= taken;
    }
}

hri_random hri_random_at(uint64_t seed, uint32_t step, uint32_t node, uint32_t sample) {
    return (hri_random){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {0, sample, node, step},
        .used = 4,
    };
}

uint32_t hri_random_u32(hri_random *r) {
    if (r->used == 4) {
        hri_philox(r->counter, r->key, r->block);
        r->counter[0]++;
        r->used = 0;
    }
    return r->block[r->used++];
}

uint64_t hri_random_u64(hri_random *r) {
    const uint64_t low = hri_random_u32(r);
    return low | (uint64_t)hri_random_u32(r) << 32;
}

float hri_random_float(hri_random *r) {
    return hri_random_to_float(hri_random_u32(r));
}

double hri_random_double(hri_random *r) {
    return (double)(hri_random_u64(r) >> 11) * 0x1p-53;
}

void hri_random_to_normals(uint32_t a, uint32_t b, float out[2]) {
    /* (0, 1]: the logarithm never sees 0, and the largest result is sqrt(64 ln 2), about 6.66. */
    const double u = ((double)a + 1.0) * 0x1p-32;
    const double radius = sqrt(-2.0 * log(u));
    const double angle = 2.0 * M_PI * ((double)b * 0x1p-32);
    out[0] = (float)(radius * cos(angle));
    out[1] = (float)(radius * sin(angle));
}

float hri_random_normal(hri_random *r) {
    const uint32_t a = hri_random_u32(r);
    float pair[2];
    hri_random_to_normals(a, hri_random_u32(r), pair);
    return pair[0];
}

uint64_t hri_random_below(hri_random *r, uint64_t n) {
    /* The high half of a 128-bit product; draws whose low half lies in the short part are refused, so
     * that each result has the same number of draws (Lemire). */
    __extension__ typedef unsigned __int128 u128;
    u128 product = (u128)hri_random_u64(r) * n;
    if ((uint64_t)product < n) {
        const uint64_t short_part = (0 - n) % n;
        while ((uint64_t)product < short_part) {
            product = (u128)hri_random_u64(r) * n;
        }
    }
    return (uint64_t)(product >> 64);
}

void hri_random_permutation(hri_random *r, uint32_t *out, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t j = (uint32_t)hri_random_below(r, (uint64_t)i + 1);
        out[i] = out[j];
        out[j] = i;
    }
}

enum { SHUFFLE_ROUNDS = sizeof((hri_shuffle *)0)->keys / sizeof(uint64_t) };

hri_shuffle hri_shuffle_make(uint64_t seed, uint32_t epoch, uint64_t n) {
    hri_shuffle s = {.n = n, .half_bits = 1};
    while (s.half_bits < 32 && n > (uint64_t)1 << (2 * s.half_bits)) {
        s.half_bits++;
    }
    hri_random r = hri_random_at(seed, epoch, HRI_RANDOM_NODE_SHUFFLE, 0);
    for (int i = 0; i < SHUFFLE_ROUNDS; i++) {
        s.keys[i] = hri_random_u64(&r);
    }
    return s;
}

uint64_t hri_shuffle_at(const hri_shuffle *s, uint64_t i) {
    const uint64_t mask = ((uint64_t)1 << s->half_bits) - 1;
    do {
        uint64_t left = i >> s->half_bits, right = i & mask;
        for (int round = 0; round < SHUFFLE_ROUNDS; round++) {
            const uint64_t swapped = left ^ (hri_hash_u64(right ^ s->keys[round]) & mask);
            left = right;
            right = swapped;
        }
        i = left << s->half_bits | right;
    } while (i >= s->n);
    return i;
}
