/* The range of an activation, learned while training with fake quantization: six numbers of a state.
 *
 *   0, 1   low and high: the moving average over the steps before the one that is said in 4 and 5; both 0: there is none
 *   2, 3   least and greatest number of that step, over all of its micro-batches
 *   4, 5   the step: its low 16 bits, and one more than the others; 5 is 0: nothing was seen yet
 *
 * What a step computes with is the average without its own numbers, which is known whether they were put in already or not:
 * parts of a batch, in any number and order, and what is recomputed see the same range.  The numbers of a step go into the
 * average when the next one is seen.  A range has 0. */
#ifndef HRI_OPS_COMMON_LEARNED_RANGE_H
#define HRI_OPS_COMMON_LEARNED_RANGE_H

#include <math.h>
#include <stdint.h>

enum { HRI_LEARNED_RANGE = 6 };

/* The step whose numbers are in 2 and 3; -1: none. */
static inline double hri_learned_step(const float *s) {
    return s[5] < 1.0f ? -1.0 : ((double)s[5] - 1.0) * 65536.0 + (double)s[4];
}

/* Products are rounded to f32 one by one, so that no machine fuses them. */
static inline float hri_learned_mean(float was, float now, double keep) {
    const float a = (float)((double)was * keep), b = (float)((double)now * (1.0 - keep));
    return a + b;
}

/* low and high as step `step` sees them; step -2: after all steps. */
static inline void hri_learned_bounds(const float *s, double step, double keep, float *bounds) {
    const double seen = hri_learned_step(s);
    const int none = s[0] == 0.0f && s[1] == 0.0f;
    for (int i = 0; i < 2; i++) {
        bounds[i] = seen == step || seen < 0.0 ? s[i]
                    : none                     ? s[i + 2]
                                               : hri_learned_mean(s[i], s[i + 2], keep);
    }
    bounds[0] = bounds[0] < 0.0f ? bounds[0] : 0.0f;
    bounds[1] = bounds[1] > 0.0f ? bounds[1] : 0.0f;
}

/* Scale, 0 where there is no range, and zero point; passes/common/threshold.c has the same. */
static inline void hri_learned_scale(const float *bounds, float *scale, float *zero) {
    const double width = (double)bounds[1] - (double)bounds[0];
    *scale = *zero = 0.0f;
    if (width >= 0x1p-120 && width <= 0x1p+127) {
        *scale = (float)(width / 255.0);
        const double at = rint(-(double)bounds[0] / (double)*scale);
        *zero = (float)(at < 255.0 ? at : 255.0);
    }
}

/* Puts the numbers of (a part of) a step in. */
static inline void hri_learned_move(float *s, const float *seen, uint32_t step, double keep) {
    const float least = seen[0] < 0.0f ? seen[0] : 0.0f, most = seen[1] > 0.0f ? seen[1] : 0.0f;
    if (!isfinite(least) || !isfinite(most)) {
        return;
    }
    if (hri_learned_step(s) == (double)step) {
        s[2] = least < s[2] ? least : s[2];
        s[3] = most > s[3] ? most : s[3];
        return;
    }
    float bounds[2];
    hri_learned_bounds(s, (double)step, keep, bounds);
    s[0] = bounds[0];
    s[1] = bounds[1];
    s[2] = least;
    s[3] = most;
    s[4] = (float)(step & 0xffffu);
    s[5] = (float)(step >> 16) + 1.0f;
}

#endif
