/* Kernels in vectors of 16 (rows16.h) against double.  They are those of AVX-512, written for any processor. */
#define HRI_ROWS_TARGET
#define HRI_ROWS_MAX(A, B)  ((hri_r16)(((hri_i16)(A) & ((A) > (B))) | ((hri_i16)(B) & ~((A) > (B)))))
#define HRI_ROWS_INVERSE(A) (1.0f / (A))
#include "ops/common/attention_rows.h"
#include "ops/common/gelu_rows.h"
#include "ops/common/vmath.h"
#include "test.h"

enum { MOST = 240, ROOM = 256 };

/* Between -1 and 1. */
static float number(int64_t i) {
    return (float)((i * 7919) % 1009) / 504.0f - 1.0f;
}

static int64_t up(int64_t n) {
    return (n + 15) / 16 * 16;
}

static int is_near(float is, double want, double bound) {
    return fabs((double)is - want) <= bound * (fabs(want) + 1e-30);
}

/* A row of n scores behind others whose largest and sum are given. */
static void check_soften(int64_t n, float scale, float most, float sum) {
    float s[ROOM], before[ROOM];
    const float had_most = most, had_sum = sum;
    double top = (double)most, add = 0.0;
    for (int64_t k = 0; k < ROOM; k++) {
        before[k] = s[k] = k < n ? 20.0f * number(k + n) : NAN;
        s[k] = before[k] = k < n && k % 11 == 10 ? -INFINITY : s[k];
        const double x = (double)(before[k] * scale);
        top = k < n && x > top ? x : top;
    }
    const float keep = hri_rows_soften(s, n, scale, &most, &sum);
    for (int64_t k = 0; k < ROOM; k++) {
        const double want = k < n ? exp((double)before[k] * (double)scale - top) : 0.0;
        CHECK(k < up(n) ? is_near(s[k], want, 4e-6) : isnan(s[k]));
        add += want;
    }
    const double kept = had_most == -INFINITY ? 1.0 : exp((double)had_most - top);
    CHECK((double)most == top);
    CHECK(is_near(keep, kept, 4e-6));
    CHECK(is_near(sum, kept * (double)had_sum + add, 4e-6));
}

TEST(rows16, a_row_of_scores_of_any_length) {
    for (int64_t n = 1; n <= MOST; n++) {
        check_soften(n, 0.25f, -INFINITY, 0.0f);
        check_soften(n, 0.25f, 1.5f, 2.5f);
        check_soften(n, 0.25f, 40.0f, 1.0f);
    }
    check_soften(9, -0.25f, -INFINITY, 0.0f); /* minus infinity becomes the largest from 11 on */
}

TEST(rows16, a_row_that_sees_nothing_is_zero) {
    float s[ROOM], most = -INFINITY, sum = 0.0f;
    for (int64_t k = 0; k < ROOM; k++) {
        s[k] = k < 37 ? -INFINITY : 1.0f;
    }
    CHECK(hri_rows_soften(s, 37, 1.0f, &most, &sum) == 1.0f);
    CHECK(most == -INFINITY && sum == 0.0f && s[0] == 0.0f && s[36] == 0.0f);
}

TEST(rows16, a_score_that_is_no_number_is_seen) {
    float s[16] = {1.0f, NAN, 2.0f}, most = -INFINITY, sum = 0.0f;
    hri_rows_soften(s, 3, 1.0f, &most, &sum);
    CHECK(most == 2.0f && isnan(s[1]) && isnan(sum) && s[2] == 1.0f);
}

TEST(rows16, gradients_of_a_row_of_any_length) {
    const float scale = 0.5f, lse = 1.25f, delta = 0.375f;
    for (int64_t n = 1; n <= MOST; n++) {
        float p[ROOM], ds[ROOM];
        for (int64_t k = 0; k < ROOM; k++) {
            p[k] = k < n ? 4.0f * number(k) : NAN;
            ds[k] = k < n ? 4.0f * number(k + 77) : NAN;
        }
        hri_rows_differentiate(p, ds, n, scale, lse, delta);
        for (int64_t k = 0; k < ROOM; k++) {
            const double want = exp((double)(4.0f * number(k)) * 0.5 - 1.25);
            const double slope = 0.5 * want * ((double)(4.0f * number(k + 77)) - 0.375);
            CHECK(k < n ? is_near(p[k], want, 1e-6) : k < up(n) ? p[k] == 0.0f : isnan(p[k]));
            CHECK(k < n ? is_near(ds[k], slope, 1e-6) : k < up(n) ? ds[k] == 0.0f : isnan(ds[k]));
        }
    }
}

TEST(rows16, sums_of_products) {
    for (int64_t n = 0; n <= MOST; n++) {
        float x[ROOM], y[ROOM];
        double want = 0.0;
        for (int64_t k = 0; k < ROOM; k++) {
            x[k] = number(k) + 2.0f;
            y[k] = number(k + n) + 2.0f;
            want += k < n ? (double)x[k] * (double)y[k] : 0.0;
        }
        CHECK(is_near(hri_rows_dot(x, y, n), want, 1e-6));
    }
}

TEST(rows16, gelu_as_one_by_one) {
    for (int64_t n = 0; n < 40; n++) {
        float x[40], y[41], dx[41], e;
        for (int64_t k = 0; k < n; k++) {
            x[k] = 14.0f * number(k * 31 + n);
            y[k] = 3.0f;
        }
        y[n] = dx[n] = 7.0f;
        hri_rows_gelu_grad(y, x, dx, n);
        hri_rows_gelu(x, y, n);
        for (int64_t k = 0; k < n; k++) {
            const float P = hri_normal(x[k], &e), slope = P + x[k] * 0.3989422804014327f * e;
            CHECK(is_near(y[k], (double)(x[k] * P), 2e-5));
            CHECK(fabsf(dx[k] - 3.0f * slope) <= 2e-6f);
        }
        CHECK(y[n] == 7.0f && dx[n] == 7.0f);
    }
}

TEST(rows16, gelu_of_what_is_no_number) {
    float x[3] = {NAN, INFINITY, 0.0f};
    hri_rows_gelu(x, x, 3);
    CHECK(isnan(x[0]) && x[1] == INFINITY && x[2] == 0.0f);
}
