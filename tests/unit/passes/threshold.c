/* Ranges from histograms: what each method does with outliers, zeros and one-sided values. */
#include "passes/common/threshold.h"

#include <math.h>
#include <string.h>

#include "ops/common/histogram.h"
#include "test.h"

static int64_t h[HRI_HISTOGRAM_WORDS];

static void add(double x) {
    const int e = hri_histogram_exponent((float)fabs(x));
    const float low = hri_histogram_real(h[HRI_HISTOGRAM_LEAST]);
    const float high = hri_histogram_real(h[HRI_HISTOGRAM_GREATEST]);
    if (!h[HRI_HISTOGRAM_LEAST] || (float)x < low) {
        h[HRI_HISTOGRAM_LEAST] = hri_histogram_word((float)x);
    }
    if (!h[HRI_HISTOGRAM_GREATEST] || (float)x > high) {
        h[HRI_HISTOGRAM_GREATEST] = hri_histogram_word((float)x);
    }
    hri_histogram_widen(h, e);
    const double width = ldexp(1.0 / HRI_HISTOGRAM_SIDE, (int)h[HRI_HISTOGRAM_EXPONENT] - 1024);
    h[HRI_HISTOGRAM_BINS + HRI_HISTOGRAM_SIDE + (int)floor(x / width)]++;
}

/* Normal numbers, cut at 0 if asked, and perhaps an outlier in 10,000. */
static void fill(int relu, double outlier) {
    uint64_t state = test_seed();
    memset(h, 0, sizeof h);
    for (int i = 0; i < 100000; i++) {
        double x = -6;
        for (int k = 0; k < 12; k++) {
            x += (double)(test_random(&state) >> 11) * 0x1p-53;
        }
        add(outlier > 0 && i % 10000 == 5000 ? outlier : relu && x < 0 ? 0 : x);
    }
}

static double error_of(hri_threshold method) {
    const hri_range r = hri_range_of(h, method);
    CHECK(r.low <= 0 && r.high >= 0 && r.scale > 0);
    return hri_range_error(h, &r);
}

TEST(threshold, the_whole_range_is_kept_or_the_error_is_smaller) {
    fill(0, 0);
    const hri_range all = hri_range_of(h, HRI_THRESHOLD_MINMAX);
    CHECK(all.low == hri_histogram_real(h[HRI_HISTOGRAM_LEAST]));
    CHECK(all.high == hri_histogram_real(h[HRI_HISTOGRAM_GREATEST]));
    CHECK_LE(error_of(HRI_THRESHOLD_MSE), error_of(HRI_THRESHOLD_MINMAX));
    fill(1, 0);
    const hri_range relu = hri_range_of(h, HRI_THRESHOLD_MINMAX);
    CHECK(relu.low == 0 && relu.zero == 0);
    CHECK_LE(error_of(HRI_THRESHOLD_MSE), error_of(HRI_THRESHOLD_MINMAX));
    CHECK_LE(error_of(HRI_THRESHOLD_ENTROPY), 3e-4); /* zeros do not pull it in */
}

TEST(threshold, an_outlier_in_ten_thousand_is_left_out_where_that_is_asked_for) {
    fill(1, 60);
    CHECK(hri_range_of(h, HRI_THRESHOLD_MINMAX).high == 60);
    CHECK_LE(hri_range_of(h, HRI_THRESHOLD_PERCENTILE).high, 6);
    CHECK_LE(hri_range_of(h, HRI_THRESHOLD_ENTROPY).high, 10);
}

TEST(threshold, bounds_hold_zero_and_zero_is_exact) {
    const hri_range above = hri_range_between(2, 10), below = hri_range_between(-10, -2);
    CHECK(above.low == 0 && above.zero == 0 && below.high == 0 && below.zero == 255);
    const hri_range both = hri_range_between(-1, 3);
    CHECK_EQ(both.zero, 64);
    CHECK(hri_range_between(0, 0).scale == 1 && hri_range_between(0, 1e-40).scale == 1);
    memset(h, 0, sizeof h);
    for (int method = 0; hri_threshold_names[method]; method++) {
        CHECK(hri_range_of(h, (hri_threshold)method).scale == 1);
    }
}
