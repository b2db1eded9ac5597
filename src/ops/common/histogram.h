/* What was seen of a value's numbers: counts in 4096 bins over (-2^e, 2^e), the least and the greatest.
 *
 * A histogram is i64[HRI_HISTOGRAM_WORDS], all zeros at first, so that it can be a state of a graph.  When a number does not fit,
 * e grows and neighbouring bins are added: whatever the order of numbers, the result is that of all of them at once.  Numbers
 * that are not finite are skipped.  16 bins for each level of int8 on each side; never more memory than this. */
#ifndef HRI_OPS_COMMON_HISTOGRAM_H
#define HRI_OPS_COMMON_HISTOGRAM_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    HRI_HISTOGRAM_SIDE = 2048,  /* bins on each side of 0 */
    HRI_HISTOGRAM_EXPONENT = 0, /* e + 1024; 0: nothing was seen */
    HRI_HISTOGRAM_LEAST = 1,    /* bits of an f32, and 2^32; 0: nothing was seen */
    HRI_HISTOGRAM_GREATEST = 2,
    HRI_HISTOGRAM_BINS = 8, /* the first; number i is [i - SIDE, i - SIDE + 1) 2^e / SIDE */
    HRI_HISTOGRAM_WORDS = HRI_HISTOGRAM_BINS + 2 * HRI_HISTOGRAM_SIDE,
    HRI_HISTOGRAM_SMALLEST = -100 /* of e */
};

static inline int64_t hri_histogram_word(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (int64_t)bits | INT64_C(1) << 32;
}
/* 0 where nothing was seen. */
static inline float hri_histogram_real(int64_t word) {
    const uint32_t bits = (uint32_t)word;
    float x = 0.0f;
    if (word >> 32) {
        memcpy(&x, &bits, sizeof x);
    }
    return x;
}

/* The exponent for numbers up to `most`: 2^e is above it. */
static inline int hri_histogram_exponent(float most) {
    int e;
    frexpf(most, &e);
    return e > HRI_HISTOGRAM_SMALLEST ? e : HRI_HISTOGRAM_SMALLEST;
}

/* Makes room up to 2^e. */
static inline void hri_histogram_widen(int64_t *h, int e) {
    int64_t *bins = h + HRI_HISTOGRAM_BINS;
    const int64_t wanted = e + 1024, was = h[HRI_HISTOGRAM_EXPONENT];
    if (was == 0 || was >= wanted) {
        h[HRI_HISTOGRAM_EXPONENT] = was > wanted ? was : wanted;
        return;
    }
    const int64_t doublings = wanted - was < 12 ? wanted - was : 12; /* all are in two bins then */
    for (int64_t k = 0; k < doublings; k++) {
        const int half = HRI_HISTOGRAM_SIDE / 2;
        for (int i = half - 1; i >= 0; i--) { /* above 0: towards it */
            int64_t *to = bins + HRI_HISTOGRAM_SIDE;
            to[half - 1 - i] = to[2 * (half - 1 - i)] + to[2 * (half - 1 - i) + 1];
        }
        for (int i = 0; i < half; i++) { /* below 0 */
            int64_t *to = bins + HRI_HISTOGRAM_SIDE - 1;
            to[-i] = to[-2 * i] + to[-2 * i - 1];
        }
        memset(bins, 0, (size_t)half * sizeof *bins);
        memset(bins + HRI_HISTOGRAM_SIDE + half, 0, (size_t)half * sizeof *bins);
    }
    h[HRI_HISTOGRAM_EXPONENT] = wanted;
}

#endif
