/* See find_rate.h. */
#include "job/find_rate.h"

#include <headroom/trainer.h>

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/number.h"

static const double keeps = 0.98, too_high = 4.0;

void hri_found_rate_deinit(hri_found_rate *f) {
    hri_free(f->rates);
    hri_free(f->losses);
    hri_free(f->smooth);
    *f = (hri_found_rate){.rate = NAN, .lowest_rate = NAN, .lowest = NAN};
}

void hri_found_rate_judge(hri_found_rate *f) {
    double sum = 0, weight = 1;
    size_t least = 0;
    for (size_t i = 0; i < f->count; i++) {
        sum = keeps * sum + (1 - keeps) * f->losses[i];
        weight *= keeps;
        f->smooth[i] = sum / (1 - weight);
        least = f->smooth[i] < f->smooth[least] ? i : least;
    }
    double steepest = 0;
    f->rate = f->lowest_rate = f->lowest = NAN;
    if (f->count) {
        f->lowest_rate = f->rates[least];
        f->lowest = f->smooth[least];
    }
    const size_t first = f->count / 10 ? f->count / 10 : 1;       /* an average of a few is none */
    for (size_t i = first; i <= least && i + 1 < f->count; i++) { /* a tangent between neighbours */
        const double slope =
            (f->smooth[i + 1] - f->smooth[i - 1]) / (log(f->rates[i + 1]) - log(f->rates[i - 1]));
        if (slope < steepest) {
            steepest = slope;
            f->rate = f->rates[i];
        }
    }
}

static hr_status reserve(hri_found_rate *f, size_t steps) {
    *f = (hri_found_rate){.rates = hri_calloc(steps, sizeof(double)),
                          .losses = hri_calloc(steps, sizeof(double)),
                          .smooth = hri_calloc(steps, sizeof(double))};
    return f->rates && f->losses && f->smooth ? HR_OK : HR_E_NOMEM_HOST;
}

/* Is the average of what was seen far above its least?  Not before a tenth of the steps. */
static int is_over(hri_found_rate *f, size_t steps) {
    hri_found_rate_judge(f);
    return f->count > steps / 10 && f->smooth[f->count - 1] > too_high * f->lowest;
}

static hr_status climb(hr_plan *plan, double low, double high, size_t steps, hri_found_rate *f,
                       hr_error *why) {
    hr_trainer *t = NULL;
    hr_status status = hr_trainer_open(plan, 0, &t, why);
    for (size_t i = 0; i < steps && status == HR_OK && !f->diverged; i++) {
        hr_train_result r = {.size = sizeof r};
        const double rate = low * pow(high / low, (double)i / (double)(steps - 1));
        status = hr_trainer_set_learning_rate(t, rate);
        status = status == HR_OK ? hr_trainer_advance(t, why) : status;
        if (status == HR_E_RANGE && f->count > 1) { /* a loss that is not finite */
            f->diverged = 1;
            status = HR_OK;
            break;
        }
        status = status == HR_OK ? hr_job_get_result(plan, 0, &r) : status;
        if (status == HR_OK) {
            f->rates[f->count] = rate;
            f->losses[f->count++] = r.last_loss;
            f->diverged = is_over(f, steps);
        }
    }
    hr_trainer_close(t);
    hri_found_rate_judge(f);
    return status;
}

hr_status hri_job_find_rate(hr_ctx *ctx, const hr_job_options *given, double low, double high,
                            hri_found_rate *out, hr_error *why) {
    hr_plan *plan = NULL;
    hri_found_rate f = {0};
    hr_job_options o = *given;
    o.steps = o.steps > 1 ? o.steps : HRI_FIND_RATE_STEPS;
    o.epochs = 0;
    o.folder = NULL;
    o.start = HR_START_NEW;
    o.val_data = NULL;
    o.val_split = 0;
    *out = (hri_found_rate){.rate = NAN, .lowest_rate = NAN, .lowest = NAN};
    low = isnan(low) ? 1e-7 : low;
    high = isnan(high) ? 10 : high;
    if (!o.data || !(low > 0) || !(high > low) || !(high <= 1e6)) {
        *why = (hr_error){.code = HR_E_INVALID, .cause = HR_CAUSE_USAGE};
        snprintf(why->message, sizeof why->message,
                 "find-rate: --data is required, for example --data images:DIR");
        if (o.data) {
            hri_snprintf(why->message, sizeof why->message,
                         "find-rate: the learning rates must rise from above 0 to at most 1e6, not "
                         "from %g to %g",
                         low, high);
        }
        return HR_E_INVALID;
    }
    hr_status status = reserve(&f, (size_t)o.steps);
    status = status == HR_OK ? hr_job_plan(ctx, &o, &plan, why) : status;
    status = status == HR_OK ? climb(plan, low, high, (size_t)o.steps, &f, why) : status;
    hr_plan_destroy(plan);
    if (status != HR_OK) {
        if (why->code == HR_OK) {
            *why = (hr_error){.code = status};
            snprintf(why->message, sizeof why->message, "find-rate: %s", hr_status_text(status));
        }
        hri_found_rate_deinit(&f);
        return status;
    }
    *out = f;
    return HR_OK;
}
