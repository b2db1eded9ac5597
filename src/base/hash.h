/* Hash of bytes, in 64 and 128 bits: MurmurHash3 x64-128, a public algorithm by Austin Appleby, written
 * anew and checked against its published verification value.  Good for cache keys, tables and
 * fingerprints of files; not against an adversary who chooses the bytes.
 *
 * The result depends on the bytes and the seed alone, never on the machine or the run, so that it may
 * be stored.  Any thread. */
#ifndef HRI_BASE_HASH_H
#define HRI_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct hri_hash128 {
    uint64_t lo, hi;
} hri_hash128;

hri_hash128 hri_hash_bytes128(const void *data, size_t bytes, uint32_t seed);
/* The lo half of the same. */
uint64_t hri_hash_bytes(const void *data, size_t bytes, uint32_t seed);
uint64_t hri_hash_string(const char *text);
/* One number well mixed: a bijection, so different numbers never collide. */
uint64_t hri_hash_u64(uint64_t x);

/* The same hash for data that comes in pieces; how it was cut makes no difference.
 *   hri_hasher h;  hri_hasher_init(&h, 0);  hri_hasher_add(&h, p, n) ...;  hri_hasher_get(&h)
 * get may be called at any time and changes nothing. */
typedef struct hri_hasher {
    uint64_t h1, h2, bytes;
    unsigned char tail[16];
} hri_hasher;

void hri_hasher_init(hri_hasher *hasher, uint32_t seed);
void hri_hasher_add(hri_hasher *hasher, const void *data, size_t bytes);
/* Numbers are added as eight little-endian bytes, texts with their NUL, so that "ab","c" and "a","bc"
 * differ. */
void hri_hasher_add_u64(hri_hasher *hasher, uint64_t x);
void hri_hasher_add_string(hri_hasher *hasher, const char *text);
hri_hash128 hri_hasher_get(const hri_hasher *hasher);

#endif
