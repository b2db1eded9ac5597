/* The learning-rate range test: a short training whose rate rises by the same factor in each step (Smith 2015).
 *
 * Losses are averaged as they come (98 % of the average stays, without the bias of its beginning).  The test ends after its
 * steps, when the average is above four times its least, or when a loss is not finite.  The rate to begin with is where the
 * average falls fastest over the logarithm of the rate, before its least.  Nothing is saved. */
#ifndef HRI_JOB_FIND_RATE_H
#define HRI_JOB_FIND_RATE_H

#include <headroom/job.h>

typedef struct hri_found_rate {
    double *rates, *losses, *smooth; /* count of them */
    size_t count;
    double rate;        /* to begin with; NAN: the loss did not fall */
    double lowest_rate; /* where the average is least */
    double lowest;
    int diverged; /* it ended before its steps */
} hri_found_rate;

enum { HRI_FIND_RATE_STEPS = 100 };

/* From `low` (NAN: 1e-7) to `high` (NAN: 10) in o->steps steps; 0: HRI_FIND_RATE_STEPS.  HR_E_NO_PLAN: it does not fit, and *why says what does.
 * HR_E_INVALID for rates that make no range.  *out is empty on failure. */
HR_MUST_CHECK hr_status hri_job_find_rate(hr_ctx *ctx, const hr_job_options *o, double low,
                                          double high, hri_found_rate *out, hr_error *why);
void hri_found_rate_deinit(hri_found_rate *f);
/* The average so far and the suggestion, from rates and losses. */
void hri_found_rate_judge(hri_found_rate *f);

#endif
