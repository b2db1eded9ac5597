/* From a histogram (ops/common/histogram.h) to the range that bytes stand for.
 *
 *   minmax       the least and the greatest number
 *   percentile   all but one in 10,000 on each side
 *   entropy      the bounds with the least information lost to 128 levels (Kullback and Leibler)
 *   mse          the bounds with the least squared error
 *
 * Pure functions.  A range always has 0, so that padding and relu are exact. */
#ifndef HRI_PASSES_COMMON_THRESHOLD_H
#define HRI_PASSES_COMMON_THRESHOLD_H

#include <stdint.h>

typedef enum hri_threshold {
    HRI_THRESHOLD_MINMAX,
    HRI_THRESHOLD_PERCENTILE,
    HRI_THRESHOLD_ENTROPY,
    HRI_THRESHOLD_MSE
} hri_threshold;

extern const char *const hri_threshold_names[]; /* NULL at the end */

typedef struct hri_range {
    float low, high; /* low <= 0 <= high */
    float scale;     /* real = scale (byte - zero) */
    uint8_t zero;
} hri_range;

/* Of a histogram that saw nothing: scale 1. */
hri_range hri_range_of(const int64_t *histogram, hri_threshold method);
/* Scale and zero point for given bounds. */
hri_range hri_range_between(double low, double high);
/* Mean squared error of the numbers, each at the middle of its bin. */
double hri_range_error(const int64_t *histogram, const hri_range *range);

#endif
