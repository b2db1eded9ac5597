/* MurmurHash3 x64-128 as a stream: two 64-bit lanes take sixteen bytes a round, and the end mixes the
 * rest, the length and the lanes.  The one-shot functions are the stream with one piece.
 *
 * Bytes are read as little-endian numbers by memcpy, which is all the machines that we build for. */
#include "base/hash.h"

#include <string.h>

#define C1 0x87c37b91114253d5u
#define C2 0x4cf5ad432745937fu

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "hashes are stored: byte order matters");

static uint64_t rotate(uint64_t x, unsigned by) {
    return x << by | x >> (64 - by);
}

/* A bijection of 64 bits in which each bit of x moves about half of the result's. */
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

static uint64_t scatter1(uint64_t k) {
    return rotate(k * C1, 31) * C2;
}

static uint64_t scatter2(uint64_t k) {
    return rotate(k * C2, 33) * C1;
}

static void add_block(hri_hasher *h, const unsigned char *block) {
    uint64_t k1, k2;
    memcpy(&k1, block, 8);
    memcpy(&k2, block + 8, 8);
    h->h1 = (rotate(h->h1 ^ scatter1(k1), 27) + h->h2) * 5 + 0x52dce729;
    h->h2 = (rotate(h->h2 ^ scatter2(k2), 31) + h->h1) * 5 + 0x38495ab5;
}

void hri_hasher_init(hri_hasher *h, uint32_t seed) {
    *h = (hri_hasher){.h1 = seed, .h2 = seed};
}

void hri_hasher_add(hri_hasher *h, const void *data, size_t bytes) {
    const unsigned char *p = data;
    const size_t waiting = h->bytes % 16;
    h->bytes += bytes;
    if (waiting) {
        const size_t taken = bytes < 16 - waiting ? bytes : 16 - waiting;
        if (taken) {
            memcpy(h->tail + waiting, p, taken);
        }
        if (waiting + taken < 16) {
            return;
        }
        add_block(h, h->tail);
        p += taken;
        bytes -= taken;
    }
    for (; bytes >= 16; bytes -= 16, p += 16) {
        add_block(h, p);
    }
    if (bytes) {
        memcpy(h->tail, p, bytes);
    }
}

void hri_hasher_add_u64(hri_hasher *h, uint64_t x) {
    hri_hasher_add(h, &x, sizeof x);
}

void hri_hasher_add_string(hri_hasher *h, const char *text) {
    hri_hasher_add(h, text, strlen(text) + 1);
}

hri_hash128 hri_hasher_get(const hri_hasher *h) {
    unsigned char rest[16] = {0};
    memcpy(rest, h->tail, h->bytes % 16);
    uint64_t k1, k2;
    memcpy(&k1, rest, 8);
    memcpy(&k2, rest + 8, 8);
    uint64_t h1 = h->h1 ^ scatter1(k1) ^ h->bytes;
    uint64_t h2 = h->h2 ^ scatter2(k2) ^ h->bytes;
    h1 += h2;
    h2 += h1;
    h1 = mix(h1);
    h2 = mix(h2);
    h1 += h2;
    h2 += h1;
    return (hri_hash128){h1, h2};
}

hri_hash128 hri_hash_bytes128(const void *data, size_t bytes, uint32_t seed) {
    hri_hasher h;
    hri_hasher_init(&h, seed);
    hri_hasher_add(&h, data, bytes);
    return hri_hasher_get(&h);
}

uint64_t hri_hash_bytes(const void *data, size_t bytes, uint32_t seed) {
    return hri_hash_bytes128(data, bytes, seed).lo;
}

uint64_t hri_hash_string(const char *text) {
    return hri_hash_bytes(text, strlen(text), 0);
}

uint64_t hri_hash_u64(uint64_t x) {
    return mix(x);
}
