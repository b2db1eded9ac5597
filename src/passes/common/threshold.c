/* See threshold.h. */
#include "passes/common/threshold.h"

#include <math.h>
#include <string.h>

#include "ops/common/histogram.h"

enum { SIDE = HRI_HISTOGRAM_SIDE, ALL = 2 * SIDE, LEVELS = 128 };

static const double outside = 0.0001; /* of percentile: the share on each side */

const char *const hri_threshold_names[] = {"minmax", "percentile", "entropy", "mse", NULL};

hri_range hri_range_between(double low, double high) {
    hri_range r = {.low = (float)fmin(low, 0.0), .high = (float)fmax(high, 0.0), .scale = 1.0f};
    const double width = (double)r.high - (double)r.low;
    if (width >= 0x1p-120 && isfinite(width)) {
        r.scale = (float)(width / 255.0);
        const double zero = rint(-(double)r.low / (double)r.scale);
        r.zero = (uint8_t)fmin(fmax(zero, 0.0), 255.0);
    }
    return r;
}

static double bin_width(const int64_t *h) {
    return ldexp(1.0 / SIDE, (int)h[HRI_HISTOGRAM_EXPONENT] - 1024);
}

/* Bounds no wider than what was seen. */
static hri_range bounded(const int64_t *h, double low, double high) {
    const double least = (double)hri_histogram_real(h[HRI_HISTOGRAM_LEAST]);
    const double greatest = (double)hri_histogram_real(h[HRI_HISTOGRAM_GREATEST]);
    return hri_range_between(fmax(low, least), fmin(high, greatest));
}

double hri_range_error(const int64_t *h, const hri_range *r) {
    const double width = bin_width(h), scale = (double)r->scale;
    double sum = 0, count = 0;
    for (int i = 0; i < ALL; i++) {
        const double n = (double)h[HRI_HISTOGRAM_BINS + i];
        if (n > 0) {
            const double x = (i - SIDE + 0.5) * width;
            const double q = fmin(fmax(rint(x / scale) + r->zero, 0.0), 255.0);
            const double by = (q - r->zero) * scale - x;
            sum += n * by * by;
            count += n;
        }
    }
    return count > 0 ? sum / count : 0;
}

static hri_range by_share(const int64_t *h) {
    const int64_t *bins = h + HRI_HISTOGRAM_BINS;
    double total = 0, below = 0, above = 0;
    int low = 0, high = ALL;
    for (int i = 0; i < ALL; i++) {
        total += (double)bins[i];
    }
    const double out = rint(total * outside);
    while (low < SIDE && below + (double)bins[low] <= out) {
        below += (double)bins[low++];
    }
    while (high > SIDE && above + (double)bins[high - 1] <= out) {
        above += (double)bins[--high];
    }
    return bounded(h, (low - SIDE) * bin_width(h), (high - SIDE) * bin_width(h));
}

static hri_range by_error(const int64_t *h) {
    hri_range best = bounded(h, -INFINITY, INFINITY);
    double least = hri_range_error(h, &best);
    for (int i = 64; i < SIDE; i += 8) {
        const double edge = i * bin_width(h);
        const hri_range r = bounded(h, -edge, edge);
        const double error = hri_range_error(h, &r);
        if (error < least) {
            least = error;
            best = r;
        }
    }
    return best;
}

/* How far P, the first n magnitudes with all larger ones in the last, is from the same in LEVELS levels. */
static double divergence(const double *size, int n, double rest, double total) {
    double sum = 0, known = 0;
    for (int level = 0; level < LEVELS; level++) {
        const int from = (int)((int64_t)level * n / LEVELS);
        const int to = (int)((int64_t)(level + 1) * n / LEVELS);
        double all = 0, some = 0;
        for (int i = from; i < to; i++) {
            all += size[i];
            some += size[i] > 0;
        }
        known += all;
        for (int i = from; i < to && all > 0; i++) {
            const double p = size[i] + (i + 1 == n ? rest : 0), q = all / some;
            sum += size[i] > 0 ? p / total * log(p / q) : 0;
        }
    }
    /* Q has what is inside alone; both are shares of their own sums */
    return known > 0 ? sum + log(known / total) : INFINITY;
}

static hri_range by_entropy(const int64_t *h) {
    const int64_t *bins = h + HRI_HISTOGRAM_BINS;
    double size[SIDE], total = 0, inside = 0, least = INFINITY;
    int best = SIDE;
    for (int i = 0; i < SIDE; i++) {
        size[i] = (double)bins[SIDE + i] + (double)bins[SIDE - 1 - i];
    }
    size[0] = size[1]; /* zeros after relu are exact in any range */
    for (int i = 0; i < SIDE; i++) {
        total += size[i];
    }
    for (int n = 0; n < SIDE; n++) {
        inside += size[n];
        if (n + 1 < LEVELS || total <= 0) {
            continue;
        }
        const double d = divergence(size, n + 1, total - inside, total);
        if (d < least) {
            least = d;
            best = n + 1;
        }
    }
    return bounded(h, -best * bin_width(h), best * bin_width(h));
}

hri_range hri_range_of(const int64_t *h, hri_threshold method) {
    if (!h[HRI_HISTOGRAM_EXPONENT]) {
        return hri_range_between(0, 0);
    }
    return method == HRI_THRESHOLD_PERCENTILE ? by_share(h)
           : method == HRI_THRESHOLD_ENTROPY  ? by_entropy(h)
           : method == HRI_THRESHOLD_MSE      ? by_error(h)
                                              : bounded(h, -INFINITY, INFINITY);
}
