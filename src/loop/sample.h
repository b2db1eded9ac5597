/* Choosing the next token from scores.
 *
 * Temperature 0 takes the largest score, the first of equal ones.  Otherwise scores are divided by the temperature and made
 * probabilities; of these the top_k largest are kept, then the fewest whose sum reaches top_p, and one is drawn.  The draw is a
 * function of (seed, index): the same text for the same seed, on every machine that computes the same scores. */
#ifndef HRI_LOOP_SAMPLE_H
#define HRI_LOOP_SAMPLE_H

#include <stdint.h>
#include <headroom/status.h>

typedef struct hri_sampling {
    double temperature; /* 0: the most likely token */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 0 or 1: all */
    uint64_t seed;
} hri_sampling;

typedef struct hri_sampler hri_sampler;

HR_MUST_CHECK hr_status hri_sampler_open(const hri_sampling *how, int64_t vocab, hri_sampler **out);
/* NULL is allowed. */
void hri_sampler_close(hri_sampler *s);
/* The token after `index` others; -1: the scores are not numbers. */
int32_t hri_sampler_pick(hri_sampler *s, const float *scores, uint64_t index);

#endif
