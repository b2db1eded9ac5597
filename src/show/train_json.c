/* A training as JSON, and hr_job_print: how it ended, for whoever takes the text; see train.h. */
#include "show/train.h"

#include <headroom/trainer.h>
#include <stdio.h>

static const char *end_text(int32_t end) {
    return hri_train_reason(end == HR_END_DONE        ? HRI_TRAINER_DONE
                            : end == HR_END_EARLY     ? HRI_TRAINER_EARLY
                            : end == HR_END_CANCELLED ? HRI_TRAINER_INTERRUPTED
                                                      : HRI_TRAINER_FAILED);
}

static void put_known(hri_json *json, const char *key, uint64_t bytes) {
    if (bytes == HR_UNKNOWN) {
        hri_json_null(json, key);
    } else {
        hri_json_u64(json, key, bytes);
    }
}

static void put_numbers(hri_json *json, const hr_train_result *r) {
    char digest[24];
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)r->history);
    hri_json_u64(json, "steps", r->steps);
    hri_json_u64(json, "skipped_steps", r->skipped_steps);
    hri_json_u64(json, "epochs", r->epochs);
    hri_json_double(json, "loss", r->loss);
    hri_json_double(json, "accuracy", r->accuracy);
    hri_json_double(json, "train_loss", r->train_loss);
    hri_json_double(json, "last_loss", r->last_loss);
    if (r->val_samples) {
        hri_json_double(json, "val_loss", r->val_loss);
        hri_json_double(json, "val_accuracy", r->val_accuracy);
        hri_json_double(json, "val_top5", r->val_top5);
        hri_json_u64(json, "val_samples", r->val_samples);
    }
    hri_json_double(json, "best", r->best);
    hri_json_u64(json, "best_epoch", r->best_epoch);
    hri_json_string(json, "history", digest); /* of every loss: the same history, the same text */
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)r->weights);
    if (r->weights == HR_UNKNOWN) {
        hri_json_null(json, "weights");
    } else {
        hri_json_string(json, "weights", digest); /* of parameters and optimizer states */
    }
}

static void put_memory(hri_json *json, const hr_train_result *r) {
    put_known(json, "budget_bytes", r->budget_bytes);
    hri_json_u64(json, "planned_peak_bytes", r->planned_peak_bytes);
    hri_json_u64(json, "measured_peak_bytes", r->measured_peak_bytes);
    hri_json_u64(json, "planned_arena_bytes", r->planned_arena_bytes);
    hri_json_u64(json, "measured_arena_bytes", r->measured_arena_bytes);
    hri_json_u64(json, "data_bytes", r->pipeline_bytes);
    hri_json_u64(json, "host_peak_bytes", r->host_peak_bytes);
    put_known(json, "host_budget_bytes", r->host_budget_bytes);
    hri_json_u64(json, "offloaded_bytes", r->offloaded_bytes);
}

/* Of the last validation, and what the best goes by. */
static void put_metrics(hri_json *json, const hri_train_job *j) {
    hri_trainer_sums sums;
    if (!j->wanted.count) {
        return;
    }
    hri_trainer_get_sums(j->trainer, &sums);
    hri_json_string(json, "best_by",
                    j->best_by == HRI_BEST_BY_LOSS ? "loss" : j->wanted.of[j->best_by].name);
    hri_json_object(json, "val_metrics");
    for (uint32_t i = 0; i < sums.validation.metric_count; i++) {
        hri_json_double(json, sums.validation.metrics[i].name, sums.validation.metrics[i].value);
    }
    hri_json_end(json);
}

hr_status hri_train_show_json(const hr_plan *plan, size_t job, const hri_startup *startup,
                              hri_json *json) {
    hr_train_result own = {.size = sizeof own}, *r = &own;
    const hr_status status = hr_job_get_result(plan, job, r);
    if (status != HR_OK) {
        return status;
    }
    hri_json_string(json, "ended", end_text(r->end));
    hri_json_string(json, "model", r->model);
    hri_json_string(json, "data", r->data);
    hri_json_string(json, "device", r->device);
    hri_json_string(json, "precision", r->precision);
    hri_json_i64(json, "batch", r->batch);
    hri_json_u64(json, "micro_batches", r->micro_batches);
    const hri_plan_job *planned = plan->together->jobs[job].plan;
    if (planned->job.replicas > 1) {
        hri_json_u64(json, "replicas", planned->job.replicas);
        if (planned->job.shard != HRI_SHARD_NONE) {
            hri_json_string(json, "shard", hri_shard_names[planned->job.shard]);
        }
    }
    if (r->slowest_rank != HR_UNKNOWN) {
        hri_json_u64(json, "slowest_rank", r->slowest_rank);
        hri_json_double(json, "slowest_seconds", r->slowest_seconds);
    }
    hri_json_u64(json, "recomputed_ops", r->recomputed_ops);
    put_numbers(json, r);
    put_metrics(json, &plan->together->jobs[job]);
    put_memory(json, r);
    hri_json_double(json, "samples_per_second", r->samples_per_second);
    hri_json_double(json, "seconds", r->seconds);
    hri_json_double(json, "wait_seconds", r->wait_seconds);
    hri_json_double(json, "validation_seconds", r->validation_seconds);
    hri_json_double(json, "save_seconds", r->save_seconds);
    if (startup) {
        hri_startup_json(startup, json);
    }
    hri_json_u64(json, "bad_samples", r->bad_samples);
    hri_json_u64(json, "left_over_samples", r->left_over_samples);
    hri_json_string(json, "checkpoint", r->checkpoint);
    return HR_OK;
}

static hr_status print_json(const hr_plan *plan, size_t job, hr_write_fn *write, void *user) {
    hri_json json;
    hri_json_init(&json);
    hri_json_u64(&json, "version", 1);
    const hr_status status = hri_train_show_json(plan, job, NULL, &json);
    return hri_taker_give_json(write, user, &json, status);
}

hr_status hr_job_print(const hr_plan *plan, size_t job, int32_t format, uint32_t columns,
                       hr_write_fn *write, void *user) {
    const hri_together *all = plan->together;
    const int32_t form = format & ~HR_PRINT_COLOR;
    if (form != HR_TRAIN_TEXT && form != HR_TRAIN_JSON) {
        return HR_E_INVALID;
    }
    if (!all || job >= all->count || !all->jobs[job].trainer) {
        return HR_E_NOT_FOUND;
    }
    if (form == HR_TRAIN_JSON) {
        return print_json(plan, job, write, user);
    }
    hri_taker t;
    const hr_status status =
        hri_taker_begin(&t, write, user, columns, (format & HR_PRINT_COLOR) != 0);
    if (status != HR_OK) {
        return status;
    }
    const hri_train_view v = {
        .job = &all->jobs[job], .out = t.out, .out_term = &t.term, .many = all->count > 1};
    hri_train_show_end(&v);
    return hri_taker_end(&t, HR_OK);
}

void hri_train_refusal_json(const hri_together *t, hri_json *json) {
    const hri_plan_job *j = t->jobs[t->which].plan;
    uint64_t floor, least;
    hri_together_least(t, &floor, &least);
    hri_json_bool(json, "fits", false);
    hri_json_string(json, "model", hr_model_text(j->model));
    hri_json_u64(json, "budget_bytes", j->budget_bytes);
    hri_json_u64(json, "floor_bytes", floor);
    if (t->at_least) {
        hri_json_null(json, "smallest_bytes");
        hri_json_u64(json, "smallest_at_least_bytes", least);
    } else {
        hri_json_u64(json, "smallest_bytes", least);
    }
}
