/* observe: every number and every old bin put into its bin, one by one. */
#include <math.h>

#include "ops/common/histogram.h"
#include "ref.h"

static void run(const ref_call *c) {
    const int64_t n = hr_shape_count(&c->sig->in[0].shape);
    const double *x = c->in[0], *was = c->in[1];
    double *h = c->out[0];
    double least = 0, greatest = 0;
    int e = -100;
    for (int i = 0; i < HRI_HISTOGRAM_WORDS; i++) {
        h[i] = was[i];
    }
    if (n == 0) {
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        least = i ? fmin(least, x[i]) : x[i];
        greatest = i ? fmax(greatest, x[i]) : x[i];
        while (fabs(x[i]) >= ldexp(1, e)) {
            e++;
        }
    }
    /* what lies there in cases is no f32 */
    h[HRI_HISTOGRAM_LEAST] = (double)hri_histogram_word((float)least);
    h[HRI_HISTOGRAM_GREATEST] = (double)hri_histogram_word((float)greatest);
    h[HRI_HISTOGRAM_EXPONENT] = e + 1024;
    if (was[0] > 0) {
        memset(h + HRI_HISTOGRAM_BINS, 0, 2 * HRI_HISTOGRAM_SIDE * sizeof *h);
    }
    for (int i = 0; i < 2 * HRI_HISTOGRAM_SIDE && was[0] > 0; i++) {
        const double place = (i - HRI_HISTOGRAM_SIDE) * ldexp(1, (int)was[0] - 1024);
        const int to = (int)floor(place / ldexp(1, e)) + HRI_HISTOGRAM_SIDE;
        h[HRI_HISTOGRAM_BINS + to] += was[HRI_HISTOGRAM_BINS + i];
    }
    for (int64_t i = 0; i < n; i++) {
        const int to = (int)floor(x[i] / ldexp(1, e) * HRI_HISTOGRAM_SIDE) + HRI_HISTOGRAM_SIDE;
        h[HRI_HISTOGRAM_BINS + to] += 1;
    }
}

const test_ref test_ref_observe = {"observe", run};
