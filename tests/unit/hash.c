/* The hash: the published verification value, and pieces give what the whole gives. */
#include "test.h"

#include <string.h>

#include "base/hash.h"

/* The check of the algorithm's own test program: hashes of 0, 01, 012 ... with falling seeds, hashed. */
TEST(hash, has_the_published_verification_value) {
    unsigned char key[256], all[256 * 16];
    for (unsigned i = 0; i < 256; i++) {
        key[i] = (unsigned char)i;
        const hri_hash128 h = hri_hash_bytes128(key, i, 256 - i);
        memcpy(all + 16 * i, &h, 16);
    }
    CHECK_EQ(hri_hash_bytes(all, sizeof all, 0) & 0xffffffffu, 0x6384ba69);
}

TEST(hash, pieces_give_what_the_whole_gives) {
    unsigned char data[200];
    uint64_t state = test_seed();
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (unsigned char)test_random(&state);
    }
    for (int round = 0; round < 300; round++) {
        const size_t bytes = test_random(&state) % (sizeof data + 1);
        hri_hasher h;
        hri_hasher_init(&h, 5);
        for (size_t at = 0; at < bytes;) {
            const size_t piece = 1 + test_random(&state) % (bytes - at);
            hri_hasher_add(&h, data + at, piece);
            (void)hri_hasher_get(&h);
            at += piece;
        }
        const hri_hash128 whole = hri_hash_bytes128(data, bytes, 5), pieces = hri_hasher_get(&h);
        CHECK(whole.lo == pieces.lo && whole.hi == pieces.hi);
    }
}

TEST(hash, texts_carry_their_borders) {
    hri_hasher a, b;
    hri_hasher_init(&a, 0);
    hri_hasher_init(&b, 0);
    hri_hasher_add_string(&a, "ab");
    hri_hasher_add_string(&a, "c");
    hri_hasher_add_string(&b, "a");
    hri_hasher_add_string(&b, "bc");
    CHECK(hri_hasher_get(&a).lo != hri_hasher_get(&b).lo);
    CHECK(hri_hash_string("conv1") != hri_hash_string("conv2"));
    CHECK(hri_hash_u64(1) != hri_hash_u64(2));
}
