/* CRC-32C: values published with the polynomial (RFC 3720, B.4), the instruction against the tables, and any cut. */
#include "base/crc32c.h"

#include <string.h>

#include "test.h"

TEST(crc32c, gives_the_published_values) {
    unsigned char b[32];
    memset(b, 0, sizeof b);
    CHECK_EQ(hri_crc32c(0, b, 32), 0x8a9136aau);
    memset(b, 0xff, sizeof b);
    CHECK_EQ(hri_crc32c(0, b, 32), 0x62a8ab43u);
    for (int i = 0; i < 32; i++) {
        b[i] = (unsigned char)i;
    }
    CHECK_EQ(hri_crc32c(0, b, 32), 0x46dd794eu);
    CHECK_EQ(hri_crc32c_portable(0, b, 32), 0x46dd794eu);
    CHECK_EQ(hri_crc32c(0, b, 0), 0);
}

TEST(crc32c, is_the_same_by_instruction_by_tables_and_in_pieces) {
    unsigned char b[300];
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof b; i++) {
        b[i] = (unsigned char)test_random(&seed);
    }
    for (int round = 0; round < 500; round++) {
        const size_t from = test_random(&seed) % 20, n = test_random(&seed) % 280;
        const size_t cut = n ? test_random(&seed) % n : 0;
        const uint32_t whole = hri_crc32c(0, b + from, n);
        CHECK_EQ(whole, hri_crc32c_portable(0, b + from, n));
        CHECK_EQ(whole, hri_crc32c(hri_crc32c(0, b + from, cut), b + from + cut, n - cut));
    }
}
