/* Codes of 8-bit floats: all 256, rounding to the nearest with ties to even, saturation. */
#include "ops/common/float8.h"

#include <math.h>

#include "test.h"

/* From the definition. */
static double number(int code) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    return exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
}

TEST(float8, every_code_is_its_number_and_comes_back) {
    for (int code = 0; code < 256; code++) {
        const float x = hri_from_f8((uint8_t)code);
        if ((code & 127) == 127) {
            CHECK(isnan(x));
            CHECK_EQ(hri_to_f8(x) & 127, 127);
            continue;
        }
        CHECK((double)x == (code & 128 ? -number(code & 127) : number(code)));
        CHECK_EQ(signbit(x) != 0, code >> 7);
        CHECK_EQ(hri_to_f8(x), code);
    }
}

TEST(float8, between_two_codes_the_nearer_is_taken_and_on_ties_the_even_one) {
    for (int code = 0; code < 126; code++) {
        const float low = (float)number(code), high = (float)number(code + 1);
        const float middle = (float)(((double)low + (double)high) / 2);
        const int even = code % 2 ? code + 1 : code;
        CHECK_EQ(hri_to_f8(middle), even);
        CHECK_EQ(hri_to_f8(-middle), even | 128);
        CHECK_EQ(hri_to_f8(nextafterf(middle, 0.0f)), code);
        CHECK_EQ(hri_to_f8(nextafterf(middle, 1000.0f)), code + 1);
        CHECK_EQ(hri_to_f8(nextafterf(low, 1000.0f)), code);
        CHECK_EQ(hri_to_f8(nextafterf(high, 0.0f)), code + 1);
    }
}

TEST(float8, what_is_too_large_is_448_and_nan_stays) {
    CHECK_EQ(hri_to_f8(448.0f), 126);
    CHECK_EQ(hri_to_f8(449.0f), 126);
    CHECK_EQ(hri_to_f8(1e30f), 126);
    CHECK_EQ(hri_to_f8(INFINITY), 126);
    CHECK_EQ(hri_to_f8(-INFINITY), 254);
    CHECK_EQ(hri_to_f8(NAN) & 127, 127);
    CHECK_EQ(hri_to_f8(0x1p-10f), 0);
    CHECK_EQ(hri_to_f8(0x1.000002p-10f), 1);
    CHECK_EQ(hri_to_f8(-0.0f), 128);
}
