/* Random numbers: the published answers of Philox, and that every draw is a function of its place. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

static void check_philox(const uint32_t counter[4], const uint32_t key[2], const uint32_t is[4]) {
    uint32_t out[4];
    hri_philox(counter, key, out);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(out[i], is[i]);
    }
}

/* The three vectors of the authors' kat_vectors file for philox4x32 with 10 rounds. */
TEST(random, philox_gives_the_published_answers) {
    check_philox((uint32_t[4]){0}, (uint32_t[2]){0},
                 (uint32_t[4]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    check_philox((uint32_t[4]){~0u, ~0u, ~0u, ~0u}, (uint32_t[2]){~0u, ~0u},
                 (uint32_t[4]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    check_philox((uint32_t[4]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                 (uint32_t[2]){0xa4093822, 0x299f31d0},
                 (uint32_t[4]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(random, long_fills_have_the_words_of_single_ones) {
    uint32_t filled[300];
    for (uint64_t from = 0; from < 9; from++) { /* aligned to a block or not */
        hri_random_fill_u32(0x123456789abcdefu, 3, 5, 9, from, filled, 300);
        for (uint64_t i = 0; i < 300; i++) {
            CHECK_EQ(filled[i], hri_random_u32_of(0x123456789abcdefu, 3, 5, 9, from + i));
        }
    }
}

TEST(random, a_stream_draws_what_its_place_says) {
    hri_random r = hri_random_at(77, 3, 5, 9);
    uint32_t filled[37];
    hri_random_fill_u32(77, 3, 5, 9, 0, filled, 37);
    for (uint64_t i = 0; i < 37; i++) {
        CHECK_EQ(filled[i], hri_random_u32_of(77, 3, 5, 9, i));
        CHECK_EQ(filled[i], hri_random_u32(&r));
    }
    uint32_t part[10];
    hri_random_fill_u32(77, 3, 5, 9, 11, part, 10);
    CHECK(!memcmp(part, filled + 11, sizeof part));
}

TEST(random, each_part_of_a_place_matters) {
    const uint32_t here = hri_random_u32_of(1, 2, 3, 4, 5);
    CHECK(here != hri_random_u32_of(9, 2, 3, 4, 5));
    CHECK(here != hri_random_u32_of((uint64_t)1 << 32 | 1, 2, 3, 4, 5));
    CHECK(here != hri_random_u32_of(1, 9, 3, 4, 5));
    CHECK(here != hri_random_u32_of(1, 2, 9, 4, 5));
    CHECK(here != hri_random_u32_of(1, 2, 3, 9, 5));
    CHECK(here != hri_random_u32_of(1, 2, 3, 4, 9));
}

TEST(random, floats_fill_the_unit_interval_evenly) {
    enum { N = 100000, BINS = 20 };
    hri_random r = hri_random_at(test_seed(), 0, 0, 0);
    int f[BINS] = {0}, d[BINS] = {0};
    for (int i = 0; i < N; i++) {
        const float x = hri_random_float(&r);
        const double y = hri_random_double(&r);
        CHECK(x >= 0 && x < 1 && y >= 0 && y < 1);
        f[(int)(x * BINS)]++;
        d[(int)(y * BINS)]++;
    }
    for (int i = 0; i < BINS; i++) {
        /* Six standard deviations of a bin's count. */
        CHECK(fabs(f[i] - (double)N / BINS) < 6 * sqrt((double)N / BINS));
        CHECK(fabs(d[i] - (double)N / BINS) < 6 * sqrt((double)N / BINS));
    }
    CHECK(hri_random_to_float(UINT32_MAX) < 1.0f);
}

TEST(random, normals_have_the_moments_of_a_normal) {
    enum { N = 200000 };
    hri_random r = hri_random_at(test_seed(), 1, 0, 0);
    double sum = 0, square = 0, fourth = 0;
    for (int i = 0; i < N; i++) {
        const double x = hri_random_normal(&r);
        sum += x;
        square += x * x;
        fourth += x * x * x * x;
    }
    CHECK(fabs(sum / N) < 6 / sqrt(N));
    CHECK(fabs(square / N - 1) < 6 * sqrt(2.0 / N));
    CHECK(fabs(fourth / N - 3) < 6 * sqrt(96.0 / N));
    float pair[2];
    hri_random_to_normals(0, 0, pair);
    CHECK(isfinite(pair[0]) && isfinite(pair[1]) && pair[0] > 6.6f);
}

TEST(random, bounded_integers_are_in_range_and_even) {
    enum { N = 70000 };
    hri_random r = hri_random_at(test_seed(), 2, 0, 0);
    int counts[7] = {0};
    for (int i = 0; i < N; i++) {
        const uint64_t x = hri_random_below(&r, 7);
        CHECK(x < 7);
        counts[x]++;
    }
    for (int i = 0; i < 7; i++) {
        CHECK(abs(counts[i] - N / 7) < 6 * 100);
    }
    CHECK_EQ(hri_random_below(&r, 1), 0);
    /* Three quarters of the range: a plain remainder would give small numbers twice as often. */
    double mean = 0;
    const uint64_t bound = (uint64_t)3 << 62;
    for (int i = 0; i < N; i++) {
        const uint64_t x = hri_random_below(&r, bound);
        CHECK(x < bound);
        mean += (double)x / (double)bound / N;
    }
    CHECK(fabs(mean - 0.5) < 6 / sqrt(12.0 * N));
}

TEST(random, a_permutation_has_each_number_once_and_no_favourite_order) {
    uint32_t p[1000], seen[1000] = {0};
    hri_random r = hri_random_at(test_seed(), 3, 0, 0);
    hri_random_permutation(&r, p, 1000);
    for (int i = 0; i < 1000; i++) {
        CHECK(p[i] < 1000 && !seen[p[i]]++);
    }
    int orders[6] = {0};
    for (int i = 0; i < 6000; i++) {
        uint32_t q[3];
        hri_random_permutation(&r, q, 3);
        orders[q[0] * 2 + (q[1] > q[2])]++;
    }
    for (int i = 0; i < 6; i++) {
        CHECK(abs(orders[i] - 1000) < 6 * 32);
    }
}

TEST(shuffle, is_a_bijection_for_every_small_n) {
    for (uint64_t n = 1; n <= 300; n++) {
        unsigned char seen[300] = {0};
        const hri_shuffle s = hri_shuffle_make(test_seed(), (uint32_t)n, n);
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t at = hri_shuffle_at(&s, i);
            CHECK(at < n && !seen[at]++);
        }
    }
}

TEST(shuffle, every_item_goes_to_every_place_evenly) {
    enum { N = 10, EPOCHS = 20000 };
    static int counts[N][N];
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        const hri_shuffle s = hri_shuffle_make(test_seed(), epoch, N);
        for (uint64_t i = 0; i < N; i++) {
            counts[i][hri_shuffle_at(&s, i)]++;
        }
    }
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            CHECK(abs(counts[i][j] - EPOCHS / N) < 7 * 43); /* sqrt(20000 * 0.1 * 0.9) is 42.4 */
        }
    }
}

TEST(shuffle, works_at_the_largest_n) {
    const hri_shuffle s = hri_shuffle_make(1, 0, UINT64_MAX);
    CHECK(hri_shuffle_at(&s, 0) < UINT64_MAX);
    CHECK(hri_shuffle_at(&s, 0) != hri_shuffle_at(&s, UINT64_MAX - 1));
}
