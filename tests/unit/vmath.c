/* The vector functions against libm in double: error in units of the last place, special values, monotone edges. */
#include "ops/common/vmath.h"

#include <stdio.h>

#include "test.h"

/* The distance in units of the last place of the wanted number, subnormal numbers included. */
static double ulps(float is, double want) {
    if (isnan(want)) {
        return isnan(is) ? 0.0 : INFINITY;
    }
    const float nearest = (float)want;
    if (isinf(nearest) || isinf(is)) {
        return is == nearest ? 0.0 : INFINITY;
    }
    int exponent;
    frexp(want, &exponent);
    exponent = exponent < -125 ? -125 : exponent;
    return fabs((double)is - want) / ldexp(1.0, exponent - 24);
}

/* Every 211th float of both signs, from zero through subnormal numbers to NaN. */
static double worst(float (*f)(float), double (*libm)(double), float *where) {
    double most = 0.0;
    for (uint32_t bits = 0; bits < 0x7f900000u; bits += 211) {
        for (uint32_t sign = 0; sign < 2; sign++) {
            const float x = hri_bits_float(bits | sign << 31);
            const double error = ulps(f(x), libm((double)x));
            if (error > most) {
                most = error;
                *where = x;
            }
        }
    }
    return most;
}

static void check_worst(const char *name, float (*f)(float), double (*libm)(double)) {
    float where = 0.0f;
    const double most = worst(f, libm, &where);
    printf("        %s: at most %.2f ulp, at %a\n", name, most, (double)where);
    test_count_check();
    if (!(most <= 2.0)) {
        test_fail(__FILE__, __LINE__, "%s is off by %.2f ulp at %a", name, most, (double)where);
    }
}

TEST(vmath, exp_is_within_two_ulp) {
    check_worst("exp", hri_exp, exp);
}

TEST(vmath, log_is_within_two_ulp) {
    check_worst("log", hri_log, log);
}

TEST(vmath, tanh_is_within_two_ulp) {
    check_worst("tanh", hri_tanh, tanh);
}

TEST(vmath, erf_is_within_two_ulp) {
    check_worst("erf", hri_erf, erf);
}

TEST(vmath, normal_distribution_is_within_one_unit_of_one) {
    double most = 0.0, most_e = 0.0;
    for (uint32_t bits = 0; bits < 0x41c00000u; bits += 211) {
        for (uint32_t sign = 0; sign < 2; sign++) {
            const float x = hri_bits_float(bits | sign << 31);
            const double by = (double)x * 0.70710678118654752440;
            float e;
            const double p = fabs((double)hri_normal(x, &e) - 0.5 * erfc(-by));
            const double slope = fabs((double)e - exp(-by * by));
            most = p > most ? p : most;
            most_e = slope > most_e ? slope : most_e;
        }
    }
    printf("        P: off by at most %.1e, e: by %.1e\n", most, most_e);
    CHECK(most <= 0x1p-23 && most_e <= 0x1p-23);
    float e;
    CHECK(hri_normal(0.0f, &e) == 0.5f && e == 1.0f);
    CHECK(hri_normal(INFINITY, &e) == 1.0f && hri_normal(-INFINITY, &e) < 1e-37f && e < 1e-36f);
}

TEST(vmath, special_values_are_exact) {
    CHECK(hri_exp(0.0f) == 1.0f && hri_exp(-INFINITY) == 0.0f && hri_exp(INFINITY) == INFINITY);
    CHECK(hri_log(1.0f) == 0.0f && hri_log(INFINITY) == INFINITY && hri_log(-0.0f) == -INFINITY);
    CHECK(isnan(hri_log(-1.0f)) && isnan(hri_exp(NAN)) && isnan(hri_tanh(NAN)));
    CHECK(hri_tanh(INFINITY) == 1.0f && hri_tanh(-20.0f) == -1.0f && signbit(hri_tanh(-0.0f)));
    CHECK(hri_erf(INFINITY) == 1.0f && hri_erf(-5.0f) == -1.0f && isnan(hri_erf(NAN)));
}
