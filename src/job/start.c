/* Starting: what the checkpoint will say, weights, records, the trainer and who listens to it; see train.h. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "job/train.h"
#include "models/common/model.h"
#include "passes/common/prune.h"
#include "passes/common/qat.h"

/* ---- what it tells ---- */

static hr_numbers no_numbers(void) {
    return (hr_numbers){.size = sizeof(hr_numbers),
                        .loss = NAN,
                        .accuracy = NAN,
                        .top5 = NAN,
                        .learning_rate = NAN,
                        .gradient_norm = NAN,
                        .seconds = NAN,
                        .wait_seconds = NAN,
                        .samples_per_second = NAN,
                        .memory_bytes = HR_UNKNOWN,
                        .peak_bytes = HR_UNKNOWN};
}

static void tell(hri_train_job *j, int32_t kind, const char *text, const hr_numbers *numbers) {
    const hr_job_event e = {.size = sizeof e,
                            .kind = kind,
                            .job = j->index,
                            .text = text,
                            .numbers = numbers,
                            .trainer = j->door};
    const hr_status status = j->listener.fn ? j->listener.fn(j->listener.user, &e) : HR_OK;
    j->answered = j->answered == HR_OK ? status : j->answered; /* asked for after the step */
}

/* Samples that were skipped since the last time; of each pipeline the first hundred have names. */
static void name_bad(hri_train_job *j) {
    hri_supply *const supplies[] = {j->train, j->validation};
    for (int i = 0; i < 2; i++) {
        const char *bad;
        while (supplies[i] &&
               (bad = hr_pipeline_bad(hri_supply_pipeline(supplies[i]), j->bad_said[i])) != NULL) {
            j->bad_said[i]++;
            tell(j, HR_EVENT_BAD_SAMPLE, bad, NULL);
        }
    }
}

static void on_save(void *user, int failed, const char *text) {
    tell(user, failed ? HR_EVENT_SAVE_FAILED : HR_EVENT_SAVED, text, NULL);
}

/* Inside long steps and validations.  To stop is to finish the step first, so only a listener that failed ends it now. */
static hr_status on_tick(void *user) {
    static const uint64_t every_ns = 100000000;
    hri_train_job *j = user;
    const uint64_t now = hri_clock_ns();
    if (now - j->ticked_ns >= every_ns) {
        j->ticked_ns = now;
        tell(j, HR_EVENT_TICK, "training", NULL);
    }
    return j->answered == HR_OK || j->answered == HR_E_CANCELLED ? HR_OK : j->answered;
}

static void on_step(void *user, const hri_record_step *s) {
    hri_train_job *j = user;
    j->ticked_ns = hri_clock_ns();
    name_bad(j);
    const hr_numbers n = hri_train_numbers(j, s);
    tell(j, HR_EVENT_STEP, "", &n);
}

hr_numbers hri_train_numbers(const hri_train_job *j, const hri_record_step *s) {
    hr_numbers n = no_numbers();
    n.step = s->step;
    n.epoch = s->epoch;
    n.samples = (uint64_t)j->batch;
    n.loss = s->loss;
    n.accuracy = s->accuracy;
    n.top5 = s->top5;
    n.learning_rate = s->rate;
    n.gradient_norm = s->norm;
    n.seconds = s->seconds;
    n.wait_seconds = s->wait_seconds;
    n.samples_per_second = s->samples_per_second;
    n.memory_bytes = s->memory_bytes;
    n.peak_bytes = s->peak_bytes;
    return n;
}

static void on_validation(void *user, const hri_record_validation *v) {
    hr_numbers n = no_numbers();
    name_bad(user);
    n.step = v->step;
    n.epoch = v->epoch;
    n.samples = v->samples;
    n.loss = v->loss;
    n.accuracy = v->accuracy;
    n.top5 = v->top5;
    n.seconds = v->seconds;
    n.best = v->best;
    tell(user, HR_EVENT_VALIDATED, "", &n);
}

static void on_epoch(void *user, const hri_record_epoch *e, const hri_record_validation *v) {
    hr_numbers n = no_numbers();
    (void)v;
    n.step = e->step;
    n.epoch = e->epoch;
    n.samples = e->samples;
    n.loss = e->loss;
    n.accuracy = e->accuracy;
    n.top5 = e->top5;
    n.seconds = e->seconds;
    n.wait_seconds = e->wait_seconds;
    n.samples_per_second = e->samples_per_second;
    n.memory_bytes = e->memory_bytes;
    n.peak_bytes = e->peak_bytes;
    tell(user, HR_EVENT_EPOCH, "", &n);
}

static void on_log(void *user, hr_log_level level, const char *line) {
    (void)level;
    tell(user, HR_EVENT_WARNING, line, NULL);
}

/* ---- what a checkpoint says ---- */

/* What stands for the model: the text that opens it, or a name and a number that no other graph has. */
static const char *name_model(hri_train_job *j) {
    const hr_model *m = j->plan->model;
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

/* What passes made of it, as text; NULL: none. */
static hr_status name_passes(hri_train_job *j, const char **out) {
    hri_text text = {0};
    hri_passes_print(&j->plan->passes, &text);
    hr_status status = hri_text_status(&text);
    *out = status == HR_OK && text.used ? hri_arena_strdup(&j->facts, hri_text_get(&text)) : NULL;
    status = status == HR_OK && text.used && !*out ? HR_E_NOMEM_HOST : status;
    hri_text_deinit(&text);
    return status;
}

static hr_status fill_about(hri_train_job *j, hri_prose *why) {
    const char *model = name_model(j), *passes;
    if (!model || name_passes(j, &passes) != HR_OK) {
        return HR_E_NOMEM_HOST;
    }
    j->about = (hri_about){.model = model,
                           .graph = j->graph,
                           .passes = passes,
                           .prefix = j->plan->model->prefix,
                           .precision = hri_plan_precisions[j->plan->job.options.precision],
                           .source = j->source.text,
                           .pixels = j->objective.pixels,
                           .input = j->want.name,
                           .loss = j->loss,
                           .table = j->source.table,
                           .classes = (const char *const *)j->source.classes,
                           .class_count = j->source.classes ? j->source.class_count : 0};
    if (j->o.val_split > 0) {
        j->about.split = (hri_split){.fraction = j->o.val_split,
                                     .seed = j->seeds.data,
                                     .val_count = j->val_count,
                                     .train_count = j->train_count};
    }
    const hr_status status = hri_train_facts(j);
    return status == HR_OK ? hri_about_check(&j->about, why) : status;
}

/* ---- weights and records ---- */

static hr_status load_init(hri_train_job *j, hri_prose *why) {
    const hri_values to = {.put = hri_planned_put,
                           .user = j->planned,
                           .buffer_bytes = hri_planned_band_bytes(j->planned)};
    return hri_init_load(j->o.init, hri_planned_graph(j->planned), &to, j->want.classes,
                         j->plan->model ? j->plan->model->heads : NULL, &j->init, why);
}

static hr_status open_record(hri_train_job *j, hri_prose *why) {
    const hr_job_options *o = &j->o;
    const hri_record_options options = {.lines = o->log,
                                        .events = o->tensorboard,
                                        .picture = o->svg,
                                        .every = o->log_every,
                                        .log = on_log,
                                        .log_user = j};
    const hri_record_start start = {.model = j->about.model,
                                    .data = j->source.text,
                                    .device = j->plan->device_name,
                                    .optimizer =
                                        hri_plan_optimizers[j->plan->job.options.optimizer],
                                    .precision = j->about.precision,
                                    .step = j->resumes ? j->resume.progress.state.step : 0,
                                    .steps = j->total_steps,
                                    .epochs = j->epochs,
                                    .batch = (uint64_t)j->batch,
                                    .parameters = j->want.parameters,
                                    .seed = o->seed,
                                    .budget_bytes = j->plan->budget_bytes,
                                    .planned_peak_bytes = j->row.peak_bytes,
                                    .runtime_bytes = j->row.runtime_bytes,
                                    .persistent_bytes = j->row.persistent_bytes,
                                    .arena_bytes = j->row.arena_bytes,
                                    .micro_batches = j->row.micro_batches};
    return o->log || o->tensorboard || o->svg ? hri_record_open(&options, &start, &j->record, why)
                                              : HR_OK;
}

static hr_status write_choices(hri_train_job *j, hri_prose *why) {
    if (j->plan->engine) {
        hri_gpu_environment e;
        hri_gpu_environment_get(hri_engine_gpu(j->plan->engine), &e);
        if (e.untried) {
            hri_listener_warn(&j->listener, NULL,
                              "%u of %u GPU algorithms could not be tried because memory is "
                              "short: results may differ from another run's in the last bits",
                              e.untried, e.noted);
        }
    }
    if (!j->plan->engine || !j->choices || j->ask.gpu_choices) {
        return HR_OK;
    }
    hr_status status = HR_OK;
    if (!j->o.gpu_choices) {
        status = hri_path_make_folders(j->folder, why);
    }
    return status == HR_OK ? hri_gpu_choices_write(hri_engine_gpu(j->plan->engine), j->choices, why)
                           : status;
}

/* ---- all of it ---- */

/* While a schedule still changes the model (more zeros, ranges that move), no parameters are the best: those with the least of
 * it would be. */
static uint64_t best_from(const hri_passes *passes) {
    const hri_prune *prune = hri_passes_find(passes, "prune");
    const hri_qat *qat = hri_passes_find(passes, "qat");
    const int64_t zeros = prune ? prune->end + 1 : 0, ranges = qat ? hri_qat_settled(qat) : 0;
    return (uint64_t)(zeros > ranges ? zeros : ranges);
}

static hri_trainer_options trainer_options(hri_train_job *j) {
    return (hri_trainer_options){
        .planned = j->planned,
        .feeds = &j->feeds,
        .about = &j->about,
        .epochs = j->epochs,
        .steps = j->steps,
        .steps_per_epoch = j->steps_per_epoch,
        .validate_every = j->o.val_every,
        .patience = j->o.patience,
        .min_delta = j->o.min_delta,
        .best_from = best_from(&j->plan->passes),
        .scorer = j->scorer,
        .best_by = j->best_by,
        .save_every = j->o.save_every,
        .save_seconds = j->o.save_seconds,
        .folder = j->folder,
        .locked = 1,
        .resume = j->resumes ? &j->resume : NULL,
        .record = j->record,
        .begin = {.batch = (uint64_t)j->batch,
                  .seed = j->o.seed,
                  .parts = j->row.micro_batches,
                  .input_print = hr_pipeline_fingerprint(hri_supply_pipeline(j->train))},
        .log = on_log,
        .log_user = j,
        .on_step = on_step,
        .on_validation = on_validation,
        .on_epoch = on_epoch,
        .on_save = on_save,
        .on_tick = on_tick,
        .user = j};
}

hr_status hri_train_start(hri_train_job *j) {
    hri_prose why = {""};
    hr_status status = fill_about(j, &why);
    if (status == HR_OK && j->o.init && !j->resumes) {
        status = load_init(j, &why);
    }
    if (status == HR_OK) {
        status = open_record(j, &why);
    }
    if (status == HR_OK) {
        const hri_trainer_options o = trainer_options(j);
        status = hri_trainer_open(&o, &j->trainer, &why);
        hri_checkpoint_close(&j->resume);
    }
    if (status == HR_OK) {
        const hri_progress_state *at = hri_trainer_progress(j->trainer);
        status = hri_planned_agree(j->planned, at->input_print ^ at->digest, &why);
    }
    if (status != HR_OK) {
        return hri_train_failed(j, status, &why);
    }
    status = write_choices(j, &why);
    if (status != HR_OK) {
        return hri_why_prose(&j->why, hri_cause_of(status), status, NULL, &why);
    }
    hr_numbers n = no_numbers();
    n.step = hri_trainer_progress(j->trainer)->state.step;
    n.epoch = hri_trainer_progress(j->trainer)->epoch + 1;
    tell(j, HR_EVENT_STARTED, "", &n);
    return HR_OK;
}

void hri_train_tell_ranks(hri_train_job *j, hr_status status, const char *text) {
    if (j->net && status != HR_E_PEER) {
        hri_net_stop(j->net, status, "rank %u failed: %s", j->who.rank, text);
    }
}

void hri_train_release(hri_train_job *j) {
    const hri_fit_case *c = j->plans->c;
    const bool is_plain = c->parts == 1 && j->plans->copied_bytes == 0;
    if (j->plan->timing && is_plain && !*j->name) { /* two that share a GPU say nothing of it */
        hri_timing_pace_of(j->plan->timing, c->pieces[0].g, j->plans->time_ns, &j->pace);
    }
    hri_fit_plans_deinit(j->plans);
    hri_fit_drop_others(&j->plan->fit, c);
    hri_fit_release(&j->plan->fit);
    hri_timing_close(j->plan->timing);
    j->plan->timing = NULL;
}

void hri_train_close(hri_train_job *j) {
    hri_trainer_close(j->trainer);
    hri_record_close(j->record);
    hri_planned_close(j->planned);
    hri_net_close(j->net);
    hri_supply_close(j->train);
    hri_supply_close(j->validation);
    hri_scorer_close(j->scorer);
    hri_checkpoint_close(&j->resume);
    hri_source_deinit(&j->source);
    hri_source_deinit(&j->val_source);
    hri_arena_deinit(&j->facts);
    hri_text_deinit(&j->model_text);
    hri_text_deinit(&j->line);
    hri_text_deinit(&j->weights);
    hri_text_deinit(&j->options);
    hri_text_deinit(&j->augment);
    hri_folder_close(&j->lock);
    hri_free(j->folder);
    hri_free(j->choices);
    hri_free(j->graph);
    hri_free(j->class_weights);
    *j = (hri_train_job){.resume = {.file = {.fd = -1}}};
}
