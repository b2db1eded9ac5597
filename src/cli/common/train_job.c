/* From flags to a trainer; see train_job.h. */
#include "cli/common/train_job.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "base/file.h"
#include "cli/common/plan_flags.h"
#include "cli/common/train_facts.h"
#include "cli/common/outputs.h"
#include "models/common/file.h"
#include "run/resident.h"
#include "loop/labels.h"
#include "step/options.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

/* Threads of a pipeline that every budget has room for, and what one of them takes beside the data: its stack, the
 * state of a decoder.  More of them are started only where there is room. */
enum { WORKERS = 2, WORKER_BYTES = 96 << 10 };

static int failed(const hri_train_job *j, hr_status status, const hri_prose *why) {
    hri_say_error(j->cli, "%s", why->text[0] ? why->text : hr_status_text(status));
    return status == HR_E_BUSY ? HRI_EXIT_USAGE : hri_cli_exit_code_of_input(status);
}

/* ---- looking ---- */

/* The model as its string says, and what it takes. */
static int look_at_model(hri_train_job *j) {
    hr_model *m = NULL;
    hr_error error = {0};
    hri_prose why = {""};
    hr_status status = hr_model_open(hri_text_get(&j->model_text), &m, &error);
    if (status != HR_OK) {
        hri_say_error(j->cli, "%s", error.message[0] ? error.message : hr_status_text(status));
        return hri_cli_exit_code(status);
    }
    status = hri_model_input_of(m, &j->want, &why);
    if (status == HR_OK && !m->family && !j->graph) {
        size_t bytes;
        status = hri_model_file_print(m, &j->graph, &bytes, &why);
    }
    hr_model_close(m);
    return status == HR_OK ? HRI_EXIT_YES : failed(j, status, &why);
}

/* What the data leaves out or ignores. */
static void say_notes(const hri_train_job *j, const hri_source *s) {
    for (size_t i = 0; i < s->note_count; i++) {
        hri_say_warning(j->cli, "%s", s->notes[i]);
    }
}

static int look_at_validation(hri_train_job *j) {
    hri_prose why = {""};
    const hr_status status = hri_source_look(j->flags.val_data, &j->want, &j->val_source, &why);
    if (status != HR_OK) {
        return failed(j, status, &why);
    }
    say_notes(j, &j->val_source);
    const hri_source *a = &j->source, *b = &j->val_source;
    for (size_t i = 0; a->classes && b->classes && i < b->class_count; i++) {
        if (i >= a->class_count || strcmp(a->classes[i], b->classes[i]) != 0) {
            hri_say_error(j->cli, "--val-data: class %zu is %s there and %s in the training data",
                          i, b->classes[i], i < a->class_count ? a->classes[i] : "none");
            return HRI_EXIT_USAGE;
        }
    }
    j->val_count = b->count;
    return HRI_EXIT_YES;
}

static int split_data(hri_train_job *j) {
    const uint64_t all = j->source.count;
    if (all == HR_COUNT_UNKNOWN) {
        hri_say_error(j->cli,
                      "--val-split: how many samples %s has is not known beforehand; --val-data "
                      "takes data of its own",
                      j->source.text);
        return HRI_EXIT_USAGE;
    }
    j->val_count = (uint64_t)((double)all * j->flags.val_split + 0.5);
    j->val_count = j->val_count ? j->val_count : 1;
    if (j->val_count >= all) {
        hri_say_error(j->cli, "--val-split: of %llu samples none are left to train on",
                      (unsigned long long)all);
        return HRI_EXIT_USAGE;
    }
    j->train_count = all - j->val_count;
    return HRI_EXIT_YES;
}

/* The model's string with the keys that the data knows. */
static hr_status fill_model(hri_train_job *j, hri_prose *why) {
    const size_t room = strlen(j->given_model) + 256;
    char *text = hri_malloc(room);
    if (!text) {
        return HR_E_NOMEM_HOST;
    }
    hr_status status =
        hri_source_fill_model(j->given_model, &j->source, text, room, j->said, sizeof j->said, why);
    if (status == HR_OK) {
        hri_text_clear(&j->model_text);
        hri_text_add(&j->model_text, "%s", text);
        status = hri_text_status(&j->model_text);
    }
    hri_free(text);
    return status;
}

/* "flip,crop" for the source; stages it leaves no trace in are named. */
static hr_status read_augment(hri_train_job *j, hri_prose *why) {
    char plain[512], with[512];
    hri_text_clear(&j->augment);
    hr_status status = hri_source_stages(&j->source, &j->want, NULL, plain, sizeof plain, why);
    for (size_t i = 0; i < j->flags.augment.count && status == HR_OK; i++) {
        const char *word = j->flags.augment.items[i];
        if (!strcmp(word, "none")) {
            continue;
        }
        status = hri_source_stages(&j->source, &j->want, word, with, sizeof with, why);
        if (status == HR_OK && !strcmp(plain, with)) {
            hri_say_warning(j->cli, "--augment %s has no effect on %s", word, j->source.text);
        }
        hri_text_add(&j->augment, "%s%s", j->augment.used ? "," : "", word);
    }
    return status == HR_OK ? hri_text_status(&j->augment) : status;
}

int hri_train_job_look(hri_cli *cli, const hri_train_flags *flags, const char *model,
                       hri_train_job *j) {
    hri_prose why = {""};
    j->cli = cli;
    j->flags = *flags;
    j->given_model = model;
    j->resume.file.fd = -1;
    if (!flags->data) {
        hri_say_error(j->cli,
                      "train: --data is missing: images:DIR, mnist:DIR, npy:X,Y ... or synthetic");
        hri_say_hint(j->cli, "headroom train --help");
        return HRI_EXIT_USAGE;
    }
    if (flags->val_data && flags->val_split > 0) {
        hri_say_error(j->cli, "--val-data or --val-split, not both");
        return HRI_EXIT_USAGE;
    }
    hri_text_add(&j->model_text, "%s", model);
    if (hri_text_status(&j->model_text) != HR_OK) {
        return hri_cli_failed(cli, NULL, "train", HR_E_NOMEM_HOST);
    }
    int code = look_at_model(j);
    if (code != HRI_EXIT_YES) {
        return code;
    }
    hr_status status = hri_source_look(flags->data, &j->want, &j->source, &why);
    if (status == HR_OK) {
        status = fill_model(j, &why);
    }
    if (status != HR_OK) {
        return failed(j, status, &why);
    }
    say_notes(j, &j->source);
    if (strcmp(model, hri_text_get(&j->model_text)) != 0) {
        code = look_at_model(j); /* with the data's own numbers */
    }
    j->train_count = j->source.count;
    j->all_labels_count = hri_labels_all_count(&j->source);
    if (code == HRI_EXIT_YES) {
        status = read_augment(j, &why);
        code = status == HR_OK ? HRI_EXIT_YES : failed(j, status, &why);
    }
    if (code == HRI_EXIT_YES && flags->val_data) {
        code = look_at_validation(j);
    } else if (code == HRI_EXIT_YES && flags->val_split > 0) {
        code = split_data(j);
    }
    return code;
}

/* ---- the pipelines ---- */

static uint32_t threads_of(const hri_train_job *j) {
    const int64_t asked = j->cli->settings->threads;
    return asked > 0 ? (uint32_t)asked : hri_cores_usable();
}

static hr_pipeline_options pipeline_options(const hri_train_job *j, uint64_t budget) {
    return (hr_pipeline_options){.size = sizeof(hr_pipeline_options),
                                 .budget_bytes = budget,
                                 .seed = (uint64_t)j->flags.seed,
                                 .workers = j->workers ? j->workers : 1,
                                 .skip_bad = j->flags.skip_bad};
}

static hr_status write_pipelines(hri_train_job *j, int64_t batch, hri_prose *why) {
    const uint64_t seed = (uint64_t)j->flags.seed;
    const int split = j->flags.val_split > 0;
    const hri_source_use train = {.training = 1,
                                  .augment = hri_text_get(&j->augment),
                                  .seed = seed,
                                  .part_first = split ? j->val_count : 0,
                                  .part_count = split ? j->train_count : 0,
                                  .batch = (uint64_t)batch};
    const hri_source_use val = {.seed = seed, .part_count = split ? j->val_count : 0};
    hr_status status =
        hri_source_pipeline(&j->source, &j->want, &train, j->train_text, sizeof j->train_text, why);
    if (status == HR_OK && j->val_count) {
        status = hri_source_pipeline(split ? &j->source : &j->val_source, &j->want, &val,
                                     j->val_text, sizeof j->val_text, why);
    }
    return status;
}

/* What a pipeline needs at least, and what one of its samples takes. */
/* The stage that needs most at least, "shuffle(buffer=10000)": for the sentence of a refusal. */
static void find_largest_stage(hr_pipeline *p, hri_largest_stage *out) {
    hr_stage_stats s;
    for (size_t i = 0; hr_pipeline_get_stage_stats(p, i, &s) == HR_OK; i++) {
        if (s.smallest_bytes > out->bytes) {
            out->bytes = s.smallest_bytes;
            memcpy(out->name, s.name, sizeof out->name);
        }
    }
}

static hr_status measure_pipeline(const hri_train_job *j, const char *text, uint64_t *smallest,
                                  uint64_t *each, hri_largest_stage *largest, hri_prose *why) {
    hr_pipeline *p = NULL;
    hr_error error = {0};
    hr_pipeline_stats stats;
    hr_pipeline_options o = pipeline_options(j, UINT64_C(1) << 40); /* nothing is read yet */
    o.workers = 1;
    const hr_status status = hr_pipeline_open(&o, text, &error, &p);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "%s", error.message);
    }
    hr_pipeline_get_stats(p, &stats);
    *smallest = stats.smallest_bytes;
    find_largest_stage(p, largest);
    *each = 0;
    for (size_t i = 0; i < hr_pipeline_field_count(p); i++) {
        const hr_field *f = hr_pipeline_field(p, i);
        *each += f->meta.shape.rank > 0 && f->meta.shape.dim[0] < 0 ? 0 : hr_meta_bytes(&f->meta);
    }
    hr_pipeline_destroy(p);
    return HR_OK;
}

static uint64_t whole_units(uint64_t bytes) {
    return (bytes + 64 * KIB - 1) / (64 * KIB) * (64 * KIB);
}

/* The least that a pipeline works well with.  It is a matter of the data alone: a share that moved with the budget would
 * move the smallest budget. */
static uint64_t least_bytes(uint64_t smallest) {
    return whole_units(smallest + smallest / 4 + 64 * KIB);
}

/* Two batches beside the smallest working set, so that one is made while the other is trained. */
static uint64_t wanted_bytes(uint64_t smallest, uint64_t each, int64_t samples) {
    const uint64_t least = least_bytes(smallest);
    const uint64_t wanted = whole_units(smallest + 2 * (uint64_t)samples * (each + KIB) + 64 * KIB);
    return wanted > least ? wanted : least;
}

/* "the input pipeline needs 640 MiB at least: shuffle holds 625 MiB; ..." */
static void explain_input(const hri_train_job *j, char *text, size_t size) {
    const hri_largest_stage *s = &j->largest_stage;
    const uint64_t all = j->train_least + (j->val_count ? j->val_bytes : 0);
    char b1[32], b2[32], b3[32];
    const char *way =
        !strcmp(s->name, "shuffle")
            ? "; shuffle(N) in --data with a smaller N needs less, and none at all where "
              "places are known (index=on, or before stages that make elements)"
        : !strcmp(s->name, "whole")                            ? "; a smaller --batch needs less"
        : !strcmp(s->name, "csv") || !strcmp(s->name, "lines") ? "; a smaller max_bytes= needs less"
                                                               : "";
    snprintf(text, size, "the input pipeline needs %s at least, of a budget of %s: %s holds %s%s",
             hr_bytes_print(all, b1, sizeof b1),
             hr_bytes_print(j->plan.budget_bytes, b2, sizeof b2), s->name,
             hr_bytes_print(s->bytes, b3, sizeof b3), way);
}

static int size_input(hri_train_job *j, int64_t samples) {
    uint64_t smallest = 0, each = 0;
    hri_prose why = {""};
    hr_status status = write_pipelines(j, samples * j->flags.accumulate, &why);
    if (status == HR_OK) {
        status = measure_pipeline(j, j->train_text, &smallest, &each, &j->largest_stage, &why);
    }
    if (status == HR_OK) {
        j->train_bytes = j->train_least = least_bytes(smallest);
        j->train_wanted = wanted_bytes(smallest, each, samples);
    }
    if (status == HR_OK && j->flags.data_budget_bytes) {
        j->train_bytes = j->train_wanted = j->flags.data_budget_bytes;
    }
    if (status == HR_OK && j->val_count) {
        status = measure_pipeline(j, j->val_text, &smallest, &each, &j->largest_stage, &why);
        j->val_bytes = least_bytes(smallest);
        /* Beside a GPU memory is there for whole batches; on the host weights and activations need it more. */
        j->val_wanted = wanted_bytes(smallest, each, j->plan.threads ? 1 : samples);
    }
    if (status == HR_OK && j->plan.threads && j->plan.budget_bytes &&
        j->train_least + (j->val_count ? j->val_bytes : 0) >= j->plan.budget_bytes) {
        char text[512];
        explain_input(j, text, sizeof text);
        hri_say_error(j->cli, "%s", text);
        return HRI_EXIT_NO;
    }
    return status == HR_OK ? HRI_EXIT_YES : failed(j, status, &why);
}

/* What is left beside the plan goes to the input: room for more samples first, then threads that make them. */
static uint64_t share_out(hri_train_job *j, uint64_t left) {
    const uint64_t before = left, pipelines = j->val_count ? 2 : 1;
    const uint64_t train = j->train_wanted - j->train_bytes, val = j->val_wanted - j->val_bytes;
    const uint64_t for_val = val < left ? val : left;
    j->val_bytes += for_val;
    left -= for_val;
    const uint64_t for_train = train < left ? train : left;
    j->train_bytes += for_train;
    left -= for_train;
    const uint64_t most = threads_of(j), more = left / (pipelines * WORKER_BYTES);
    j->workers = (uint32_t)(more + WORKERS < most ? more + WORKERS : most);
    const uint64_t beyond = j->workers > WORKERS ? j->workers - WORKERS : 0;
    return before - left + beyond * pipelines * WORKER_BYTES;
}

/* ---- sizes ---- */

/* What the trainer itself takes while it runs: writing a checkpoint, lists of tensors, threads of the pipelines, buffers
 * of the records. */
static uint64_t own_bytes(const hri_train_job *j) {
    const uint64_t records = (j->flags.log || j->flags.tensorboard || j->flags.svg) ? 256 * KIB : 0;
    return 640 * KIB + (uint64_t)j->want.weights * 5 * KIB + 2 * WORKERS * WORKER_BYTES + records +
           j->init_bytes + (j->graph ? 6 * strlen(j->graph) : 0);
}

static int read_batch(const hri_train_job *j, int64_t *out) {
    char *end;
    const long long n = strtoll(j->flags.batch, &end, 10);
    if (!strcmp(j->flags.batch, "auto")) {
        *out = 0;
    } else if (*j->flags.batch && !*end && n >= 1 && n <= 1000000) {
        *out = n;
    } else {
        hri_say_error(j->cli, "--batch: \"%s\" is neither auto nor a number from 1",
                      j->flags.batch);
        return HRI_EXIT_USAGE;
    }
    return HRI_EXIT_YES;
}

/* A device that is only planned for has no memory to train in. */
static int check_device(hri_train_job *j) {
    if (j->plan.device && (j->plan.threads || j->plan.engine)) {
        return HRI_EXIT_YES;
    }
    hri_say_error(j->cli, "--device %s: it runs no kernels, so nothing can be trained on it",
                  j->flags.device);
    hri_say_hint(j->cli, "headroom plan %s --device %s", j->given_model, j->flags.device);
    return HRI_EXIT_USAGE;
}

static int begin_plan(hri_train_job *j, int64_t batch) {
    const hri_train_flags *f = &j->flags;
    hri_text_clear(&j->options);
    hri_train_flags_options(f, UINT64_C(1) << 40, &j->options);
    if (hri_text_status(&j->options) != HR_OK) {
        return hri_cli_failed(j->cli, NULL, "train", HR_E_NOMEM_HOST);
    }
    j->ask = (hr_job_options){.size = sizeof j->ask,
                              .model = hri_text_get(&j->model_text),
                              .batch = batch ? batch : 1,
                              .budget = f->budget,
                              .host_budget = f->host_budget,
                              .device = f->device,
                              .training = hri_text_get(&j->options),
                              .split_norm = f->ghost_norm,
                              .no_measure = !f->measure,
                              .exact_f32 = f->exact,
                              .tune = f->tune,
                              .no_offload = !f->offload,
                              .spill = f->spill};
    hri_cli_job_settings(j->cli, &j->ask);
    int code = hri_plan_read_parts(j->cli, f->micro_batches, &j->ask.micro_batches);
    code = code == HRI_EXIT_YES ? hri_train_choices_find(j) : code;
    code = code == HRI_EXIT_YES ? hri_cli_open_for(j->cli, f->device, &j->ctx) : code;
    if (code == HRI_EXIT_YES) {
        const hr_status status = hri_plan_job_begin(j->ctx, &j->ask, &j->plan);
        code = status == HR_OK ? HRI_EXIT_YES : hri_cli_why(j->cli, &j->plan.why, status);
    }
    code = code == HRI_EXIT_YES ? check_device(j) : code;
    if (code == HRI_EXIT_YES) {
        j->plan.job.options.ignored = !j->all_labels_count;
        j->objective = (hri_objective){
            .build = hr_model_build, .user = j->plan.model, .smoothing = f->smoothing};
        hri_source_pixels(&j->source, &j->want, &j->objective.pixels);
        hri_source_pixels(f->val_data ? &j->val_source : &j->source, &j->want,
                          &j->objective.eval_pixels);
        j->plan.job.build = hri_objective_build;
        j->plan.job.user = &j->objective;
        j->plan.job.evaluate = j->val_count > 0;
        j->plan.job.evaluate_samples = f->val_batch;
        j->plan.job.evaluate_single = !j->want.masks;
    }
    return code;
}

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
    if (status == HR_OK) {
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

static int find_batch(hri_train_job *j, int64_t *out) {
    hri_prose why = {""};
    hri_fit_job job = j->plan.job;
    int64_t most = 0;
    if (j->plan.threads) {
        job.runtime_bytes += j->train_bytes + j->val_bytes + own_bytes(j);
    }
    hr_status status = hri_fit_largest(&job, j->plan.budget_bytes, &most, &why);
    if (status == HR_OK && j->train_count != HR_COUNT_UNKNOWN) {
        const uint64_t few = j->train_count < AUTO_LEAST ? j->train_count : AUTO_LEAST;
        const uint64_t by_steps = j->train_count / AUTO_STEPS;
        const int64_t cap = (int64_t)(by_steps > few ? by_steps : few);
        most = most > cap ? cap : most;
    }
    *out = most < 1 ? 1 : most; /* below one, the refusal that follows has the numbers */
    if (status == HR_OK && most > 1) {
        status = fastest_batch(&job, j->plan.budget_bytes, most, out, &why);
    }
    j->batch_chosen = true;
    return status == HR_OK ? HRI_EXIT_YES : failed(j, status, &why);
}

static int set_length(hri_train_job *j) {
    const hri_train_flags *f = &j->flags;
    if (j->train_count != HR_COUNT_UNKNOWN) {
        if ((uint64_t)j->batch > j->train_count) {
            hri_say_error(j->cli,
                          "a batch of %lld is more than the %llu samples of %s; --batch %llu at "
                          "most%s",
                          (long long)j->batch, (unsigned long long)j->train_count, j->source.text,
                          (unsigned long long)(j->train_count / (uint64_t)f->accumulate),
                          f->accumulate > 1 ? " with this --accumulate" : "");
            return HRI_EXIT_USAGE;
        }
        j->steps_per_epoch = j->train_count / (uint64_t)j->batch;
    }
    j->epochs = f->epochs > 0 ? (uint64_t)f->epochs : 0;
    j->steps = f->steps > 0 ? (uint64_t)f->steps : 0;
    if (!j->epochs && !j->steps) {
        j->epochs = 10;
    }
    const uint64_t by_epochs = j->epochs * j->steps_per_epoch;
    j->total_steps = !by_epochs || (j->steps && j->steps < by_epochs) ? j->steps : by_epochs;
    if (f->schedule == HR_SCHEDULE_COSINE && !j->total_steps &&
        !(f->options && strstr(f->options, "steps="))) {
        hri_say_error(j->cli,
                      "--schedule cosine: how long the training is is not known; say --steps N");
        return HRI_EXIT_USAGE;
    }
    return HRI_EXIT_YES;
}

static int set_options(hri_train_job *j) {
    hr_error error = {0};
    hri_text_clear(&j->options);
    hri_train_flags_options(&j->flags, j->total_steps, &j->options);
    j->ask.training = j->plan.o.training = hri_text_get(&j->options);
    hr_status status = hri_text_status(&j->options);
    if (status == HR_OK) {
        status = hr_train_options_parse(j->ask.training, &j->plan.job.options, &error);
    }
    if (status != HR_OK) {
        hri_say_error(j->cli, "%s", error.message[0] ? error.message : hr_status_text(status));
        return hri_cli_exit_code(status);
    }
    j->plan.job.options.ignored = !j->all_labels_count;
    return HRI_EXIT_YES;
}

/* ---- the folder ---- */

/* Makes and locks it; a second training of this command, asked to write into the folder of the first, gets one beside it. */
static hr_status lock_folder(hri_train_job *j, const char *path, hri_folder_kind kind,
                             hri_prose *why) {
    hri_text own = {0};
    hri_text_add(&own, "%s%s", path, j->beside && !strcmp(path, j->beside) ? "-also" : "");
    hr_status status = hri_text_status(&own);
    if (status == HR_OK) {
        status = hri_folder_open(hri_text_get(&own), kind, &j->lock, why);
    }
    if (status == HR_OK) {
        j->folder = hri_strdup(hri_text_get(&own));
        status = j->folder ? HR_OK : HR_E_NOMEM_HOST;
    }
    hri_text_deinit(&own);
    return status;
}

/* runs/NAME-1, runs/NAME-2, ...: the first that is free, or for --resume the last that is not.  Another command may take
 * one at the same time: then it is the next. */
static hr_status choose_folder(hri_train_job *j, hri_prose *why) {
    const char *model = hri_text_get(&j->model_text);
    hri_text next = {0}, last = {0};
    hr_status status = HR_E_EXISTS;
    for (unsigned n = 1; n < 100000 && status == HR_E_EXISTS; n++) {
        hri_text_clear(&next);
        hri_text_add(&next, "runs/%.*s-%u", (int)strcspn(model, ":"), model, n);
        status = hri_text_status(&next);
        if (status != HR_OK) {
            break;
        }
        const int there = access(hri_text_get(&next), F_OK) == 0;
        const int taken = j->beside && !strcmp(hri_text_get(&next), j->beside);
        if (there && j->flags.resume) {
            hri_text_clear(&last);
            hri_text_add(&last, "%s", hri_text_get(&next));
            status = hri_text_status(&last) == HR_OK ? HR_E_EXISTS : HR_E_NOMEM_HOST;
        } else if (j->flags.resume && last.used) {
            status = lock_folder(j, hri_text_get(&last), HRI_FOLDER_ANY, why);
        } else {
            status = there && !taken ? HR_E_EXISTS
                                     : lock_folder(j, hri_text_get(&next), HRI_FOLDER_NEW, why);
        }
    }
    hri_text_deinit(&next);
    hri_text_deinit(&last);
    return status;
}

/* The folder is ours from here on; what is in it is looked at now. */
static int look_into_folder(hri_train_job *j, const char *path) {
    hri_prose why = {""};
    const int there = hri_file_exists(path);
    if (there && j->flags.resume) {
        const hr_status status = hri_checkpoint_open(path, &j->resume, &why);
        j->resumes = status == HR_OK;
        if (status != HR_OK) {
            return failed(j, status, &why);
        }
    } else if (there && !j->flags.overwrite) {
        hri_say_error(j->cli,
                      "%s already contains a run; use --resume to continue it or --overwrite to "
                      "start over",
                      j->folder);
        return HRI_EXIT_USAGE;
    } else if (j->flags.resume) {
        hri_say_warning(j->cli, "--resume has no effect: %s has no checkpoint; starting over",
                        j->folder);
    }
    if (j->resumes && j->flags.init) {
        hri_say_warning(j->cli, "--init has no effect: the run continues from %s", path);
    }
    return HRI_EXIT_YES;
}

static int open_folder(hri_train_job *j) {
    char *path = NULL;
    hri_prose why = {""};
    const hri_about about = {.source = j->source.text,
                             .classes = (const char *const *)j->source.classes,
                             .class_count = j->source.classes ? j->source.class_count : 0};
    if (!j->flags.save) {
        return HRI_EXIT_YES;
    }
    hr_status status = hri_about_check(&about, &why); /* what could be saved and not be read */
    if (status == HR_OK) {
        status = j->flags.out ? lock_folder(j, j->flags.out, HRI_FOLDER_ANY, &why)
                              : choose_folder(j, &why);
    }
    if (status == HR_OK) {
        status = hri_path_join(j->folder, HRI_CHECKPOINT_LAST, &path);
    }
    if (status != HR_OK) {
        return failed(j, status, &why);
    }
    const int code = look_into_folder(j, path);
    hri_free(path);
    return code;
}

/* Its list of tensors is read twice, now for a look: it is there, it can be read, and what the list takes is in the budget. */
static int look_at_init(hri_train_job *j) {
    hri_tensors file = {.fd = -1};
    hri_prose why = {""};
    if (!j->flags.init || j->resumes) {
        return HRI_EXIT_YES;
    }
    const hr_status status = hri_tensors_open(j->flags.init, &file, &why);
    if (status != HR_OK) {
        return failed(j, status, &why);
    }
    j->init_bytes = hri_tensors_held_bytes(&file);
    hri_tensors_close(&file);
    return HRI_EXIT_YES;
}

/* Flags whose numbers the run is too short for. */
static void warn_of_length(const hri_train_job *j) {
    const hri_train_flags *f = &j->flags;
    const unsigned long long total = j->total_steps;
    if (total && f->warmup > 0 && (uint64_t)f->warmup >= total) {
        hri_say_warning(j->cli, "--warmup %lld: the run has %llu steps and never reaches its rate",
                        (long long)f->warmup, total);
    }
    if (total && f->schedule == HR_SCHEDULE_STEP && f->every > 0 && (uint64_t)f->every >= total) {
        hri_say_warning(j->cli, "--every %lld has no effect: the run has %llu steps",
                        (long long)f->every, total);
    }
    if (total && f->val_every > 0 && (uint64_t)f->val_every > total) {
        hri_say_warning(j->cli, "--val-every %lld: the run has %llu steps, so it never validates",
                        (long long)f->val_every, total);
    }
}

/* ---- the same with other flags ---- */

hr_status hri_train_job_command(const hri_train_job *j, const hri_change *changes, size_t count,
                                hri_text *out) {
    hri_options o;
    hri_train_flags f;
    hr_status status = hri_options_changed(&o, hri_train_flag_fields, &j->flags, sizeof f, changes,
                                           count, &f, NULL);
    if (status == HR_OK) {
        status = hri_cli_command(j->cli, "train", j->given_model, hri_train_flag_fields, &f, out);
        hri_options_deinit(&o);
    }
    return status;
}

static hr_status spell_flags(void *user, const hri_plan_way *way, hri_text *out) {
    hri_change changes[HRI_WAY_CHANGES];
    (void)user;
    hri_spell_changes(way->changes, way->change_count, changes);
    return hri_spell_flags(hri_train_flag_fields, changes, way->change_count, out);
}

static hr_status spell_command(void *user, const hri_plan_way *way, hri_text *out) {
    hri_change changes[HRI_WAY_CHANGES];
    hri_spell_changes(way->changes, way->change_count, changes);
    return hri_train_job_command(user, changes, way->change_count, out);
}

/* What hri_train_job_size makes of the flags, where they may change. */
static hr_status road_size(const hri_train_job *j, hri_train_job *c, hri_fit_job *out) {
    int64_t batch = 0;
    hr_error error = {0};
    if (read_batch(c, &batch) != HRI_EXIT_YES || !batch) {
        return HR_E_INVALID;
    }
    c->batch = batch * c->flags.accumulate;
    if (set_length(c) != HRI_EXIT_YES ||
        hri_plan_read_parts(c->cli, c->flags.micro_batches, &out->parts) != HRI_EXIT_YES) {
        return HR_E_INVALID;
    }
    out->batch = c->batch;
    out->allow_coupled = c->flags.ghost_norm;
    if (c->flags.accumulate > 1) {
        out->parts = c->flags.accumulate;
        out->allow_coupled = 1;
    }
    out->evaluate_samples = c->flags.val_batch;
    out->no_offload = !c->flags.offload;
    hri_plan_job_spill(&j->plan, c->flags.spill, out);
    if (j->plan.threads && c->flags.data_budget_bytes) {
        out->runtime_bytes = out->runtime_bytes - j->train_bytes + c->flags.data_budget_bytes;
    }
    hri_text text = {0};
    hri_train_flags_options(&c->flags, c->total_steps, &text);
    hr_status status = hri_text_status(&text);
    if (status == HR_OK) {
        status = hr_train_options_parse(hri_text_get(&text), &out->options, &error);
    }
    out->options.ignored = !j->all_labels_count;
    hri_text_deinit(&text);
    return status;
}

static hr_status road_job(void *user, const hri_way_change *ways, size_t count, hri_fit_job *out,
                          hri_prose *why) {
    const hri_train_job *j = user;
    hri_change changes[HRI_WAY_CHANGES];
    hri_cli quiet = {.quiet = true};
    hri_options o;
    hri_train_job *c = hri_malloc(sizeof *c);
    if (!c) {
        return HR_E_NOMEM_HOST;
    }
    hri_spell_changes(ways, count, changes);
    *c = *j; /* borrowed, but for the flags */
    c->cli = &quiet;
    *out = j->plan.job;
    hr_status status = hri_options_changed(&o, hri_train_flag_fields, &j->flags, sizeof c->flags,
                                           changes, count, &c->flags, why);
    if (status == HR_OK) {
        status = road_size(j, c, out);
        hri_options_deinit(&o);
    }
    hri_text_deinit(&quiet.failure);
    hri_text_deinit(&quiet.warnings);
    hri_free(c);
    return status;
}

static void set_road(hri_train_job *j) {
    j->road = (hri_plan_road){.user = j,
                              .budget_only = j->resumes,
                              .has_input = true,
                              .has_nesterov = true,
                              .job = road_job};
    j->speller = (hri_plan_speller){.user = j, .flags = spell_flags, .command = spell_command};
    /* two runs in one arena have a refusal of their own */
    j->plan.road = *j->name || j->flags.logical_devices ? NULL : &j->road;
    j->plan.data_least_bytes = j->flags.data_budget_bytes > j->train_least ? j->train_least : 0;
}

/* Every place that is written to, before anything long begins. */
static int check_outputs(const hri_train_job *j) {
    const hri_train_flags *f = &j->flags;
    int code = hri_output_check(j->cli, "--log", f->log, HRI_OUTPUT_FILE_DEEPER);
    if (code == HRI_EXIT_YES) {
        code = hri_output_check(j->cli, "--svg", f->svg, HRI_OUTPUT_FILE_DEEPER);
    }
    if (code == HRI_EXIT_YES) {
        code = hri_output_check(j->cli, "--tensorboard", f->tensorboard, HRI_OUTPUT_FOLDER);
    }
    return code == HRI_EXIT_YES ? hri_output_check(j->cli, "--spill", f->spill, HRI_OUTPUT_FOLDER)
                                : code;
}

/* last.safetensors has the weights and every state of the optimizer, best.safetensors the weights; each is written
 * beside the one that it replaces. */
static int check_disk(const hri_train_job *j) {
    static const uint64_t states[] = {1, 2, 2, 2}; /* sgd, adam, adamw, rmsprop: at most */
    const uint64_t weights = j->want.parameters * 4;
    const uint64_t last = weights * (1 + states[j->flags.optimizer & 3]);
    if (!j->folder) {
        return HRI_EXIT_YES;
    }
    return hri_output_room(j->cli, j->folder, last + (j->val_count ? weights : 0), "a checkpoint",
                           "--out DIR writes elsewhere, --no-save writes none");
}

int hri_train_job_size(hri_train_job *j) {
    int64_t batch = 0;
    int code = read_batch(j, &batch);
    if (code == HRI_EXIT_YES) {
        code = check_outputs(j);
    }
    if (code == HRI_EXIT_YES) {
        code = open_folder(j);
    }
    if (code == HRI_EXIT_YES) {
        code = look_at_init(j);
    }
    if (j->resumes && !batch) {
        batch = hri_train_facts_batch(&j->resume.about); /* what fitted then is what goes on */
    }
    if (code == HRI_EXIT_YES) {
        code = check_disk(j);
    }
    if (code == HRI_EXIT_YES) {
        code = begin_plan(j, batch);
    }
    if (code == HRI_EXIT_YES) {
        code = size_input(j, batch ? batch : 32);
    }
    if (code == HRI_EXIT_YES && !batch) {
        code = find_batch(j, &batch);
    }
    if (code != HRI_EXIT_YES) {
        return code;
    }
    const int64_t k = j->flags.accumulate;
    hri_prose why = {""};
    j->batch = batch * k;
    const hr_status written = write_pipelines(j, j->batch, &why);
    if (written != HR_OK) {
        return failed(j, written, &why);
    }
    j->plan.job.batch = j->batch;
    j->ask.batch = j->plan.o.batch = j->batch;
    if (k > 1) { /* asked for, so batch norm sees one batch at a time, as it does everywhere */
        j->plan.job.parts = k;
        j->plan.job.allow_coupled = 1;
    } else if (j->resumes && !strcmp(j->flags.micro_batches, "auto")) {
        j->plan.job.parts = (int64_t)j->resume.progress.parts; /* the same rounding */
        j->plan.job.allow_coupled |= j->resume.progress.parts > 1;
    }
    code = set_length(j);
    if (code == HRI_EXIT_YES) {
        warn_of_length(j);
        code = set_options(j);
    }
    if (j->plan.threads) {
        j->plan.data_bytes = j->train_bytes + j->val_bytes;
        j->own_bytes = own_bytes(j);
        j->plan.job.runtime_bytes += j->plan.data_bytes + j->own_bytes;
        const uint64_t wanted = j->train_wanted + j->val_wanted - j->plan.data_bytes;
        const uint64_t most = j->plan.budget_bytes / 8;
        j->plan.comfort_bytes = wanted < most ? wanted : most;
    } else { /* beside a GPU all this is in the host's memory, which has a budget of its own */
        const uint64_t pipelines = j->val_count ? 2 : 1, beyond = threads_of(j) * pipelines;
        const uint64_t wanted = j->train_wanted + j->val_wanted + beyond * WORKER_BYTES;
        const uint64_t budget = j->plan.host_budget_bytes;
        j->spare_host = !budget || wanted <= budget / 8;
        const uint64_t weights = j->want.parameters * 4, band = 64 * MIB; /* one copied at once */
        j->plan.host_extra_bytes = own_bytes(j) + (weights < band ? weights : band) +
                                   (j->spare_host ? wanted : j->train_bytes + j->val_bytes);
    }
    set_road(j);
    return code;
}

/* ---- planning ---- */

int hri_train_job_plan(hri_train_job *j) {
    hri_prose why = {""};
    const hr_status status = hri_plan_answer_make(&j->plan, &j->answer, &j->plans, NULL, &why);
    if (status != HR_OK) {
        return failed(j, status, &why);
    }
    if (j->answer.fits) {
        hri_plan_job_set_threads(&j->plan, &j->plans);
    }
    j->row = j->answer.row;
    const uint64_t input = j->train_least + (j->val_count ? j->val_bytes : 0);
    if (!j->answer.fits && j->plan.threads && input > j->plan.budget_bytes / 4) {
        char text[512];
        explain_input(j, text, sizeof text);
        hri_say_warning(j->cli, "%s", text);
    }
    if (j->answer.fits && j->row.spill_bytes) {
        const int code =
            hri_output_room(j->cli, j->flags.spill, j->row.spill_bytes,
                            "the file in which values wait", "--spill DIR puts it elsewhere");
        if (code != HRI_EXIT_YES) {
            return code;
        }
    }
    return j->answer.fits ? HRI_EXIT_YES : HRI_EXIT_NO;
}

uint64_t hri_train_job_share_out(hri_train_job *j, uint64_t left_bytes) {
    if (!j->plan.threads) { /* a GPU's budget has nothing to do with it */
        (void)share_out(j, j->spare_host ? UINT64_MAX / 4 : 0);
        return 0;
    }
    return share_out(j, left_bytes);
}

void hri_train_job_count_input(hri_train_job *j, uint64_t bytes) {
    j->plan.data_bytes += bytes;
    j->row.runtime_bytes += bytes;
    j->row.peak_bytes += bytes;
    j->row.host_peak_bytes += bytes;
    j->answer.row = j->row;
}

void hri_train_job_release(hri_train_job *j) {
    const hri_fit_case *c = j->plans.c;
    hri_fit_plans_deinit(&j->plans);
    hri_fit_drop_others(&j->plan.fit, c);
    hri_fit_release(&j->plan.fit);
    hri_timing_close(j->plan.timing);
    j->plan.timing = NULL;
}

/* ---- starting ---- */

static hr_status open_supply(hri_train_job *j, const hri_source *source, const char *text,
                             uint64_t bytes, hri_supply **out, hri_prose *why) {
    const hri_supply_options o = {.pipeline = text,
                                  .source = source,
                                  .want = &j->want,
                                  .pipeline_options = pipeline_options(j, bytes)};
    return hri_supply_open(&o, out, why);
}

int hri_train_job_open_input(hri_train_job *j) {
    hri_prose why = {""};
    hr_status status = open_supply(j, &j->source, j->train_text, j->train_bytes, &j->train, &why);
    if (status == HR_OK && j->val_count) {
        status = open_supply(j, j->flags.val_split > 0 ? &j->source : &j->val_source, j->val_text,
                             j->val_bytes, &j->validation, &why);
    }
    j->feeds = (hri_feeds){.train = j->train, .validation = j->validation};
    return status == HR_OK ? HRI_EXIT_YES : failed(j, status, &why);
}

static int load_init(hri_train_job *j) {
    hri_prose why = {""};
    const hri_values to = {.put = hri_planned_put,
                           .user = j->planned,
                           .buffer_bytes = hri_planned_band_bytes(j->planned)};
    const hr_status status = hri_init_load(j->flags.init, hri_planned_graph(j->planned), &to,
                                           j->want.classes, &j->init, &why);
    return status == HR_OK ? HRI_EXIT_YES : failed(j, status, &why);
}

/* What stands for the model: the text that opens it, or a name and a number that no other graph has. */
static const char *name_model(hri_train_job *j) {
    const hr_model *m = j->plan.model;
    if (m->family) {
        return hr_model_text(m);
    }
    char *name = hri_arena_printf(&j->facts, "%s:graph=%016llx", hr_model_name(m),
                                  (unsigned long long)hr_model_fingerprint(m));
    for (char *at = name; at && *at != ':'; at++) { /* letters that a checkpoint's text may have */
        *at = isalnum((unsigned char)*at) || strchr("_.+-", *at) ? *at : '_';
    }
    return name;
}

static hr_status fill_about(hri_train_job *j, hri_prose *why) {
    const char *model = name_model(j);
    if (!model) {
        return HR_E_NOMEM_HOST;
    }
    j->about = (hri_about){.model = model,
                           .graph = j->graph,
                           .precision = hri_plan_precisions[j->flags.precision],
                           .source = j->source.text,
                           .pixels = j->objective.pixels,
                           .input = j->want.name,
                           .classes = (const char *const *)j->source.classes,
                           .class_count = j->source.classes ? j->source.class_count : 0};
    if (j->flags.val_split > 0) {
        j->about.split = (hri_split){.fraction = j->flags.val_split,
                                     .seed = (uint64_t)j->flags.seed,
                                     .val_count = j->val_count,
                                     .train_count = j->train_count};
    }
    const hr_status status = hri_train_facts(j, &j->facts, &j->about);
    return status == HR_OK ? hri_about_check(&j->about, why) : status;
}

static hr_status open_record(hri_train_job *j, hri_prose *why) {
    const hri_train_flags *f = &j->flags;
    const hri_record_options o = {.lines = f->log,
                                  .events = f->tensorboard,
                                  .picture = f->svg,
                                  .every = (uint64_t)f->log_every,
                                  .log = j->trainer_options.log,
                                  .log_user = j->trainer_options.log_user};
    const hri_record_start start = {.model = j->about.model,
                                    .data = j->source.text,
                                    .device = j->plan.device_name,
                                    .optimizer = hri_plan_optimizers[f->optimizer],
                                    .precision = j->about.precision,
                                    .step = j->resumes ? j->resume.progress.state.step : 0,
                                    .steps = j->total_steps,
                                    .epochs = j->epochs,
                                    .batch = (uint64_t)j->batch,
                                    .parameters = j->want.parameters,
                                    .seed = (uint64_t)f->seed,
                                    .budget_bytes = j->plan.budget_bytes,
                                    .planned_peak_bytes = j->row.peak_bytes,
                                    .runtime_bytes = j->row.runtime_bytes,
                                    .persistent_bytes = j->row.persistent_bytes,
                                    .arena_bytes = j->row.arena_bytes,
                                    .micro_batches = j->row.micro_batches};
    return f->log || f->tensorboard || f->svg ? hri_record_open(&o, &start, &j->record, why)
                                              : HR_OK;
}

int hri_train_job_start(hri_train_job *j) {
    hri_prose why = {""};
    hr_status status = fill_about(j, &why);
    int code = status == HR_OK ? HRI_EXIT_YES : failed(j, status, &why);
    if (code == HRI_EXIT_YES && j->flags.init && !j->resumes) {
        code = load_init(j);
    }
    status = code == HRI_EXIT_YES ? open_record(j, &why) : HR_OK;
    if (code != HRI_EXIT_YES || status != HR_OK) {
        return code != HRI_EXIT_YES ? code : failed(j, status, &why);
    }
    hri_trainer_options *o = &j->trainer_options;
    o->planned = j->planned;
    o->feeds = &j->feeds;
    o->about = &j->about;
    o->epochs = j->epochs;
    o->steps = j->steps;
    o->steps_per_epoch = j->steps_per_epoch;
    o->validate_every = (uint64_t)j->flags.val_every;
    o->patience = (uint64_t)j->flags.patience;
    o->min_delta = j->flags.min_delta;
    o->save_every = (uint64_t)j->flags.save_every;
    o->save_seconds = (uint64_t)(j->flags.save_minutes * 60);
    o->folder = j->folder;
    o->locked = 1;
    o->resume = j->resumes ? &j->resume : NULL;
    o->record = j->record;
    o->begin =
        (hri_progress_state){.batch = (uint64_t)j->batch,
                             .seed = (uint64_t)j->flags.seed,
                             .parts = j->row.micro_batches,
                             .input_print = hr_pipeline_fingerprint(hri_supply_pipeline(j->train))};
    status = hri_trainer_open(o, &j->trainer, &why);
    hri_checkpoint_close(&j->resume);
    return status == HR_OK ? hri_train_choices_write(j) : failed(j, status, &why);
}

void hri_train_job_close(hri_train_job *j) {
    hri_trainer_close(j->trainer);
    hri_record_close(j->record);
    hri_planned_close(j->planned);
    hri_supply_close(j->train);
    hri_supply_close(j->validation);
    hri_fit_plans_deinit(&j->plans);
    hri_plan_job_close(&j->plan);
    hr_ctx_destroy(j->ctx);
    hri_checkpoint_close(&j->resume);
    hri_source_deinit(&j->source);
    hri_source_deinit(&j->val_source);
    hri_arena_deinit(&j->facts);
    hri_text_deinit(&j->model_text);
    hri_text_deinit(&j->options);
    hri_text_deinit(&j->augment);
    hri_folder_close(&j->lock);
    hri_free(j->folder);
    hri_free(j->choices);
    hri_free(j->graph);
}
