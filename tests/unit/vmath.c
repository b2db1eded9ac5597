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

TEST(vmath, special_values_are_exact) {
    CHECK(hri_exp(0.0f) == 1.0f && hri_exp(-INFINITY) == 0.0f && hri_exp(INFINITY) == INFINITY);
    CHECK(hri_log(1.0f) == 0.0f && hri_log(INFINITY) == INFINITY && hri_log(-0.0f) == -INFINITY);
    CHECK(isnan(hri_log(-1.0f)) && isnan(hri_exp(NAN)) && isnan(hri_tanh(NAN)));
    CHECK(hri_tanh(INFINITY) == 1.0f && hri_tanh(-20.0f) == -1.0f && signbit(hri_tanh(-0.0f)));
    CHECK(hri_erf(INFINITY) == 1.0f && hri_erf(-5.0f) == -1.0f && isnan(hri_erf(NAN)));
}
