/* How much at a time and for how long: the batch where none is given, steps, the options that depend on them; see train.h. */
#include <string.h>

#include "base/prose.h"
#include "job/change.h"
#include "job/train.h"
#include "passes/common/prune.h"
#include "passes/common/qat.h"
#include "step/options.h"

enum {
    AUTO_STEPS = 16, /* an epoch that is much shorter learns little from each sample */
    AUTO_LEAST = 8,  /* where there are few samples */
    AUTO_TRIES = 4,
    AUTO_LOOK = 32
};

/* Nanoseconds a sample of a step with this batch; 0: it does not fit. */
static hr_status time_of_batch(const hri_fit_job *job, uint64_t budget, int64_t batch, double *each,
                               hri_prose *why) {
    hri_fit fit = {0};
    hri_fit_plans plans = {0};
    hri_fit_job one = *job;
    one.batch = batch;
    if (one.machine.threads) { /* one machine stands for all: the choice is no matter of threads */
        one.machine.threads = 1;
        one.machine.flops_per_ns = 30;
    }
    *each = 0;
    hr_status status = hri_fit_open(&one, &fit, why);
    if (status == HR_OK && !fit.too_large) {
        status = hri_fit_search(&fit, budget, AUTO_LOOK, &plans, why);
        *each = status == HR_OK ? plans.time_ns / (double)batch : 0;
    }
    hri_fit_plans_deinit(&plans);
    hri_fit_close(&fit);
    return status == HR_E_NO_PLAN ? HR_OK : status;
}

/* The fastest of `most` and its halves, as the planner predicts it without looking at a clock. */
static hr_status fastest_batch(const hri_fit_job *job, uint64_t budget, int64_t most, int64_t *out,
                               hri_prose *why) {
    double best = 0;
    hr_status status = HR_OK;
    *out = most;
    for (int i = 0; i < AUTO_TRIES && most >= 1 && status == HR_OK; i++, most /= 2) {
        double each = 0;
        status = time_of_batch(job, budget, most, &each, why);
        if (status == HR_OK && each > 0 && (best <= 0 || each <= best)) {
            best = each;
            *out = most;
        }
    }
    return status;
}

hr_status hri_train_find_batch(hri_train_job *j, int64_t *out) {
    hri_prose why = {""};
    hri_fit_job job = j->plan->job;
    int64_t most = 0;
    if (j->plan->threads) {
        job.runtime_bytes += j->train_bytes + j->val_bytes + hri_train_own_bytes(j);
    }
    hr_status status = hri_fit_largest(&job, j->plan->budget_bytes, &most, &why);
    if (status == HR_OK && j->train_count != HR_COUNT_UNKNOWN) {
        const uint64_t few = j->train_count < AUTO_LEAST ? j->train_count : AUTO_LEAST;
        const uint64_t by_steps = j->train_count / AUTO_STEPS;
        const int64_t cap = (int64_t)(by_steps > few ? by_steps : few);
        most = most > cap ? cap : most;
    }
    *out = most < 1 ? 1 : most; /* below one, the refusal that follows has the numbers */
    if (status == HR_OK && most > 1) {
        status = fastest_batch(&job, j->plan->budget_bytes, most, out, &why);
    }
    j->batch_chosen = true;
    return status == HR_OK ? HR_OK : hri_train_failed(j, status, &why);
}

/* ---- steps ---- */

/* Does a text of options of training set this key? */
static int says(const char *text, const char *key) {
    const size_t length = strlen(key);
    while (*text) {
        size_t n = 0;
        while (text[n] && text[n] != ',') {
            n += text[n] == '\\' && text[n + 1] ? 2 : 1;
        }
        if (n > length && !strncmp(text, key, length) && text[length] == '=') {
            return 1;
        }
        text += n + (text[n] == ',');
    }
    return 0;
}

static int has_end(const char *training) {
    hr_train_options o = {.size = sizeof o};
    hri_text text = {0};
    hri_text_add(&text, "%s%ssteps=%lld", training, *training ? "," : "", 1LL << 40);
    const int found = hri_text_status(&text) == HR_OK &&
                      hr_train_options_parse(hri_text_get(&text), &o, NULL) == HR_OK &&
                      hri_train_has_end(&o);
    hri_text_deinit(&text);
    return found;
}

hr_status hri_train_options_text(const hr_job_options *o, uint64_t steps, hri_text *out) {
    const char *given = o->training ? o->training : "";
    hri_text_add(out, "%s", given);
    if (!says(given, "steps") && has_end(given)) {
        hri_text_add(out, "%ssteps=%llu", *given ? "," : "", (unsigned long long)steps);
    }
    return hri_text_status(out);
}

hr_status hri_train_set_length(hri_train_job *j) {
    const hr_job_options *o = &j->o;
    if (j->train_count != HR_COUNT_UNKNOWN) {
        if ((uint64_t)j->batch > j->train_count) {
            return hri_why_set(&j->why, HR_CAUSE_USAGE, HR_E_INVALID,
                               "a batch of %lld is larger than the data set (%llu sample%s in "
                               "%s); use `batch=%llu` or less%s",
                               (long long)j->batch, (unsigned long long)j->train_count,
                               hri_plural(j->train_count), j->source.text,
                               (unsigned long long)(j->train_count / (uint64_t)o->accumulate),
                               o->accumulate > 1 ? " with this `accumulate`" : "");
        }
        j->steps_per_epoch = j->train_count / (uint64_t)j->batch;
    }
    j->epochs = o->epochs;
    j->steps = o->steps;
    if (!j->epochs && !j->steps) {
        j->epochs = 10;
    }
    const uint64_t by_epochs = j->epochs * j->steps_per_epoch;
    j->total_steps = !by_epochs || (j->steps && j->steps < by_epochs) ? j->steps : by_epochs;
    if (!j->total_steps && !says(o->training, "steps") && has_end(o->training)) {
        return hri_why_option(&j->why, HR_E_INVALID, "schedule",
                              " cannot end without the number of steps; add `steps=N`");
    }
    return HR_OK;
}

hr_status hri_train_set_options(hri_train_job *j) {
    hr_error error = {0};
    hri_text_clear(&j->options);
    hr_status status = hri_train_options_text(&j->o, j->total_steps, &j->options);
    j->ask.training = j->plan->o.training = hri_text_get(&j->options);
    if (status == HR_OK) {
        j->plan->job.options.size = sizeof j->plan->job.options;
        status = hr_train_options_parse(j->ask.training, &j->plan->job.options, &error);
    }
    if (status != HR_OK) {
        return hri_why_error(&j->why, hri_cause_of(status), status, NULL, &error);
    }
    j->plan->job.options.ignored = !j->all_labels_count;
    return HR_OK;
}

/* Options whose numbers the run is too short for. */
void hri_train_warn_of_length(const hri_train_job *j) {
    hr_train_options t = {.size = sizeof t};
    hri_text text = {0};
    const unsigned long long total = j->total_steps;
    const int read = hri_train_options_text(&j->o, j->total_steps, &text) == HR_OK &&
                     hr_train_options_parse(hri_text_get(&text), &t, NULL) == HR_OK;
    hri_text_deinit(&text);
    if (total && read && t.warmup > 0 && (uint64_t)t.warmup >= total) {
        hri_listener_warn(&j->listener, "warmup",
                          " %lld: the run has %llu steps and never reaches its learning rate",
                          (long long)t.warmup, total);
    }
    if (total && read && t.schedule == HR_SCHEDULE_STEP && t.every > 0 &&
        (uint64_t)t.every >= total) {
        hri_listener_warn(&j->listener, "every", " %lld has no effect: the run has %llu steps",
                          (long long)t.every, total);
    }
    const hri_prune *prune = hri_passes_find(&j->plan->passes, "prune");
    if (total && prune && prune->end >= (int64_t)total) {
        hri_listener_warn(
            &j->listener, "prune",
            ": the run of %llu steps ends before step %lld, when the masks have their "
            "final share of zeros",
            total, (long long)prune->end);
    }
    const hri_qat *qat = hri_passes_find(&j->plan->passes, "qat");
    if (total && qat && hri_qat_settled(qat) >= (int64_t)total) {
        hri_listener_warn(&j->listener, "qat",
                          ": the run of %llu steps ends before step %lld, from which on ranges and "
                          "batch norm statistics stand still",
                          total, (long long)hri_qat_settled(qat));
    }
    if (total && j->o.val_every > total) {
        hri_listener_warn(&j->listener, "val_every",
                          " %lld: the run has %llu steps, so it never validates",
                          (long long)j->o.val_every, total);
    }
}
