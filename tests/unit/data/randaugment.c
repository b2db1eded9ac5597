/* RandAugment: each operation to the byte as torchvision 0.29 has it (tools/torchvision-augment prints the numbers), and the stage. */
#include "data/image/augment.h"

#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "test.h"

enum { H = 20, W = 28 };

typedef struct one {
    int64_t bin;
    int sign;
    int64_t channels;
    uint32_t should[HRI_AUGMENT_OPS];
} one;

static const one cases[] = {
    {9,
     1,
     1,
     {0x2ef9cbe6, 0x8762a0e9, 0x61d36b63, 0xd6c6e836, 0x7b754000, 0x8a57d498, 0x6164cf94,
      0x2ef9cbe6, 0xa4dd7d3c, 0xcfe1e1e2, 0x59bc2bbe, 0x555b5a8c, 0xd8f01edf, 0x4a457b14}},
    {9,
     1,
     3,
     {0xe60104d4, 0xe2bbefef, 0x3b752d2b, 0x73eb2ebf, 0x0934b9a1, 0xa983e40a, 0xfc136dfd,
      0x11147f32, 0x512fe3c5, 0x67231ff0, 0xb3e8a96b, 0x9b619d5b, 0xf7673a0a, 0x61ba1f15}},
    {9,
     -1,
     1,
     {0x2ef9cbe6, 0x20d2133b, 0xaf39a1c2, 0x04afe08f, 0x95f45890, 0x11c33bbc, 0xd1022f4e,
      0x2ef9cbe6, 0xac68cd9f, 0x48110719, 0x59bc2bbe, 0x555b5a8c, 0xd8f01edf, 0x4a457b14}},
    {9,
     -1,
     3,
     {0xe60104d4, 0xf396ad48, 0x67a9202c, 0x34d24e90, 0x4f4998e7, 0x62baab6c, 0x196dd130,
      0xf3108e5c, 0x9cefce09, 0xd6d5e7ff, 0xb3e8a96b, 0x9b619d5b, 0xf7673a0a, 0x61ba1f15}},
    {30,
     1,
     1,
     {0xd56b157e, 0xb4e00aad, 0xef5bfd95, 0x2b508a49, 0x0ea77769, 0x3dbf6679, 0xa87d4c46,
      0xd56b157e, 0x598d987b, 0x5b9d863d, 0x65222221, 0x559819e4, 0x1637c73f, 0x0000de2f}},
    {30,
     1,
     3,
     {0xee53dd7d, 0x2d322092, 0x08a4d598, 0x4251339d, 0xaf708905, 0x4f51d3ba, 0xe67d094a,
      0x87ce9afc, 0x2ff67b6f, 0xe501a311, 0x5706b631, 0xd0610fb6, 0x8eec3b25, 0xcf5b75ec}},
    {30,
     -1,
     1,
     {0xd56b157e, 0x1bf010da, 0x9b65a435, 0x61d6dd4e, 0xf1fa45ed, 0xa3879f0e, 0x3ec77179,
      0xd56b157e, 0x11c9912e, 0x3b0d732b, 0x65222221, 0x559819e4, 0x1637c73f, 0x0000de2f}},
    {30,
     -1,
     3,
     {0xee53dd7d, 0x736bac09, 0x48d16ece, 0x3c99cbe0, 0xf8812374, 0x8e850a90, 0x7a2d227c,
      0x53883805, 0x9055caea, 0x6d216844, 0x5706b631, 0xd0610fb6, 0x8eec3b25, 0xcf5b75ec}},
};

static void make(uint32_t state, int64_t bytes, uint8_t *out) {
    for (int64_t i = 0; i < bytes; i++) {
        state = state * 1664525u + 1013904223u;
        out[i] = (uint8_t)(40 + (state >> 16) % 150);
    }
}

TEST(randaugment, every_operation_is_torchvisions_to_the_byte) {
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        uint8_t from[H * W * 3], to[H * W * 3];
        const one *c = &cases[k];
        const hri_bitmap in = {from, H, W, c->channels};
        hri_bitmap out = {to, H, W, c->channels};
        make((uint32_t)c->bin, H * W * c->channels, from);
        for (int op = 0; op < HRI_AUGMENT_OPS; op++) {
            bool either;
            double m = hri_augment_magnitude((hri_augment_op)op, c->bin, 31, H, W, &either);
            m *= either ? c->sign : 1;
            hri_augment_apply((hri_augment_op)op, m, &in, &out);
            const uint32_t is = (uint32_t)crc32(0, to, (uInt)(H * W * c->channels));
            if (is != c->should[op]) {
                printf("    operation %d, bin %d, sign %d, %d channels\n", op, (int)c->bin, c->sign,
                       (int)c->channels);
            }
            CHECK_EQ(is, c->should[op]);
        }
    }
}

enum { COUNT = 40, SIZE = H * W * 3 };

static void read_all(const char *text, uint8_t (*out)[SIZE]) {
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 32 << 20};
    hr_pipeline *p;
    hr_element *e;
    hr_error why = {0};
    if (hr_pipeline_open(&o, text, &why, &p) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(hr_pipeline_next(p, &e));
        memcpy(out[i], hr_element_find(e, "image")->data, SIZE);
        hr_element_unref(e);
    }
    hr_pipeline_destroy(p);
}

#define SOURCE "synthetic:40,shape=20x28x3"

TEST(randaugment, pictures_change_the_same_way_for_any_number_of_threads) {
    static uint8_t plain[COUNT][SIZE], with[COUNT][SIZE], again[COUNT][SIZE];
    static const char *const texts[][2] = {
        {SOURCE " | randaugment(parallel=1)", SOURCE " | randaugment(parallel=5)"},
        {SOURCE " | randaugment(1,parallel=1)", SOURCE " | randaugment(1,parallel=5)"},
        {SOURCE " | randaugment(3,magnitude=20,parallel=1)",
         SOURCE " | randaugment(3,magnitude=20,parallel=4)"}};
    read_all(SOURCE " | load", plain);
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        int different = 0;
        read_all(texts[k][0], with);
        read_all(texts[k][1], again);
        CHECK(!memcmp(with, again, sizeof with));
        for (int i = 0; i < COUNT; i++) {
            different += memcmp(plain[i], with[i], SIZE) != 0;
        }
        CHECK(different > COUNT / 2);
    }
}

TEST(randaugment, a_magnitude_beyond_the_bins_is_refused) {
    hr_error why = {0};
    hr_pipeline *p;
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 32 << 20};
    CHECK_STATUS(hr_pipeline_open(&o, SOURCE " | randaugment(magnitude=31)", &why, &p), HR_E_RANGE);
    CHECK(strstr(why.message, "magnitude=31 is not below bins=31"));
}
