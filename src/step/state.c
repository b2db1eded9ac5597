/* What the host counts from step to step: updates done, and the loss scale of f16.
 *
 * The scale is as large as gradients allow: it doubles after 2,000 steps without a skip and halves with every one.
 * In bf16 and f32 it stays 1. */
#include <headroom/train.h>

#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "step/options.h"

enum { GOOD_STEPS = 2000 };

void hr_step_state_init(const hr_train_options *o, hr_step_state *out) {
    *out = (hr_step_state){
        .scale = hri_train_options_known(o).precision == HR_PRECISION_F16 ? 0x1p15 : 1.0};
}

double hri_step_plateau(const hr_step_state *s) {
    double factor;
    memcpy(&factor, &s->reserved[0], sizeof factor);
    return factor > 0 ? factor : 1.0;
}

void hri_step_set_plateau(hr_step_state *s, double factor) {
    memcpy(&s->reserved[0], &factor, sizeof factor);
}

hr_step_feed hr_step_next(const hr_train_options *o, const hr_step_state *s) {
    return (hr_step_feed){
        .rate = (float)(hr_train_rate(o, s->step) * hri_step_plateau(s)),
        .update = (float)(s->updates + 1),
        .scale = (float)s->scale,
    };
}

int hr_step_done(const hr_train_options *o, hr_step_state *s, float factor, hr_log_fn *log,
                 void *log_user) {
    const int f16 = hri_train_options_known(o).precision == HR_PRECISION_F16;
    const double before = s->scale, most = 0x1p24;
    const int skipped = factor == 0.0f;
    s->step++;
    if (!skipped) {
        s->updates++;
        s->good++;
        if (f16 && s->good >= GOOD_STEPS) {
            s->scale = s->scale * 2 < most ? s->scale * 2 : most;
            s->good = 0;
        }
        return 0;
    }
    s->skipped++;
    s->good = 0;
    if (f16) {
        s->scale = s->scale / 2 > 1.0 ? s->scale / 2 : 1.0;
    }
    if (log) {
        char line[160];
        const int n = snprintf(line, sizeof line, "step %llu skipped: non-finite gradients",
                               (unsigned long long)(s->step - 1));
        if (f16 && n > 0) {
            hri_snprintf(line + n, sizeof line - (size_t)n, "; loss scale reduced from %g to %g",
                         before, s->scale);
        }
        log(log_user, HR_LOG_WARN, line);
    }
    return 1;
}
