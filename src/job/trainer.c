/* The doors of headroom/trainer.h: a plan that trains, as a whole or step by step. */
#include <headroom/trainer.h>

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "job/together.h"

struct hr_trainer {
    hr_plan *plan;
    hri_train_job *job;
};

hri_train_job *hri_trainer_job(const hr_trainer *t) {
    return t->job;
}

/* ---- starting ---- */

static hr_status start(hr_plan *p, hri_why *why) {
    if (p->used) {
        return hri_why_set(why, HR_CAUSE_USAGE, HR_E_BUSY, "the plan was already used");
    }
    if (!p->together) {
        return hri_why_set(why, HR_CAUSE_USAGE, HR_E_NOT_FOUND, "the plan has no data to train on");
    }
    if (!hri_together_fits(p->together)) {
        return hri_why_set(why, HR_CAUSE_NO_FIT, HR_E_NO_PLAN, "%s does not fit its budget",
                           p->together->jobs[p->together->which].plan->what);
    }
    const hr_status status = hri_together_lease(p->together, why);
    if (status != HR_OK) {
        return status;
    }
    p->used = true;
    hri_plan_forget_times(p);
    return hri_together_start(p->together, why);
}

static hr_status open_door(hr_plan *p, size_t job, hr_trainer **out, hri_why *why) {
    if (p->together && job >= p->together->count) {
        return hri_why_set(why, HR_CAUSE_USAGE, HR_E_NOT_FOUND, "the plan has no job %zu", job);
    }
    if (p->together && p->together->jobs[job].door) {
        return hri_why_set(why, HR_CAUSE_USAGE, HR_E_BUSY, "the job already has a trainer");
    }
    hr_trainer *t = hri_calloc(1, sizeof *t);
    if (!t) {
        return hri_why_set(why, HR_CAUSE_MACHINE, HR_E_NOMEM_HOST, "out of memory for the trainer");
    }
    *t = (hr_trainer){.plan = p, .job = p->together ? &p->together->jobs[job] : NULL};
    if (t->job) {
        t->job->door = t;
    }
    const hr_status status = p->together && p->together->started ? HR_OK : start(p, why);
    if (status != HR_OK) {
        hr_trainer_close(t);
        return status;
    }
    *out = t;
    return HR_OK;
}

hr_status hr_trainer_open(hr_plan *plan, size_t job, hr_trainer **out, hr_error *error) {
    hri_why why = {0};
    const hr_status status = open_door(plan, job, out, &why);
    if (status != HR_OK) {
        hri_why_give(&why, status, error);
    }
    return status;
}

void hr_trainer_close(hr_trainer *t) {
    if (t && t->job) {
        hri_train_record_end(t->job);
        t->job->door = NULL;
    }
    hri_free(t);
}

/* ---- steps ---- */

/* What a failure while training means.  HR_E_RANGE: a loss that is not a number. */
static hr_cause cause_of(const hri_train_job *j, hr_status status) {
    const hr_cause cause = hri_cause_of_input(status);
    const int data = cause == HR_CAUSE_USAGE || cause == HR_CAUSE_DATA;
    const int alone =
        hri_trainer_over(j->trainer) == HRI_TRAINER_FAILED && !hri_trainer_save_failed(j->trainer);
    return status == HR_E_RANGE               ? HR_CAUSE_TRAINING
           : data && alone                    ? HR_CAUSE_DATA
           : data || cause == HR_CAUSE_NO_FIT ? HR_CAUSE_MACHINE
                                              : cause;
}

static hr_status fail(hri_train_job *j, hr_status status, const hri_prose *prose, hri_why *why) {
    hri_train_tell_ranks(j, status, prose->text[0] ? prose->text : hr_status_text(status));
    (void)hri_why_set(why, cause_of(j, status), status, "%s%s%s", j->name, *j->name ? ": " : "",
                      prose->text[0] ? prose->text : hr_status_text(status));
    hri_train_record_end(j);
    return status;
}

static hr_status finish(hri_train_job *j, hri_why *why) {
    hri_prose prose = {""};
    const hr_status status = hri_trainer_stop(j->trainer, &prose);
    if (status != HR_OK) {
        return fail(j, status, &prose, why);
    }
    hri_train_record_end(j);
    return HR_OK;
}

/* What the listener said in the meantime. */
static hr_status listen(hri_train_job *j, hri_why *why) {
    const hr_status said = j->answered;
    if (said == HR_OK) {
        return HR_OK;
    }
    if (said != HR_E_CANCELLED) { /* it has failed itself: nothing is saved */
        hri_train_tell_ranks(j, said, hr_status_text(said));
        hri_train_record_end(j);
        return hri_why_set(why, hri_cause_of(said), said, "the listener failed: %s",
                           hr_status_text(said));
    }
    const hr_status status =
        hri_trainer_over(j->trainer) == HRI_TRAINER_RUNS ? finish(j, why) : HR_OK;
    return status != HR_OK
               ? status
               : hri_why_set(why, HR_CAUSE_CANCELLED, HR_E_CANCELLED, "stopped after step %llu",
                             (unsigned long long)hri_trainer_progress(j->trainer)->state.step);
}

static hr_status advance(hri_train_job *j, hri_why *why) {
    hri_prose prose = {""};
    if (hri_trainer_over(j->trainer) != HRI_TRAINER_RUNS) {
        return hri_why_set(why, HR_CAUSE_USAGE, HR_E_BUSY, "training has finished");
    }
    int stop = 0; /* all ranks stop behind the same step */
    hr_status status = hri_planned_vote(j->planned, j->answered == HR_E_CANCELLED, &stop, &prose);
    if (status != HR_OK) {
        return fail(j, status, &prose, why);
    }
    j->answered = stop && j->answered == HR_OK ? HR_E_CANCELLED : j->answered;
    if (!j->net || stop || (j->answered != HR_OK && j->answered != HR_E_CANCELLED)) {
        status = listen(j, why);
    }
    if (status != HR_OK) {
        return status;
    }
    status = hri_trainer_step(j->trainer, &prose);
    if (status != HR_OK && status == j->answered) {
        return listen(j, why); /* in the middle of the step */
    }
    if (status != HR_OK) {
        return fail(j, status, &prose, why);
    }
    status = j->net ? HR_OK : listen(j, why); /* with others it is asked before the next step */
    if (hri_trainer_over(j->trainer) != HRI_TRAINER_RUNS) {
        hri_train_record_end(j);
    }
    return status;
}

static hr_status give(hri_why *why, hr_status status, hr_error *error) {
    if (status != HR_OK) {
        hri_why_give(why, status, error);
    }
    return status;
}

hr_status hr_trainer_advance(hr_trainer *t, hr_error *error) {
    hri_why why = {0};
    return give(&why, advance(t->job, &why), error);
}

hr_status hr_trainer_finish(hr_trainer *t, hr_error *error) {
    hri_why why = {0};
    const int over = hri_trainer_over(t->job->trainer) != HRI_TRAINER_RUNS;
    return give(&why, over ? HR_OK : finish(t->job, &why), error);
}

static hr_end end_of(const hri_train_job *j) {
    switch (hri_trainer_over(j->trainer)) {
    case HRI_TRAINER_RUNS:
        return HR_END_RUNNING;
    case HRI_TRAINER_DONE:
        return HR_END_DONE;
    case HRI_TRAINER_EARLY:
        return HR_END_EARLY;
    case HRI_TRAINER_INTERRUPTED:
        return HR_END_CANCELLED;
    default:
        return HR_END_FAILED;
    }
}

hr_end hr_trainer_end(const hr_trainer *t) {
    return end_of(t->job);
}

/* One step of each that is not over yet, by turns. */
static hr_status train(hri_together *t, hri_why *why) {
    hr_status status = HR_OK;
    uint32_t which = 0;
    for (int running = 1; running && status == HR_OK;) {
        running = 0;
        for (uint32_t i = 0; i < t->count && status == HR_OK; i++) {
            hri_train_job *j = &t->jobs[i];
            if (end_of(j) == HR_END_RUNNING) {
                which = i;
                status = advance(j, why);
                running = running || end_of(j) == HR_END_RUNNING;
            }
        }
    }
    for (uint32_t i = 0; i < t->count && status != HR_OK; i++) { /* the other one is saved */
        hri_why second = {0};
        if (i != which && end_of(&t->jobs[i]) == HR_END_RUNNING &&
            finish(&t->jobs[i], &second) != HR_OK) {
            hri_listener_warn(&t->jobs[i].listener, NULL, "%s", second.prose.text);
        }
    }
    return status;
}

hr_status hr_job_train(hr_plan *plan, hr_error *error) {
    hri_why why = {0};
    hr_trainer *doors[HRI_TOGETHER_MAX] = {0};
    const uint32_t count = plan->together ? plan->together->count : 1;
    hr_status status =
        plan->used ? hri_why_set(&why, HR_CAUSE_USAGE, HR_E_BUSY, "the plan was already used")
                   : HR_OK;
    for (uint32_t i = 0; i < count && status == HR_OK; i++) {
        status = open_door(plan, i, &doors[i], &why);
    }
    if (status == HR_OK) {
        status = train(plan->together, &why);
    }
    for (uint32_t i = 0; i < count; i++) {
        hr_trainer_close(doors[i]);
    }
    return give(&why, status, error);
}

/* ---- your own loop ---- */

hr_status hr_trainer_step(hr_trainer *t, const hr_field *fields, size_t count, hr_numbers *out,
                          hr_error *error) {
    hri_why why = {0};
    hri_prose prose = {""};
    hri_record_step s = {0};
    hri_train_job *j = t->job;
    hr_status status = hri_fields_check(fields, count, &j->want, (uint64_t)j->batch, &prose);
    if (status != HR_OK) {
        return give(&why, hri_why_prose(&why, HR_CAUSE_USAGE, status, NULL, &prose), error);
    }
    j->feeds.fields = fields;
    j->feeds.field_count = count;
    j->feeds.want = &j->want;
    status = hri_trainer_update(j->trainer, &s, &prose);
    j->feeds.fields = NULL;
    if (status != HR_OK) {
        return give(&why, fail(j, status, &prose, &why), error);
    }
    status = listen(j, &why);
    if (status == HR_OK && out) {
        const hr_numbers n = hri_train_numbers(j, &s);
        status = hri_give(out, &n, sizeof n);
    }
    return give(&why, status, error);
}

hr_status hr_trainer_validate(hr_trainer *t, hr_numbers *out, hr_error *error) {
    hri_why why = {0};
    hri_prose prose = {""};
    hri_record_validation v = {0};
    hri_train_job *j = t->job;
    if (!j->validation) {
        return give(
            &why,
            hri_why_set(&why, HR_CAUSE_USAGE, HR_E_NOT_FOUND, "the job has no validation data"),
            error);
    }
    hr_status status = hri_trainer_validate(j->trainer, &v, &prose);
    if (status != HR_OK) {
        return give(&why, fail(j, status, &prose, &why), error);
    }
    const hr_numbers n = {.size = sizeof n,
                          .step = v.step,
                          .epoch = v.epoch,
                          .samples = v.samples,
                          .loss = v.loss,
                          .accuracy = v.accuracy,
                          .top5 = v.top5,
                          .learning_rate = NAN,
                          .gradient_norm = NAN,
                          .seconds = v.seconds,
                          .wait_seconds = NAN,
                          .samples_per_second = NAN,
                          .memory_bytes = HR_UNKNOWN,
                          .peak_bytes = HR_UNKNOWN,
                          .best = v.best};
    return out ? hri_give(out, &n, sizeof n) : HR_OK;
}

hr_status hr_trainer_save(hr_trainer *t, const char *path, hr_error *error) {
    hri_why why = {0};
    hri_prose prose = {""};
    const hr_status status = hri_trainer_save(t->job->trainer, path, &prose);
    return give(&why,
                status == HR_OK ? HR_OK
                                : hri_why_prose(&why, hri_cause_of(status), status, NULL, &prose),
                error);
}

/* ---- results ---- */

static double seconds(uint64_t ns) {
    return (double)ns / 1e9;
}

hr_status hr_job_get_result(const hr_plan *plan, size_t job, hr_train_result *out) {
    const hri_train_job *j =
        plan->together && job < plan->together->count ? &plan->together->jobs[job] : NULL;
    if (!j || !j->trainer) {
        return HR_E_NOT_FOUND;
    }
    const hri_progress_state *p = hri_trainer_progress(j->trainer);
    hri_trainer_sums sums;
    hri_measured m;
    uint64_t saved_step = 0;
    hri_trainer_get_sums(j->trainer, &sums);
    hri_planned_measure(j->planned, &m);
    const char *saved = hri_trainer_saved(j->trainer, &saved_step);
    const int validated = sums.validation.epoch != 0;
    hr_train_result r = {
        .size = sizeof r,
        .end = end_of(j),
        .over_budget = hri_train_over_budget(j, &m),
        .steps = p->state.step,
        .epochs = p->epoch,
        .skipped_steps = p->state.skipped,
        .bad_samples = hri_train_bad_samples(j),
        .last_loss = sums.steps ? (double)sums.loss : NAN,
        .val_loss = validated ? sums.validation.loss : NAN,
        .val_accuracy = validated ? sums.validation.accuracy : NAN,
        .val_top5 = validated ? sums.validation.top5 : NAN,
        .val_samples = validated ? sums.validation.samples : 0,
        .best = p->best,
        .best_epoch = p->best_epoch,
        .history = p->digest,
        .batch = j->batch,
        .micro_batches = j->row.micro_batches,
        .recomputed_ops = j->row.recomputed_ops,
        .budget_bytes = j->plan->budget_bytes ? j->plan->budget_bytes : HR_UNKNOWN,
        .planned_peak_bytes = j->row.peak_bytes,
        .measured_peak_bytes = m.peak_bytes,
        .planned_arena_bytes = m.planned_bytes,
        .measured_arena_bytes = m.arena_bytes,
        .pipeline_bytes = j->plan->data_bytes,
        .samples_per_second = sums.step_ns ? (double)sums.samples / seconds(sums.step_ns) : 0.0,
        .seconds = seconds(sums.all_ns),
        .wait_seconds = seconds(sums.wait_ns),
        .validation_seconds = seconds(sums.validate_ns),
        .save_seconds = seconds(sums.save_ns),
        .model = j->about.model,
        .data = j->source.text,
        .device = j->plan->device_name,
        .precision = j->about.precision,
        .checkpoint = *saved ? saved : NULL,
        .checkpoint_step = saved_step,
        .left_over_samples = hri_train_left_over(j),
        .host_peak_bytes = j->row.host_peak_bytes,
        .host_budget_bytes = j->plan->host_budget_bytes ? j->plan->host_budget_bytes : HR_UNKNOWN,
        .offloaded_bytes = j->row.offloaded_bytes,
        .weights = j->ended && end_of(j) != HR_END_FAILED ? j->digest : HR_UNKNOWN};
    hri_train_final_numbers(&sums, &r.loss, &r.accuracy);
    hri_net_stats net = {0};
    if (j->net) {
        hri_net_get_stats(j->net, &net);
    }
    r.slowest_rank = j->net ? net.slowest : HR_UNKNOWN;
    r.slowest_seconds = j->net ? seconds(net.slowest_ns) : NAN;
    r.train_loss = sums.epoch.epoch ? sums.epoch.loss : r.loss;
    return hri_give(out, &r, sizeof r);
}
