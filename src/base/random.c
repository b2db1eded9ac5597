/* Philox4x32-10 and what is drawn from it.
 *
 * The block function is a bijection of the counter for each key: ten rounds of two 32x32-bit products
 * with the key bumped in between.  All else here is arithmetic on its words; the order in which a stream
 * takes words is part of the contract (random.h) because device kernels must draw the same. */
#include "base/random.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

/* ---- many blocks of one place at once ---- */

enum { LANES = 16 }; /* blocks side by side */

typedef void lanes_fn(const uint32_t place[4], const uint32_t key[2], uint32_t *out);

/* LANES blocks from place[0] on. */
static void lanes_plain(const uint32_t place[4], const uint32_t key[2], uint32_t *out) {
    for (uint32_t i = 0; i < LANES; i++) {
        hri_philox((const uint32_t[]){place[0] + i, place[1], place[2], place[3]}, key,
                   out + (size_t)4 * i);
    }
}

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))

/* Both halves of eight 32x32-bit products. */
AVX2 static inline __m256i multiply(__m256i x, __m256i by, __m256i *low) {
    const __m256i even = _mm256_mul_epu32(x, by);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), by);
    *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
    return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}

/* Eight blocks, word by word, to eight blocks one behind the other. */
AVX2 static inline void store_blocks(const __m256i word[4], uint32_t *out) {
    const __m256i a = _mm256_unpacklo_epi32(word[0], word[1]);
    const __m256i b = _mm256_unpackhi_epi32(word[0], word[1]);
    const __m256i c = _mm256_unpacklo_epi32(word[2], word[3]);
    const __m256i d = _mm256_unpackhi_epi32(word[2], word[3]);
    const __m256i block[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c),
                              _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)};
    for (int i = 0; i < 4; i++) { /* block i in the lower half, i + 4 in the upper */
        _mm_storeu_si128((__m128i *)(void *)(out + 4 * i), _mm256_castsi256_si128(block[i]));
        _mm_storeu_si128((__m128i *)(void *)(out + 4 * i + 16),
                         _mm256_extracti128_si256(block[i], 1));
    }
}

AVX2 static void lanes_avx2(const uint32_t place[4], const uint32_t key[2], uint32_t *out) {
    const __m256i by0 = _mm256_set1_epi32((int)MULTIPLIER_0);
    const __m256i by1 = _mm256_set1_epi32((int)MULTIPLIER_1);
    __m256i c[LANES / 8][4];
    uint32_t k0 = key[0], k1 = key[1];
    for (int v = 0; v < LANES / 8; v++) {
        c[v][0] = _mm256_add_epi32(_mm256_set1_epi32((int)(place[0] + 8 * (uint32_t)v)),
                                   _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        for (int i = 1; i < 4; i++) {
            c[v][i] = _mm256_set1_epi32((int)place[i]);
        }
    }
    for (int round = 0; round < 10; round++) {
        const __m256i key0 = _mm256_set1_epi32((int)k0), key1 = _mm256_set1_epi32((int)k1);
        for (int v = 0; v < LANES / 8; v++) {
            __m256i low0, low1;
            const __m256i high0 = multiply(c[v][0], by0, &low0);
            const __m256i high1 = multiply(c[v][2], by1, &low1);
            c[v][0] = _mm256_xor_si256(_mm256_xor_si256(high1, c[v][1]), key0);
            c[v][2] = _mm256_xor_si256(_mm256_xor_si256(high0, c[v][3]), key1);
            c[v][1] = low1;
            c[v][3] = low0;
        }
        k0 += BUMP_0;
        k1 += BUMP_1;
    }
    for (int v = 0; v < LANES / 8; v++) {
        store_blocks(c[v], out + (size_t)32 * (size_t)v);
    }
}

static lanes_fn *find_lanes(void) {
    return __builtin_cpu_supports("avx2") ? lanes_avx2 : lanes_plain;
}
#else
static lanes_fn *find_lanes(void) {
    return lanes_plain;
}
#endif

void hri_random_fill_u32(uint64_t seed, uint32_t step, uint32_t node, uint32_t sample,
                         uint64_t index, uint32_t *out, size_t n) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    lanes_fn *const lanes = find_lanes();
    for (; index % 4 == 0 && n >= 4 * LANES; out += 4 * LANES, index += 4 * LANES, n -= 4 * LANES) {
        lanes((const uint32_t[]){(uint32_t)(index / 4), sample, node, step}, key, out);
    }
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
