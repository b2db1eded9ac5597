/* Sums of squares over the chunks of square_sum, which are those in which tensors are cut between ranks. */
#ifndef HRI_OPS_COMMON_SQUARES_H
#define HRI_OPS_COMMON_SQUARES_H

#include <stdint.h>

#include "graph/slices.h"

/* Of one chunk, or less at the end of a tensor. */
static inline double hri_squares_f32(const float *x, uint64_t n) {
    double s[4] = {0};
    uint64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        for (int k = 0; k < 4; k++) {
            s[k] += (double)x[i + (uint64_t)k] * (double)x[i + (uint64_t)k];
        }
    }
    for (; i < n; i++) {
        s[0] += (double)x[i] * (double)x[i];
    }
    return (s[0] + s[1]) + (s[2] + s[3]);
}

#endif
