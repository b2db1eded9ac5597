/* headroom plan: fits or not, what the bytes are, what it costs in time, what else would fit.
 *
 * The one idea: a plan is proven before anything runs, so the whole answer is here: no run can surprise.  --try runs
 * a few steps on made-up data all the same, and measures from outside what was promised.  All of it is the library's
 * (headroom/job.h); here flags become a job, and the answer is shown. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cli/common/command.h"
#include "cli/common/outputs.h"
#include "cli/common/plan_flags.h"
#include "cli/common/spell.h"
#include "manual/train_flags.h"
#include "job/change.h"
#include "job/plan_file.h"
#include "job/plan_object.h"
#include "see/outputs.h"
#include "show/help_texts.h"

#define ASSUMED "synthetic"
enum { ASSUMED_SAMPLES = 1024 }; /* of it, unless it says how many */

/* Everything that one run of the command holds. */
typedef struct work {
    hri_cli *cli;
    const hri_plan_flags *flags;
    const char *model;   /* as it was typed; NULL: a problem */
    const char *assumed; /* data that the plan counts though none was named; NULL: none */
    char assumed_text[40];
    hri_text training, passes;
    hr_ctx *ctx;
    hr_plan *plan;
    hri_plan_speller speller;
    hri_plan_trial trial;
    hri_plan_saved saved;
    float *losses;
} work;

static int failed(const work *w, const char *what, hr_status status, const hri_prose *why) {
    hri_say_error(w->cli, "%s: %s", what, why->text[0] ? why->text : hr_status_text(status));
    return hri_cli_exit_code(status);
}

/* ---- the job ---- */

static int plan_problem(work *w, const hr_job_options *job) {
    char *text;
    size_t bytes;
    hri_prose why = {0};
    hr_error error = {0};
    const char *path = w->flags->problem;
    hr_status status = hri_file_read(path, HRI_PROBLEM_FILE_BYTES, &text, &bytes, &why);
    if (status != HR_OK) {
        hri_say_error(w->cli, "%s", why.text);
        return hri_cli_exit_code_of_input(status);
    }
    const hr_problem_options o = {.size = sizeof o,
                                  .name = path,
                                  .text = text,
                                  .text_bytes = bytes,
                                  .budget = job->budget,
                                  .host_budget = job->host_budget,
                                  .plan_file = job->plan_file,
                                  .effort = job->effort,
                                  .no_offload = job->no_offload,
                                  .on_event = job->on_event,
                                  .user = job->user};
    status = hr_plan_problem(&o, &w->plan, &error);
    hri_free(text);
    return status == HR_OK ? HRI_EXIT_YES : hri_cli_error(w->cli, &error);
}

/* On the host the budget is of the process, so that a run's input, threads, records and checkpoints are in it.  Where no
 * data is named, made-up data stands for it: what is called the minimum then is one for `train`. */
static bool assumes_data(const hri_plan_flags *f) {
    return !f->data && !f->net && !strcmp(f->device, "host") && !f->save && !f->load &&
           !f->compare && !f->save_problem; /* files have the step */
}

/* No less than a batch. */
static const char *assume(work *w, int64_t batch) {
    if (batch <= ASSUMED_SAMPLES) {
        return ASSUMED;
    }
    snprintf(w->assumed_text, sizeof w->assumed_text, ASSUMED ":count=%lld", (long long)batch);
    return w->assumed_text;
}

static int plan_model(work *w, hr_job_options *job) {
    hr_error error = {0};
    job->model = w->model;
    const int code = hri_cli_open_for(w->cli, w->flags->device, &w->ctx);
    if (code != HRI_EXIT_YES) {
        return code;
    }
    hr_status status = HR_E_UNSUPPORTED;
    if (assumes_data(w->flags)) {
        job->data = w->assumed = assume(w, job->batch);
        status = hr_job_plan(w->ctx, job, &w->plan, &error);
        if (status != HR_OK && status != HR_E_CANCELLED && error.cause == HR_CAUSE_USAGE) {
            job->data = w->assumed = NULL; /* inputs that nobody can make up: the step alone */
            status = HR_E_UNSUPPORTED;
        }
    }
    if (!w->assumed) {
        status = hr_job_plan(w->ctx, job, &w->plan, &error);
    }
    return status == HR_OK ? HRI_EXIT_YES : hri_cli_error(w->cli, &error);
}

static int explore(work *w) {
    hr_error error = {0};
    const hri_plan_flags *f = w->flags;
    const uint32_t what = (f->choices && !f->load ? HR_EXPLORE_BATCH | HR_EXPLORE_CHOICES : 0u) |
                          ((f->curve || f->svg) && !f->load ? HR_EXPLORE_CURVE : 0u);
    const hr_status status = hr_job_explore(w->plan, what, &error);
    return status == HR_OK ? HRI_EXIT_YES : hri_cli_error(w->cli, &error);
}

static int make(work *w) {
    hr_job_options job;
    int code = hri_plan_flags_job(w->cli, w->flags, &w->training, &w->passes, &job);
    if (code == HRI_EXIT_YES) {
        job.plan_file = w->flags->load;
        code = w->model ? plan_model(w, &job) : plan_problem(w, &job);
    }
    return code == HRI_EXIT_YES ? explore(w) : code;
}

/* ---- ways out as flags ---- */

/* What has no flag here goes into --options. */
static hr_status spell(const work *w, const hri_plan_way *way, hri_change *out, hri_text *options) {
    const hri_options o = {.fields = hri_plan_fields, .count = hri_fields_count(hri_plan_fields)};
    hri_spell_changes(way->changes, way->change_count, out);
    for (uint32_t i = 0; i < way->change_count; i++) {
        if (!hri_options_field(&o, out[i].name)) {
            hri_training_set(w->flags->options, out[i].name, out[i].text, options);
            out[i] = (hri_change){"options", hri_text_get(options)};
        }
    }
    return hri_text_status(options);
}

static hr_status spell_flags(void *user, const hri_plan_way *way, hri_text *out) {
    hri_change changes[HRI_WAY_CHANGES];
    hri_text options = {0};
    hr_status status = spell(user, way, changes, &options);
    if (status == HR_OK) {
        status = hri_spell_flags(hri_plan_fields, changes, way->change_count, out);
    }
    hri_text_deinit(&options);
    return status;
}

static hr_status add_command(const work *w, const hri_change *changes, size_t count,
                             hri_text *out) {
    hri_options o;
    hri_plan_flags f;
    hr_status status =
        hri_options_changed(&o, hri_plan_fields, w->flags, sizeof f, changes, count, &f, NULL);
    if (status == HR_OK) {
        status = hri_cli_command(w->cli, "plan", w->model, hri_plan_fields, &f, out);
        hri_options_deinit(&o);
    }
    return status;
}

static hr_status spell_command(void *user, const hri_plan_way *way, hri_text *out) {
    hri_change changes[HRI_WAY_CHANGES];
    hri_text options = {0};
    hr_status status = spell(user, way, changes, &options);
    if (status == HR_OK) {
        status = add_command(user, changes, way->change_count, out);
    }
    hri_text_deinit(&options);
    return status;
}

/* ---- files ---- */

static hr_status add_piece(void *user, const char *text, size_t bytes) {
    hri_text_bytes(user, text, bytes);
    return hri_text_status(user);
}

static int write_form(work *w, const char *path, hr_plan_format format) {
    hri_text text = {0};
    hri_prose why = {0};
    hr_status status = hr_plan_print(w->plan, format, 0, add_piece, &text);
    if (status != HR_OK) {
        hri_text_deinit(&text);
        return hri_cli_failed(w->cli, NULL, path, status);
    }
    status = hri_file_write(path, hri_text_get(&text), text.used, &why);
    hri_text_deinit(&text);
    return status == HR_OK ? HRI_EXIT_YES : failed(w, "plan", status, &why);
}

static int save(work *w) {
    hr_error error = {0};
    const hr_status status = hr_plan_save(w->plan, w->flags->save, &error);
    return status == HR_OK ? HRI_EXIT_YES : hri_cli_error_of(w->cli, "--save: ", &error);
}

static int write_seen(work *w) {
    hri_prose why = {0};
    if (!w->plan->answer.fits) {
        hri_say_warning(w->cli, "%s: not written, because nothing fits",
                        w->flags->html ? "--html" : "--record");
        return HRI_EXIT_YES;
    }
    const hr_status status = hri_see_write_plan(
        w->plan, &(hri_see_outputs){.html = w->flags->html, .record = w->flags->record}, &why);
    return status == HR_OK ? HRI_EXIT_YES : failed(w, "plan", status, &why);
}

static int write_files(work *w) {
    const hri_plan_flags *f = w->flags;
    const bool fits = w->plan->answer.fits;
    int code = HRI_EXIT_YES;
    if (f->save_problem) {
        code = write_form(w, f->save_problem, HR_PLAN_PROBLEM);
    }
    if (code == HRI_EXIT_YES && f->dot && !w->model) {
        hri_say_error(w->cli, "--dot: a problem has no graph");
        code = HRI_EXIT_USAGE;
    } else if (code == HRI_EXIT_YES && f->dot) {
        code = write_form(w, f->dot, HR_PLAN_DOT);
    }
    if (code == HRI_EXIT_YES && f->svg && !f->load) {
        code = write_form(w, f->svg, HR_PLAN_CURVE_SVG);
    }
    if (code == HRI_EXIT_YES && f->map && fits) {
        code = write_form(w, f->map, HR_PLAN_MAP_SVG);
    }
    if (code == HRI_EXIT_YES && (f->html || f->record)) {
        code = write_seen(w);
    }
    return code == HRI_EXIT_YES && f->save && fits ? save(w) : code;
}

/* ---- beside the answer ---- */

static int compare(work *w) {
    hri_prose why = {0};
    hri_fit_plans plans = {0};
    hri_plan *plan = NULL;
    hri_plan_job *j = &w->plan->job;
    const hr_status status = hri_plan_file_load(j, w->flags->compare, &plans, &plan, &why);
    if (status != HR_OK) {
        return failed(w, "--compare", status, &why);
    }
    w->saved.path = w->flags->compare;
    hri_plan_row_of_either(j, &plans, plan, &w->saved.row);
    hri_fit_plans_deinit(&plans);
    hri_plan_destroy(plan);
    return HRI_EXIT_YES;
}

static int try_plan(work *w) {
    hr_error error = {0};
    hr_try_result r = {.size = sizeof r};
    w->losses = hri_calloc((size_t)w->flags->tries, sizeof *w->losses);
    if (!w->losses) {
        return hri_cli_failed(w->cli, NULL, "--try", HR_E_NOMEM_HOST);
    }
    const hr_status status = hr_job_try(w->plan, (uint64_t)w->flags->tries, w->losses, &r, &error);
    if (status != HR_OK) {
        return hri_cli_error_of(w->cli, "--try: ", &error);
    }
    w->trial = (hri_plan_trial){.losses = w->losses,
                                .steps = r.steps,
                                .measured = {.planned_bytes = r.planned_arena_bytes,
                                             .arena_bytes = r.measured_arena_bytes,
                                             .peak_bytes = r.measured_peak_bytes},
                                .seconds = r.seconds};
    return HRI_EXIT_YES;
}

/* ---- the next command ---- */

/* The flags that say what is trained and where, which `train` has too. */
static const char *const carried[] = {
    "batch",    "budget",   "device",     "optimizer", "momentum",    "options", "lora",
    "init",     "freeze",   "prune",      "qat",       "precision",   "moments", "micro-batches",
    "replicas", "shard",    "ghost-norm", "measure",   "exact",       "offload", "spill",
    "data",     "val-data", "val-split",  "val-batch", "data-budget", NULL};

/* "headroom train MODEL --data synthetic" with the flags of the plan. */
static hr_status add_train(const work *w, hri_text *out) {
    hri_field fields[sizeof carried / sizeof carried[0]] = {{0}};
    const hri_options o = {.fields = hri_plan_fields, .count = hri_fields_count(hri_plan_fields)};
    for (size_t i = 0; carried[i]; i++) {
        fields[i] = *hri_options_field(&o, carried[i]);
    }
    hr_status status = hri_cli_command(w->cli, "train", w->model, fields, w->flags, out);
    hri_text_add(out, "%s", w->flags->data ? "" : " --data synthetic");
    return status == HR_OK ? hri_text_status(out) : status;
}

static void say_next(const work *w) {
    hri_text command = {0};
    const hri_change curve = {"curve", "true"};
    const hri_plan_job *j = &w->plan->job;
    const bool trains = w->model && (j->threads || j->engine);
    const hr_status status = trains && hri_command_find("train")
                                 ? add_train(w, &command)
                                 : add_command(w, &curve, 1, &command);
    if (status == HR_OK && hri_text_status(&command) == HR_OK) {
        hri_say_next(w->cli, hri_text_get(&command));
    }
    hri_text_deinit(&command);
}

/* ---- the command ---- */

static int show(work *w) {
    const hri_plan_sheet sheet = {.job = &w->plan->job,
                                  .answer = &w->plan->answer,
                                  .trial = w->trial.steps ? &w->trial : NULL,
                                  .saved = w->saved.path ? &w->saved : NULL,
                                  .speller = &w->speller,
                                  .assumed = w->assumed,
                                  .alone = w->plan->job.threads && !w->plan->together,
                                  .curve = w->flags->curve};
    const int code = hri_cli_answer(w->cli, &sheet, w->flags->json);
    if (!w->flags->json && code == HRI_EXIT_YES) {
        say_next(w);
    } else if (!w->flags->json && code == HRI_EXIT_NO) {
        hri_cli_next_way(w->cli, &sheet);
    }
    return code;
}

static int look_at_quantized(work *w) {
    hri_prose why = {0};
    const hr_status status =
        hri_quantized_look(&w->plan->job, w->flags->quantize, &w->plan->answer.quantized, &why);
    return status == HR_OK ? HRI_EXIT_YES : failed(w, "--quantize", status, &why);
}

static int work_through(work *w) {
    int code = make(w);
    if (code == HRI_EXIT_YES && w->flags->quantize) {
        code = look_at_quantized(w);
    }
    hri_waiting_stop(w->cli->waiting);
    if (code == HRI_EXIT_YES) {
        code = write_files(w);
    }
    if (code == HRI_EXIT_YES && w->flags->compare) {
        code = compare(w);
    }
    if (code == HRI_EXIT_YES && w->flags->tries && w->plan->answer.fits) {
        code = try_plan(w);
    }
    return code == HRI_EXIT_YES ? show(w) : code;
}

/* Before anything is planned. */
static int check_outputs(hri_cli *cli, const hri_plan_flags *f) {
    const struct {
        const char *flag, *path;
    } outputs[] = {{"--svg", f->svg},
                   {"--map", f->map},
                   {"--html", f->html},
                   {"--record", f->record},
                   {"--dot", f->dot},
                   {"--save", f->save},
                   {"--save-problem", f->save_problem}};
    int code = HRI_EXIT_YES;
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0] && code == HRI_EXIT_YES; i++) {
        code = hri_cli_output_check(cli, outputs[i].flag, outputs[i].path, HRI_OUTPUT_FILE);
    }
    return code == HRI_EXIT_YES ? hri_cli_output_check(cli, "--spill", f->spill, HRI_OUTPUT_FOLDER)
                                : code;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    hri_plan_flags flags = *(const hri_plan_flags *)options;
    work w = {.cli = cli, .flags = &flags, .model = count ? arguments[0] : NULL};
    hri_waiting waiting;
    hri_cli_wrap(cli);
    if ((count == 1) == (flags.problem != NULL)) {
        hri_say_error(cli, count ? "plan: MODEL and --problem cannot be combined"
                                 : "plan: MODEL or --problem FILE is required");
        hri_say_hint(cli, "headroom plan --help");
        return HRI_EXIT_USAGE;
    }
    if (flags.load && flags.data) {
        hri_say_error(cli, "--load and --data cannot be combined: a saved plan has no input");
        return HRI_EXIT_USAGE;
    }
    hri_alloc_tight(true);
    if (flags.tries) {
        flags.choices = false; /* memory that looking around would take is the budget's */
    }
    w.speller = (hri_plan_speller){.user = &w, .flags = spell_flags, .command = spell_command};
    hri_waiting_start(&waiting, &cli->err_term, w.model ? w.model : flags.problem);
    cli->waiting = &waiting;
    int code = check_outputs(cli, &flags);
    code = code == HRI_EXIT_YES ? work_through(&w) : code;
    hri_waiting_stop(&waiting);
    cli->waiting = NULL;
    hr_plan_destroy(w.plan);
    hr_ctx_destroy(w.ctx);
    hri_text_deinit(&w.training);
    hri_text_deinit(&w.passes);
    hri_free(w.losses);
    return code;
}

const hri_command hri_command_plan = {
    .name = "plan",
    .summary = "tell whether a training run fits a budget, and at what cost",
    .arguments = "[MODEL]",
    .choices = "",
    .arguments_max = 1,
    .help = hri_help_plan,
    .examples = {{"headroom plan resnet50 --batch 32 --budget 4GiB", "does it fit in 4 GiB?"},
                 {"headroom plan gpt2 --batch 8 --budget 50% --device null:24GiB",
                  "half of a hypothetical GPU"},
                 {"headroom plan unet --batch 8 --curve --svg curve.svg",
                  "step time against memory"},
                 {"headroom plan resnet18:size=64 --batch 16 --budget 256MiB --try 3",
                  "run three steps and measure"}},
    .fields = hri_plan_fields,
    .options_bytes = sizeof(hri_plan_flags),
    .settle = hri_train_keys_settle,
    .run = run,
};
