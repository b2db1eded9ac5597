/* Opening what is to be planned; see plan_job.h. */
#include "job/plan_job.h"

#include <string.h>

#include "base/alloc.h"
#include "base/cache_dir.h"
#include "device/device.h"
#include "fit/planned.h"
#include "passes/common/prune.h"
#include "passes/common/qat.h"
#include "weights/checkpoint.h"

#define MIB (UINT64_C(1) << 20)

const char *const hri_plan_optimizers[] = {"sgd",  "adam",      "adamw", "rmsprop",
                                           "lion", "adafactor", NULL};
const char *const hri_plan_precisions[] = {"f32", "bf16", "f16", NULL};
const char *const hri_plan_moments[] = {"f32", "bf16", "8bit", NULL};

hr_status hri_plan_job_who(const hr_job_options *o, hri_who *out, hri_why *why) {
    hri_prose prose = {""};
    *out = (hri_who){.size = 1};
    if (!o->net) {
        return HR_OK;
    }
    const hr_status status = hri_who_am_i(out, &prose);
    if (status != HR_OK) {
        return hri_why_prose(why, HR_CAUSE_USAGE, status, NULL, &prose);
    }
    if (out->size > 1 && o->replicas > 1 && (uint64_t)o->replicas != out->size) {
        return hri_why_option(why, HR_E_INVALID, "replicas", "=%lld, but %s started %u processes",
                              (long long)o->replicas, out->launcher, out->size);
    }
    return HR_OK;
}

hr_status hri_plan_job_wire_bytes(hri_plan_job *j, uint64_t *out) {
    const hri_net_options o = {.wire = j->o.net, .who = j->who};
    hri_net_cost_bytes cost = {0};
    hri_prose prose = {""};
    *out = 0;
    if (j->who.size < 2) {
        return HR_OK;
    }
    const hr_status status = hri_net_cost(&o, &cost, &prose);
    if (status != HR_OK) {
        return hri_why_option(&j->why, status, "net", ": %s", prose.text);
    }
    /* the band, and tables by rank (fit/members.c) */
    *out = cost.host_bytes + HRI_PLANNED_BAND + (uint64_t)j->who.size * 512;
    return HR_OK;
}

hr_status hri_plan_job_wire_device_bytes(hri_plan_job *j, uint64_t *out) {
    const hri_net_options o = {.wire = j->o.net, .who = j->who};
    hri_net_cost_bytes cost = {0};
    hri_prose prose = {""};
    const hr_status status = j->who.size < 2 ? HR_OK : hri_net_cost(&o, &cost, &prose);
    if (status != HR_OK) {
        return hri_why_option(&j->why, status, "net", ": %s", prose.text);
    }
    *out = cost.device_bytes;
    return HR_OK;
}

/* Where it is not said masks change until three quarters of the steps, or for a thousand. */
static hr_status settle_prune(hri_plan_job *j) {
    hri_prune *p = (hri_prune *)(uintptr_t)hri_passes_find(&j->passes, "prune"); /* ours */
    if (!p) {
        return HR_OK;
    }
    if (p->end == INT64_MIN) {
        const int64_t end = j->o.steps ? (int64_t)(j->o.steps / 4 * 3) : p->begin + 1000;
        p->end = end > p->begin ? end : p->begin;
    }
    return HR_OK;
}

/* Likewise for what of fake quantization stands still, and when. */
static hr_status settle_qat(hri_plan_job *j) {
    hri_qat *q = (hri_qat *)(uintptr_t)hri_passes_find(&j->passes, "qat"); /* ours */
    if (q) {
        hri_qat_settle(q, j->o.steps);
    }
    return q && j->job.options.precision != HR_PRECISION_F32
               ? hri_why_option(&j->why, HR_E_UNSUPPORTED, "qat",
                                " computes in f32, whose rounding it learns; drop `precision`")
               : HR_OK;
}

/* A run that is resumed has its weights in its checkpoint, and needs no others; else those that it begins with. */
static hr_status open_base(const hri_plan_job *j, hri_checkpoint *c, hri_prose *why) {
    hri_text path = {0};
    hr_status status = HR_E_NOT_FOUND;
    if (j->o.start == HR_START_RESUME && j->o.folder) {
        status = hri_train_last_path(j->o.folder, &path);
        status = status == HR_OK ? hri_checkpoint_open(hri_text_get(&path), c, why) : status;
    }
    hri_text_deinit(&path);
    return status != HR_OK && status != HR_E_NOMEM_HOST && j->o.init
               ? hri_checkpoint_open(j->o.init, c, why)
               : status;
}

/* "weights:bits=4;" where the parameters have small weights: they are trained over as they are. */
static hr_status find_base(const hri_plan_job *j, hri_text *out) {
    hri_checkpoint c = {.file = {.fd = -1}};
    hri_passes passes = {0};
    hri_prose prose = {0};
    hr_status status = open_base(j, &c, &prose);
    if (status == HR_OK) {
        status = hri_passes_parse(c.about.passes, &passes, &prose);
    }
    for (size_t i = 0; status == HR_OK && i < passes.count; i++) {
        if (!strcmp(passes.of[i].pass->name, "weights")) {
            hri_pass_print(&passes.of[i], out);
        }
    }
    hri_passes_deinit(&passes);
    hri_checkpoint_close(&c);
    return status == HR_E_NOMEM_HOST ? status : hri_text_status(out); /* others are no base */
}

static hr_status parse_passes(hri_plan_job *j, hri_prose *prose) {
    hri_text text = {0};
    hr_status status = find_base(j, &text);
    const int based = status == HR_OK && text.used > 0;
    if (status == HR_OK) {
        const char *own = j->o.passes ? j->o.passes : "";
        hri_text_add(&text, "%s%s", based && *own ? ";" : "", own);
        status = hri_text_status(&text);
    }
    status = status == HR_OK ? hri_passes_parse(hri_text_get(&text), &j->passes, prose) : status;
    hri_text_deinit(&text);
    if (status == HR_OK && based && !hri_passes_find(&j->passes, "lora")) {
        return hri_why_option(&j->why, HR_E_UNSUPPORTED, "init",
                              ": %s has weights of 8 or 4 bits, which are not trained themselves; "
                              "train adapters with `lora`",
                              j->o.init ? j->o.init : j->o.folder);
    }
    return status;
}

static hr_status read_passes(hri_plan_job *j) {
    hri_prose prose = {0};
    const hr_status status = parse_passes(j, &prose);
    if (status != HR_OK && j->why.cause) {
        return status;
    }
    if (status == HR_OK && hri_passes_find(&j->passes, "ema") && j->o.shard &&
        (!strcmp(j->o.shard, "weights") || !strcmp(j->o.shard, "auto"))) {
        return hri_why_option(&j->why, HR_E_UNSUPPORTED, "ema",
                              " does not work with `shard=%s`: averages are whole; use states",
                              j->o.shard);
    }
    if (status == HR_OK) {
        const hr_status settled = settle_prune(j);
        return settled == HR_OK ? settle_qat(j) : settled;
    }
    static const char *const names[] = {"lora", "prune", "qat", "freeze", "layer-rates", "ema"};
    const char *name = "passes", *text = prose.text;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t n = strlen(names[i]);
        if (!strncmp(prose.text, names[i], n) && prose.text[n] == ':') {
            name = names[i];
            text = prose.text + n + 2;
        }
    }
    return hri_why_option(&j->why, status == HR_E_NOMEM_HOST ? status : HR_E_INVALID, name, ": %s",
                          text);
}

static hr_status open_model(hri_plan_job *j) {
    hr_error error = {0};
    hr_status status = HR_OK;
    if (!j->o.model == !j->o.custom_model) {
        return hri_why_option(&j->why, HR_E_INVALID, "model",
                              j->o.model ? " and custom_model cannot be combined" : " is missing");
    }
    if (j->o.custom_model) {
        j->model = (hr_model *)j->o.custom_model; /* models are read only */
    } else {
        status = hr_model_open(j->o.model, &j->model, &error);
    }
    if (status == HR_OK) {
        j->job.options.size = sizeof j->job.options;
        status = hr_train_options_parse(j->o.training, &j->job.options, &error);
    }
    if (status != HR_OK) {
        return hri_why_error(&j->why, hri_cause_of(status), status, NULL, &error);
    }
    status = read_passes(j);
    if (status != HR_OK) {
        return status;
    }
    j->what = j->o.model ? j->o.model : hr_model_name(j->model);
    j->objective = (hri_objective){
        .build = hr_model_build, .user = j->model, .no_metrics = 1, .passes = &j->passes};
    j->job.build = j->passes.count ? hri_objective_build : hr_model_build;
    j->job.user = j->passes.count ? (void *)&j->objective : (void *)j->model;
    j->job.batch = j->o.batch;
    j->job.parts = j->o.micro_batches;
    j->job.allow_coupled = j->o.split_norm;
    j->job.evaluate =
        j->o.val_data || j->o.val_pipeline || j->o.val_split > 0 || j->o.val_batch > 0;
    j->job.evaluate_samples = j->o.val_batch;
    j->job.no_offload = j->o.no_offload != 0;
    j->job.keep_gradients = j->o.keep_gradients != 0;
    if (j->job.keep_gradients && j->job.options.precision == HR_PRECISION_F16) {
        return hri_why_option(&j->why, HR_E_UNSUPPORTED, "keep_gradients",
                              " does not work with f16, whose gradients are scaled; use bf16");
    }
    if (j->o.replicas < 0 || j->o.replicas > HRI_PLAN_REPLICAS) {
        return hri_why_option(&j->why, HR_E_RANGE, "replicas", "=%lld is not between 1 and %d",
                              (long long)j->o.replicas, HRI_PLAN_REPLICAS);
    }
    const hr_status known = hri_plan_job_who(&j->o, &j->who, &j->why);
    if (known != HR_OK) {
        return known;
    }
    j->job.replicas = j->who.size > 1 ? j->who.size : (uint32_t)j->o.replicas;
    const hr_status shard = hri_plan_job_read_shard(j);
    if (shard != HR_OK) {
        return shard;
    }
    if (j->job.replicas > 1 && j->job.keep_gradients) {
        return hri_why_option(&j->why, HR_E_UNSUPPORTED, "keep_gradients",
                              " does not work with replicas");
    }
    j->job.effort = j->o.effort;
    j->job.spill = j->o.spill;
    return HR_OK;
}

hr_status hri_plan_job_tick(const hri_plan_job *j) {
    return hri_listener_tick(&j->listener,
                             j->finds_smallest ? "looking for the minimum" : "searching for a plan",
                             0, 0, NULL);
}

static hr_status tick(void *user) {
    return hri_plan_job_tick(user);
}

hr_status hri_plan_job_begin(hr_ctx *ctx, const hr_job_options *options, hri_plan_job *out) {
    *out = (hri_plan_job){.ctx = ctx,
                          .o = *options,
                          .listener = {options->on_event, options->user},
                          .known_base_bytes = out->known_base_bytes};
    hr_status status = open_model(out);
    out->job.tick = tick;
    out->job.tick_user = out;
    if (status == HR_OK) {
        status = hri_listener_tick(&out->listener, "opening the device", 0, 0, &out->why);
    }
    if (status == HR_OK) {
        status = hri_plan_job_open_device(out);
    }
    if (status == HR_OK) {
        status = hri_plan_job_check_spill(out);
    }
    if (status == HR_OK) {
        status = hri_plan_job_read_budgets(out);
    }
    return status == HR_OK ? hri_listener_tick(&out->listener, "planning", 0, 0, &out->why)
                           : status;
}

hr_status hri_plan_job_problem(const hr_job_options *options, const char *name, const char *text,
                               size_t bytes, hri_plan_job *j) {
    *j = (hri_plan_job){.o = *options,
                        .listener = {options->on_event, options->user},
                        .what = name,
                        .is_problem = true};
    hri_prose prose = {0};
    hr_status status = hri_plan_job_read_budgets(j);
    if (status != HR_OK) {
        return status;
    }
    status = hri_problem_parse(text, bytes, &j->problem, &prose);
    if (status == HR_OK) {
        const hri_plan_options o = {.effort = j->o.effort ? j->o.effort : HRI_PLAN_EFFORT};
        status = hri_plan_make(&j->problem, &o, &j->reference, NULL, &prose);
    }
    if (status != HR_OK) {
        return hri_why_prose(&j->why, hri_cause_of_input(status), status, name, &prose);
    }
    j->floor_bytes = j->reference->floor_bytes;
    j->unplanned_bytes = j->reference->unplanned_bytes;
    j->base_time_ns = j->reference->time_ns;
    return HR_OK;
}

void hri_plan_job_close(hri_plan_job *j) {
    hri_holding_give(&j->holding);
    hri_fit_close(&j->fit);
    hri_plan_destroy(j->reference);
    hri_plan_destroy(j->least);
    if (j->is_problem) {
        hri_problem_deinit(&j->problem);
    }
    hri_timing_close(j->timing);
    hri_plan_job_close_others(j);
    hri_engine_close(j->engine);
    hri_admission_close(j->admission);
    hri_threads_destroy(j->threads);
    hri_passes_deinit(&j->passes);
    if (!j->o.custom_model) {
        hr_model_close(j->model);
    }
}

/* ---- planning without a bound ---- */

/* What kernels may be tried in before the arena is there: the budget, less what is taken and what every plan leaves for
 * its graph.  An op that needs more is in no plan of this budget, so whether it is tried changes no result. */
static uint64_t scratch_bytes(const hri_plan_job *j) {
    const uint64_t taken = hri_engine_runtime(j->engine) + HRI_ENGINE_GRAPH_LEAST;
    const uint64_t reserved = hri_admission_bytes(j->admission);
    const uint64_t most = reserved < j->budget_bytes ? reserved : j->budget_bytes;
    return most > taken ? most - taken : 64 * MIB;
}

void hri_plan_job_spill(const hri_plan_job *j, const char *folder, hri_fit_job *out) {
    if (!j->threads || !folder == !j->job.spill) {
        return;
    }
    out->spill = folder ? "." : NULL;
    out->machine.out_bytes_per_ns = out->machine.in_bytes_per_ns = folder ? 1 : 0;
    out->machine.copy_latency_ns = folder ? 10e3 : 0;
    out->nominal.out_bytes_per_ns = out->nominal.in_bytes_per_ns = folder ? 1 : 0;
    out->nominal.copy_latency_ns = folder ? 10e3 : 0;
}

/* What the host's kernels may be tried in: a part of the budget, and never more than planning leaves of it. */
static uint64_t trial_bytes(const hri_plan_job *j) {
    const uint64_t taken = j->fit.facts[0].planning_bytes;
    const uint64_t left = j->budget_bytes > taken ? j->budget_bytes - taken : 1;
    return !j->budget_bytes || left > j->budget_bytes / 4 ? j->budget_bytes / 4 : left;
}

static hr_status open_timing(hri_plan_job *j, uint64_t most_bytes) {
    char folder[1024];
    const hri_timing_options o = {.threads = j->threads,
                                  .kernels = j->job.machine.kernels,
                                  .engine = j->engine,
                                  .try_only = j->o.no_measure != 0,
                                  .folder = j->o.cache ? j->o.cache
                                                       : hri_cache_default(folder, sizeof folder),
                                  .device = j->engine ? j->device_what : j->device_name,
                                  .flops_per_ns = j->job.machine.flops_per_ns,
                                  .bytes_per_ns = j->job.machine.bytes_per_ns,
                                  .most_bytes = most_bytes};
    const hr_status status = hri_timing_open(&o, &j->timing);
    if (status == HR_OK) {
        j->job.time_ns = hri_timing_time;
        j->job.together_ns = hri_timing_together;
        j->job.many_ns = hri_timing_many;
        j->job.pace = j->engine ? hri_timing_take_pace : NULL;
        j->job.time_user = j->timing;
    }
    if (status == HR_OK && j->engine) {
        hri_timing_measure_graphs(j->timing);
    }
    if (status == HR_OK && j->engine && !j->o.device_spec) {
        hri_machine *m = &j->job.machine;
        m->copy_drag = hri_timing_copy_drag(j->timing);
        m->out_bytes_per_ns = hri_timing_keep(j->timing, HRI_TIMING_COPY_OUT, m->out_bytes_per_ns);
        m->in_bytes_per_ns = hri_timing_keep(j->timing, HRI_TIMING_COPY_IN, m->in_bytes_per_ns);
    }
    return status;
}

static bool is_bounded(hr_status status) {
    return status == HR_E_NOMEM_HOST && hri_alloc_bound_hit();
}

hr_status hri_plan_job_fit(hri_plan_job *j) {
    hri_prose prose = {0};
    hr_status status = HR_OK;
    if (j->engine) { /* on a GPU trying a kernel is what loads it */
        status = open_timing(j, scratch_bytes(j));
    }
    const hri_fit_fact *floor = NULL;
    if (status == HR_OK) {
        status = hri_fit_open(&j->job, &j->fit, &prose);
    }
    if (status == HR_OK && !j->fit.too_large && !j->o.no_measure && j->threads) {
        status = open_timing(j, trial_bytes(j));
        if (status == HR_OK) {
            status = hri_fit_set_times(&j->fit, j->job.time_ns, j->job.time_user, &prose);
        }
    }
    if (status == HR_OK) {
        status = hri_plan_job_bound_other(j);
    }
    if (status == HR_OK && !j->fit.too_large) {
        status = hri_fit_floor(&j->fit, &floor, &prose);
    }
    if (is_bounded(status) || (status == HR_OK && j->fit.too_large)) {
        hri_fit_rest(&j->fit);
        j->fit.too_large = 1;
        j->floor_bytes = hri_plan_job_least(j);
        return HR_OK;
    }
    if (status != HR_OK) {
        return hri_why_prose(&j->why, hri_cause_of(status), status, j->what, &prose);
    }
    j->floor_bytes = floor->floor_bytes;
    j->unplanned_bytes = j->fit.unplanned_bytes;
    j->base_time_ns = j->fit.base_time_ns;
    return HR_OK;
}
