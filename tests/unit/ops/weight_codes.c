/* Weights in 8 and 4 bits: codes, scales and zero points against their definition. */
#include "ops/common/weight_codes.h"

#include <math.h>
#include <string.h>

#include "test.h"

enum { IN_MAX = 200 };

typedef struct row {
    float from[IN_MAX], to[IN_MAX];
    uint8_t codes[IN_MAX], zero[IN_MAX];
    _Alignas(8) unsigned char scales[IN_MAX * 4];
} row;

static void round_trip(row *r, int bits, int64_t group, int64_t in) {
    const hri_weight_codes w = {.out = 1,
                                .in = in,
                                .group = group,
                                .bits = bits,
                                .codes = r->codes,
                                .scales = r->scales,
                                .zero = r->zero};
    hri_weight_encode(bits, group, in, r->from, r->codes, r->scales, r->zero);
    hri_weight_decode(&w, 0, 0, in, r->to);
}

static double scale_of(const row *r, int bits, int64_t g) {
    return bits == 4 ? (double)hri_from_bf16(((const hri_bf16 *)(const void *)r->scales)[g])
                     : (double)((const float *)(const void *)r->scales)[g];
}

TEST(weight_codes, every_weight_is_within_half_a_step_of_its_code) {
    uint64_t state = test_seed();
    static row r;
    for (int64_t in = 1; in <= IN_MAX; in += 7) {
        for (int bits = 4; bits <= 8; bits += 4) {
            const int64_t group = 1 + (int64_t)(test_random(&state) % 70);
            for (int64_t i = 0; i < in; i++) {
                r.from[i] = (float)((double)(test_random(&state) % 20001) / 1e4 - 1.0);
            }
            round_trip(&r, bits, group, in);
            for (int64_t i = 0; i < in; i++) {
                const double by = fabs((double)r.from[i] - (double)r.to[i]);
                const double step = scale_of(&r, bits, i / group);
                /* 4 bits: the zero point is rounded as well, and a scale of bf16 may clip by 2^-8 of the range */
                CHECK_LE(by, step * (bits == 4 ? 1.1 : 0.501));
            }
        }
    }
}

TEST(weight_codes, zeros_extremes_and_what_is_not_finite) {
    static row r;
    for (int bits = 4; bits <= 8; bits += 4) {
        memset(&r, 0, sizeof r);
        round_trip(&r, bits, 8, 17);
        for (int i = 0; i < 17; i++) {
            CHECK(r.to[i] == 0.0f);
        }
        r.from[0] = INFINITY;
        r.from[1] = -NAN;
        r.from[2] = 1e38f;
        r.from[3] = -1e38f;
        r.from[9] = 1e-40f; /* too small for a scale */
        r.from[16] = -3.0f;
        round_trip(&r, bits, 8, 17);
        CHECK(r.to[0] == 0.0f && r.to[1] == 0.0f && r.to[9] == 0.0f);
        CHECK(fabsf(r.to[2] / 1e38f - 1.0f) < 0.1f && fabsf(r.to[3] / 1e38f + 1.0f) < 0.1f);
        CHECK(fabsf(r.to[16] + 3.0f) < 0.02f);
    }
}

TEST(weight_codes, whatever_codes_say_any_part_of_a_row_decodes_alike) {
    uint64_t state = test_seed() + 1;
    static row r;
    float part[IN_MAX];
    for (int64_t i = 0; i < IN_MAX; i++) {
        r.codes[i] = (uint8_t)(test_random(&state) >> 9);
        r.zero[i] = (uint8_t)(test_random(&state) >> 9);
        ((hri_bf16 *)(void *)r.scales)[i] = hri_to_bf16(0.01f * (float)(1 + i % 9));
    }
    for (int64_t in = 1; in <= IN_MAX; in += 13) {
        const hri_weight_codes w = {.out = 1,
                                    .in = in,
                                    .group = 1 + in % 11,
                                    .bits = 4,
                                    .codes = r.codes,
                                    .scales = r.scales,
                                    .zero = r.zero};
        hri_weight_decode(&w, 0, 0, in, r.to);
        for (int64_t first = 0; first < in; first += 3) {
            hri_weight_decode(&w, 0, first, in - first, part);
            CHECK(!memcmp(part, r.to + first, (size_t)(in - first) * sizeof *part));
        }
        for (int64_t i = 0; i < in; i++) {
            const int64_t g = i / w.group;
            const int code = i % 2 ? r.codes[i / 2] / 16 : r.codes[i / 2] % 16;
            const int zero = g % 2 ? r.zero[g / 2] / 16 : r.zero[g / 2] % 16;
            CHECK(r.to[i] == (float)(code - zero) * (float)scale_of(&r, 4, g));
        }
    }
}
