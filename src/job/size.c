/* Sizes: device, budget, batch, length; then the plan for all of it, or the refusal; see train.h. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "job/change.h"
#include "job/outputs.h"
#include "job/train.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

/* Writing a checkpoint, lists of tensors, threads of the pipelines, buffers of the records. */
uint64_t hri_train_own_bytes(const hri_train_job *j) {
    const uint64_t records = (j->o.log || j->o.tensorboard || j->o.svg) ? 256 * KIB : 0;
    return 640 * KIB + (uint64_t)j->want.weights * 5 * KIB +
           2 * HRI_TRAIN_WORKERS * HRI_TRAIN_WORKER_BYTES + records + j->init_bytes +
           (j->graph ? 6 * strlen(j->graph) : 0) + hri_train_metric_bytes(j) +
           (j->mix.classes ? hr_meta_bytes(&j->want.sample) * 4 + (uint64_t)j->mix.classes * 4 : 0);
}

/* ---- before anything is planned ---- */

/* Its list of tensors is read twice, now for a look: it is there, it can be read, and what the list takes is in the budget. */
static hr_status look_at_init(hri_train_job *j) {
    hri_tensors file = {.fd = -1};
    hri_prose why = {""};
    if (!j->o.init || j->resumes) {
        return HR_OK;
    }
    const hr_status status = hri_tensors_open(j->o.init, &file, &why);
    if (status != HR_OK) {
        return hri_train_failed(j, status, &why);
    }
    j->init_bytes = hri_tensors_held_bytes(&file);
    hri_tensors_close(&file);
    return HR_OK;
}

/* Every place that is written to, before anything long begins. */
static hr_status check_outputs(hri_train_job *j) {
    const hr_job_options *o = &j->o;
    hr_status status = hri_output_check(&j->why, "log", o->log, HRI_OUTPUT_FILE_DEEPER);
    if (status == HR_OK) {
        status = hri_output_check(&j->why, "svg", o->svg, HRI_OUTPUT_FILE_DEEPER);
    }
    if (status == HR_OK) {
        status = hri_output_check(&j->why, "tensorboard", o->tensorboard, HRI_OUTPUT_FOLDER);
    }
    return status == HR_OK ? hri_output_check(&j->why, "spill", o->spill, HRI_OUTPUT_FOLDER)
                           : status;
}

/* last.safetensors has the weights and every state of the optimizer, best.safetensors the weights; each is written
 * beside the one that it replaces. */
static hr_status check_disk(hri_train_job *j) {
    static const uint64_t states[] = {
        1, 2, 2, 2, 1, 1}; /* sgd, adam, adamw, rmsprop, lion, adafactor: at most */
    const uint64_t weights = j->want.parameters * 4;
    hr_train_options t = {.size = sizeof t};
    hri_text text = {0};
    hr_status status = hri_train_options_text(&j->o, UINT64_C(1) << 40, &text);
    if (status == HR_OK && hr_train_options_parse(hri_text_get(&text), &t, NULL) != HR_OK) {
        t.optimizer = 0; /* what is wrong with them is said when they are planned with */
    }
    hri_text_deinit(&text);
    if (status != HR_OK || !j->folder) {
        return status;
    }
    const int lora = j->o.passes && strstr(j->o.passes, "lora"); /* states of adapters alone */
    const uint64_t state = lora                           ? weights / 16
                           : t.moments == HR_MOMENTS_8BIT ? weights / 4 + weights / 256
                           : t.moments == HR_MOMENTS_BF16 ? weights / 2
                                                          : weights;
    const int ema = j->o.passes && strstr(j->o.passes, "ema:");
    const uint64_t last = weights * (ema ? 2 : 1) + state * states[t.optimizer];
    return hri_output_room(&j->why, j->folder, last + (j->val_count ? weights : 0), "a checkpoint",
                           "`folder=DIR` saves elsewhere, `folder=none` saves nothing");
}

/* ---- the device ---- */

/* Which algorithms of the GPU's libraries are run, carried from run to run: a file that is named, or choices.txt beside the
 * checkpoint, so that a training that goes on elsewhere goes on with the same ones where they are there. */
static hr_status find_choices(hri_train_job *j) {
    hr_status status = HR_OK;
    if (j->o.gpu_choices) {
        j->choices = hri_strdup(j->o.gpu_choices);
        status = j->choices ? HR_OK : HR_E_NOMEM_HOST;
    } else if (j->folder) {
        status = hri_path_join(j->folder, "choices.txt", &j->choices);
    }
    if (status != HR_OK) {
        return hri_why_set(&j->why, HR_CAUSE_MACHINE, status, "`gpu_choices`: %s",
                           hr_status_text(status));
    }
    const int there = j->choices && hri_file_exists(j->choices);
    j->ask.gpu_choices = there && (j->o.gpu_choices || j->resumes) ? j->choices : NULL;
    return HR_OK;
}

/* A device that is only planned for has no memory to train in. */
static hr_status check_device(hri_train_job *j) {
    if (j->plan->device && (j->plan->threads || j->plan->engine)) {
        return HR_OK;
    }
    return hri_why_option(&j->why, HR_E_UNSUPPORTED, "device",
                          " %s cannot run kernels, so it cannot be used for training", j->o.device);
}

static hr_status begin_plan(hri_train_job *j, int64_t batch) {
    hri_text_clear(&j->options);
    hr_status status = hri_train_options_text(&j->o, UINT64_C(1) << 40, &j->options);
    j->ask = j->o;
    j->ask.model = j->o.custom_model ? NULL : hri_text_get(&j->model_text);
    j->ask.training = hri_text_get(&j->options);
    j->ask.batch = batch ? batch : 1;
    if (status == HR_OK) {
        status = find_choices(j);
    }
    if (status == HR_OK) {
        status = hri_plan_job_begin(j->ctx, &j->ask, j->plan);
        j->why = status == HR_OK ? j->why : j->plan->why;
    }
    if (status == HR_OK) {
        status = check_device(j);
    }
    if (status != HR_OK) {
        return status;
    }
    j->plan->job.options.ignored = !j->all_labels_count;
    j->objective = (hri_objective){.build = hr_model_build,
                                   .user = j->plan->model,
                                   .passes = &j->plan->passes,
                                   .smoothing = j->o.smoothing,
                                   .loss = j->loss,
                                   .wide = j->plan->job.options.precision != HR_PRECISION_F32,
                                   .class_weights = j->class_weights,
                                   .soft = j->mix.mixup > 0 || j->mix.cutmix > 0,
                                   .class_weight_count = (size_t)j->want.classes};
    hri_source_pixels(&j->source, &j->want, &j->objective.pixels);
    hri_source_pixels(j->o.val_data || j->o.val_pipeline ? &j->val_source : &j->source, &j->want,
                      &j->objective.eval_pixels);
    j->plan->job.build = hri_objective_build;
    j->plan->job.user = &j->objective;
    j->plan->job.evaluate = j->val_count > 0 || j->o.val_batch > 0;
    j->plan->job.evaluate_samples = j->o.val_batch;
    j->plan->job.evaluate_single = !j->want.masks;
    return HR_OK;
}

/* ---- the same with other options ---- */

/* What hri_train_size makes of the options, where they may change. */
static hr_status road_size(const hri_train_job *j, hri_train_job *c, hri_fit_job *out) {
    hr_error error = {0};
    if (!c->o.batch) {
        c->o.batch = j->batch / j->o.accumulate;
    }
    c->batch = c->o.batch * c->o.accumulate;
    hr_status status = hri_train_set_length(c);
    if (status != HR_OK) {
        return status;
    }
    out->batch = c->batch;
    out->parts = c->o.micro_batches;
    out->allow_coupled = c->o.split_norm;
    if (c->o.accumulate > 1) {
        out->parts = c->o.accumulate;
        out->allow_coupled = 1;
    }
    out->evaluate_samples = c->o.val_batch;
    out->no_offload = c->o.no_offload != 0;
    hri_plan_job_spill(j->plan, c->o.spill, out);
    if (j->plan->threads && c->o.data_budget_bytes) {
        out->runtime_bytes = out->runtime_bytes - j->train_bytes + c->o.data_budget_bytes;
    }
    hri_text text = {0};
    status = hri_train_options_text(&c->o, c->total_steps, &text);
    if (status == HR_OK) {
        out->options.size = sizeof out->options;
        status = hr_train_options_parse(hri_text_get(&text), &out->options, &error);
    }
    out->options.ignored = !j->all_labels_count;
    hri_text_deinit(&text);
    return status;
}

static hr_status road_job(void *user, const hri_way_change *changes, size_t count, hri_fit_job *out,
                          hri_prose *why) {
    const hri_train_job *j = user;
    hri_text training = {0};
    hri_train_job *c = hri_malloc(sizeof *c);
    if (!c) {
        return HR_E_NOMEM_HOST;
    }
    *c = *j; /* borrowed, but for the options */
    c->listener = (hri_listener){0};
    c->why = (hri_why){0};
    *out = j->plan->job;
    hr_status status = hri_job_change(&j->o, changes, count, &training, &c->o);
    if (status == HR_OK) {
        status = road_size(j, c, out);
    }
    if (status != HR_OK) {
        hri_prose_set(why, status, "%s",
                      c->why.prose.text[0] ? c->why.prose.text : hr_status_text(status));
    }
    hri_text_deinit(&training);
    hri_free(c);
    return status;
}

static void set_road(hri_train_job *j) {
    *j->road = (hri_plan_road){.user = j,
                               .budget_only = j->resumes,
                               .has_input = true,
                               .has_nesterov = true,
                               .job = road_job};
    j->plan->road = j->own_refusal ? NULL : j->road;
    j->plan->data_least_bytes = j->o.data_budget_bytes > j->train_least ? j->train_least : 0;
}

/* ---- all of it ---- */

void hri_train_set_comfort(hri_train_job *j) {
    if (j->plan->threads) {
        const uint64_t wanted = j->train_wanted + j->val_wanted - j->plan->data_bytes;
        const uint64_t most = j->plan->budget_bytes / 8;
        j->plan->comfort_bytes = wanted < most ? wanted : most;
    }
}

/* What the process takes beside the plan: pipelines, the trainer. */
static void count_rest(hri_train_job *j) {
    if (j->plan->threads) {
        j->plan->data_bytes = j->train_bytes + j->val_bytes;
        j->own_bytes = hri_train_own_bytes(j);
        j->plan->job.runtime_bytes += j->plan->data_bytes + j->own_bytes;
        hri_train_set_comfort(j);
        return;
    }
    /* Beside a GPU all this is in the host's memory, which has a budget of its own. */
    const uint64_t pipelines = j->val_count ? 2 : 1, beyond = hri_train_threads(j) * pipelines;
    const uint64_t wanted = j->train_wanted + j->val_wanted + beyond * HRI_TRAIN_WORKER_BYTES;
    const uint64_t budget = j->plan->host_budget_bytes;
    j->spare_host = !budget || wanted <= budget / 8;
    const uint64_t weights = j->want.parameters * 4, band = 64 * MIB; /* one copied at once */
    j->plan->host_extra_bytes = hri_train_own_bytes(j) + (weights < band ? weights : band) +
                                (j->spare_host ? wanted : j->train_bytes + j->val_bytes);
}

static hr_status set_batch(hri_train_job *j, int64_t batch) {
    const int64_t k = j->o.accumulate;
    hri_prose why = {""};
    j->batch = batch * k;
    const hr_status status = hri_train_write_pipelines(j, j->batch, &why);
    if (status != HR_OK) {
        return hri_train_failed(j, status, &why);
    }
    j->plan->job.batch = j->batch;
    j->ask.batch = j->plan->o.batch = j->batch;
    if (k > 1) { /* asked for, so batch norm sees one batch at a time, as it does everywhere */
        j->plan->job.parts = k;
        j->plan->job.allow_coupled = 1;
    } else if (j->resumes && !j->o.micro_batches) {
        j->plan->job.parts = (int64_t)j->resume.progress.parts; /* the same rounding */
        j->plan->job.allow_coupled |= j->resume.progress.parts > 1;
    }
    return HR_OK;
}

hr_status hri_train_size(hri_train_job *j) {
    int64_t batch = j->o.batch;
    hr_status status = check_outputs(j);
    if (status == HR_OK) {
        status = hri_train_open_folder(j);
    }
    if (status == HR_OK) {
        status = look_at_init(j);
    }
    if (j->resumes && !batch) {
        batch = hri_train_facts_batch(&j->resume.about); /* what fitted then is what goes on */
    }
    if (status == HR_OK) {
        status = check_disk(j);
    }
    if (status == HR_OK) {
        status = begin_plan(j, batch);
    }
    if (status == HR_OK) {
        status = hri_train_size_input(j, batch ? batch : 32);
    }
    if (status == HR_OK && !batch) {
        hri_alloc_bound bound;
        hri_plan_job_bound(j->plan, true, &bound);
        status = hri_train_find_batch(j, &batch);
        hri_alloc_bound_close(&bound);
    }
    if (status == HR_OK) {
        status = set_batch(j, batch);
    }
    if (status == HR_OK) {
        status = hri_train_set_length(j);
    }
    if (status == HR_OK) {
        hri_train_warn_of_length(j);
        status = hri_train_set_options(j);
    }
    if (status == HR_OK) {
        count_rest(j);
        set_road(j);
    }
    return status;
}

hr_status hri_train_plan(hri_train_job *j) {
    hri_prose why = {""};
    const hr_status status = hri_plan_answer_make(j->plan, j->answer, j->plans, NULL, &why);
    if (status != HR_OK) {
        return hri_train_failed(j, status, &why);
    }
    j->row = j->answer->row;
    const uint64_t input = j->train_least + (j->val_count ? j->val_bytes : 0);
    if (!j->answer->fits && j->plan->threads && input > j->plan->budget_bytes / 4) {
        char text[512];
        hri_train_explain_input(j, text, sizeof text);
        hri_listener_warn(&j->listener, NULL, "%s", text);
    }
    if (j->answer->fits) {
        hri_plan_job_set_threads(j->plan, j->plans);
    }
    return j->answer->fits && j->row.spill_bytes
               ? hri_output_room(&j->why, j->o.spill, j->row.spill_bytes,
                                 "the file for offloaded values", "`spill=DIR` puts it elsewhere")
               : HR_OK;
}
