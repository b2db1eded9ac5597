/* Validation, and the model's own numbers; see trainer_parts.h. */
#include "loop/trainer_parts.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "step/options.h"

/* ---- the model's own numbers ---- */

void hri_trainer_add_means(const hri_trainer *t, hri_trainer_means *m, uint64_t counted) {
    double is;
    for (size_t i = 0; hri_planned_metric(t->o.planned, i, &is); i++) {
        m->sums[i] += is * (double)counted;
    }
    m->counted += counted;
}

hr_status hri_trainer_metric(const hri_trainer *t, const char *name, hri_trainer_span span,
                             double *out) {
    const hri_trainer_means *m = span == HRI_TRAINER_EPOCH ? &t->epoch_means : &t->validation_means;
    const char *is;
    double last = NAN;
    const hri_record_validation *v = &t->sums.validation;
    for (uint32_t i = 0; span == HRI_TRAINER_VALIDATION && i < v->metric_count; i++) {
        if (!strcmp(v->metrics[i].name, name)) {
            *out = v->metrics[i].value;
            return HR_OK;
        }
    }
    for (size_t i = 0; (is = hri_planned_metric(t->o.planned, i, &last)) != NULL; i++) {
        if (!strcmp(is, name)) {
            *out = span == HRI_TRAINER_STEP ? (t->sums.steps ? last : NAN)
                   : m->counted             ? m->sums[i] / (double)m->counted
                                            : NAN;
            return HR_OK;
        }
    }
    return HR_E_NOT_FOUND;
}

/* ---- validation ---- */

enum { PLATEAU_EVERY = 10 };

static double seconds(uint64_t ns) {
    return (double)ns / 1e9;
}

/* What was asked for beside loss and accuracy. */
static hr_status read_metrics(const hri_trainer *t, hri_record_validation *out, hri_prose *why) {
    const hri_wanted *w = t->o.scorer ? hri_scorer_wanted(t->o.scorer) : NULL;
    const hri_wanted_sums sums = {.loss = out->loss, .accuracy = out->accuracy};
    for (size_t i = 0; w && i < w->count; i++) {
        out->metrics[i].name = w->of[i].name;
        const hr_status status = hri_scorer_value(t->o.scorer, i, &sums, &out->metrics[i].value);
        if (status != HR_OK) {
            return hri_prose_set(why, status, "out of memory for metrics");
        }
        out->metric_count = (uint32_t)i + 1;
    }
    return HR_OK;
}

static hr_status run_validation(hri_trainer *t, hri_record_validation *out, hri_prose *why) {
    double loss = 0, right = 0, top = 0;
    uint64_t samples = 0, labels = 0;
    const uint64_t begin = hri_clock_ns();
    t->validation_means = (hri_trainer_means){.counted = 0};
    if (t->o.scorer) {
        hri_scorer_begin(t->o.scorer);
    }
    hr_status status = hri_supply_start(t->o.feeds->validation, 0, why);
    while (status == HR_OK) {
        hri_numbers n;
        status = samples && t->o.on_tick ? t->o.on_tick(t->o.user) : HR_OK;
        if (status == HR_OK) {
            status = hri_planned_evaluate(t->o.planned, &n, why);
        }
        if (status == HR_OK) {
            const double counted = (double)n.counted;
            loss += (double)n.loss * counted;
            right += (double)n.accuracy * counted;
            top += (double)n.top5 * counted;
            labels += n.counted;
            samples += t->o.feeds->fed;
            hri_trainer_add_means(t, &t->validation_means, n.counted);
        }
        if (status == HR_OK && t->o.scorer) {
            status = hri_scorer_add(t->o.scorer, t->o.planned, t->o.feeds->fed, why);
        }
    }
    if (status == HR_E_EOF && samples) {
        status = HR_OK;
    }
    if (status != HR_OK) {
        return status;
    }
    if (!labels) {
        hri_trainer_log(t, HR_LOG_WARN,
                        "all labels of the validation data are ignored: there is no "
                        "validation loss");
    }
    const uint64_t end = hri_clock_ns();
    t->sums.validate_ns += end - begin;
    *out = (hri_record_validation){.step = t->at.state.step,
                                   .epoch = t->at.epoch + 1,
                                   .samples = samples,
                                   .loss = loss / (double)labels,
                                   .accuracy = right / (double)labels,
                                   .top5 = top / (double)labels,
                                   .seconds = seconds(end - begin)};
    return read_metrics(t, out, why);
}

/* Schedule plateau: after every so many numbers that were not better. */
static void lower_rate(hri_trainer *t) {
    const hr_train_options *o = hri_planned_training(t->o.planned);
    const uint64_t every = o->every > 0 ? (uint64_t)o->every : PLATEAU_EVERY;
    if (o->schedule != HR_SCHEDULE_PLATEAU || t->at.bad_epochs % every) {
        return;
    }
    hr_step_state s = hri_planned_state(t->o.planned);
    hri_step_set_plateau(&s, fmax(hri_step_plateau(&s) * o->gamma, 1e-300)); /* 0 is 1 */
    hri_planned_resume(t->o.planned, &s);
    t->at.state = s;
}

/* Is this number the best so far?  Counts those that were not. */
int hri_trainer_judge(hri_trainer *t, double number) {
    if (hri_planned_state(t->o.planned).step < t->o.best_from) {
        return 0; /* nor does patience begin */
    }
    const int by_loss = !t->o.scorer || t->o.best_by == HRI_BEST_BY_LOSS;
    const int rises =
        !by_loss && hri_wanted_rises(&hri_scorer_wanted(t->o.scorer)->of[t->o.best_by]);
    const double than = t->at.best, by = t->o.min_delta;
    const int better = (isnan(than) && (by_loss || !isnan(number))) ||
                       (rises ? number > than + by : number < than - by);
    if (better) {
        t->at.best = number;
        t->at.best_epoch = t->at.epoch + 1;
        t->at.bad_epochs = 0;
    } else {
        t->at.bad_epochs++;
        lower_rate(t);
    }
    return better;
}

hr_status hri_trainer_do_validation(hri_trainer *t, hri_prose *why) {
    hri_record_validation v;
    const hr_status status = run_validation(t, &v, why);
    if (status != HR_OK) {
        return status;
    }
    const int by_loss = !t->o.scorer || t->o.best_by == HRI_BEST_BY_LOSS;
    v.best = hri_trainer_judge(t, by_loss ? v.loss : v.metrics[t->o.best_by].value);
    t->sums.validation = v;
    t->validated = 1;
    hri_record_validation_done(t->o.record, &v);
    if (t->o.on_validation) {
        t->o.on_validation(t->o.user, &v);
    }
    if (v.best) {
        t->sums.best = v;
        (void)hri_trainer_write(t, 1); /* a warning was given; the last checkpoint decides */
    }
    return HR_OK;
}

hr_status hri_trainer_validate(hri_trainer *t, hri_record_validation *out, hri_prose *why) {
    hr_status status =
        hri_planned_is_fed(t->o.planned)
            ? hri_prose_set(why, HR_E_BUSY, "the next batch is already on the device")
            : HR_OK;
    if (status == HR_OK) {
        status = hri_trainer_do_validation(t, why);
    }
    if (status == HR_OK) {
        *out = t->sums.validation;
    }
    return status;
}

hr_status hri_trainer_evaluate(hri_trainer *t, hri_numbers *out, hri_prose *why) {
    return hri_planned_is_fed(t->o.planned)
               ? hri_prose_set(why, HR_E_BUSY, "the next batch is on the device already")
               : hri_planned_evaluate(t->o.planned, out, why);
}
