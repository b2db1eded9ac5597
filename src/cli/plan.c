/* headroom plan: fits or not, what the bytes are, what it costs in time, what else would fit.
 *
 * The one idea: a plan is proven before anything runs, so the whole answer is here: no run can surprise.  --try runs
 * a few steps on made-up data all the same, and measures from outside what was promised. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "cli/common/outputs.h"
#include "cli/common/command.h"
#include "cli/common/plan_file.h"
#include "cli/common/plan_show.h"
#include "cli/common/plan_ways.h"
#include "cli/common/train_flags.h"
#include "run/resident.h"
#include "fit/planned.h"

/* Everything that one run of the command holds. */
typedef struct work {
    hri_cli *cli;
    const hri_plan_flags *flags;
    hri_plan_job job;
    hri_plan_road road;
    hri_waiting *waiting;
    hri_plan_answer answer;
    hri_fit_plans plans;
    hri_plan *plan; /* of a problem */
    hri_plan_trial trial;
    hri_plan_saved saved;
    float *losses;
} work;

static int failed(const work *w, const char *what, hr_status status, const hri_prose *why) {
    hri_say_error(w->cli, "%s: %s", what, why->text[0] ? why->text : hr_status_text(status));
    return hri_cli_exit_code(status);
}

/* ---- files ---- */

static int write_text(const work *w, const char *path, const char *text, size_t bytes) {
    hri_prose why = {0};
    const hr_status status = hri_file_write(path, text, bytes, &why);
    return status == HR_OK ? HRI_EXIT_YES : failed(w, "plan", status, &why);
}

/* The case that was planned, or that of the whole batch. */
static hr_status case_of(work *w, hri_fit_case **out) {
    hri_prose why = {0};
    if (w->plans.c) {
        *out = w->plans.c;
        return HR_OK;
    }
    return hri_fit_case_get(&w->job.fit, w->job.job.batch, 0, out, &why);
}

static int write_problem(work *w) {
    char *text;
    hri_fit_case *c = NULL;
    hr_status status = w->job.model ? case_of(w, &c) : HR_OK;
    if (status == HR_OK) {
        status = hri_problem_print(c ? &c->pieces[0].x.problem : &w->job.problem, &text);
    }
    if (status != HR_OK) {
        return hri_cli_failed(w->cli, NULL, w->flags->save_problem, status);
    }
    const int code = write_text(w, w->flags->save_problem, text, strlen(text));
    hri_free(text);
    return code;
}

static void write_piece(void *user, const char *text) {
    fputs(text, user);
}

static int write_dot(work *w) {
    if (!w->job.model) {
        hri_say_error(w->cli, "--dot: a problem has no graph");
        return HRI_EXIT_USAGE;
    }
    hri_fit_case *c = NULL;
    const hr_status status = case_of(w, &c);
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = status == HR_OK ? open_memstream(&text, &bytes) : NULL;
    if (!f) {
        return hri_cli_failed(w->cli, NULL, w->flags->dot, HR_E_NOMEM_HOST);
    }
    hr_graph_print(c->pieces[0].g, HR_GRAPH_DOT, write_piece, f);
    const int bad = fclose(f);
    const int code = bad ? hri_cli_failed(w->cli, NULL, w->flags->dot, HR_E_NOMEM_HOST)
                         : write_text(w, w->flags->dot, text, bytes);
    free(text); /* the stream's */
    return code;
}

static int write_svg(const work *w) {
    char *text = hri_plan_show_svg(&w->job, &w->answer);
    if (!text) {
        return hri_cli_failed(w->cli, NULL, w->flags->svg, HR_E_NOMEM_HOST);
    }
    const int code = write_text(w, w->flags->svg, text, strlen(text));
    hri_free(text);
    return code;
}

/* Of the part of the training that takes most. */
static int write_map(const work *w) {
    const uint32_t piece = w->plans.peak_piece;
    char *text = w->job.model ? hri_plan_show_map(&w->job, &w->plans.c->pieces[piece].x.problem,
                                                  w->plans.plans[piece])
                              : hri_plan_show_map(&w->job, &w->job.problem, w->plan);
    if (!text) {
        return hri_cli_failed(w->cli, NULL, w->flags->map, HR_E_NOMEM_HOST);
    }
    const int code = write_text(w, w->flags->map, text, strlen(text));
    hri_free(text);
    return code;
}

static int write_files(work *w) {
    int code = HRI_EXIT_YES;
    if (w->flags->save_problem) {
        code = write_problem(w);
    }
    if (code == HRI_EXIT_YES && w->flags->dot) {
        code = write_dot(w);
    }
    if (code == HRI_EXIT_YES && w->flags->svg) {
        code = write_svg(w);
    }
    if (code == HRI_EXIT_YES && w->flags->map && w->answer.fits) {
        code = write_map(w);
    }
    if (code == HRI_EXIT_YES && w->flags->save && w->answer.fits) {
        hri_prose why = {0};
        const hr_status status =
            hri_plan_file_save(&w->job, &w->plans, w->plan, w->flags->save, &why);
        code = status == HR_OK ? HRI_EXIT_YES : failed(w, "--save", status, &why);
    }
    return code;
}

/* ---- answers ---- */

/* A loaded plan stands in the place of one that was searched for. */
static int answer_from_file(work *w) {
    hri_prose why = {0};
    const hr_status status = hri_plan_file_load(&w->job, w->flags->load, &w->plans, &w->plan, &why);
    if (status != HR_OK) {
        return failed(w, "--load", status, &why);
    }
    w->answer = (hri_plan_answer){.fits = true, .largest_batch = -1};
    if (w->job.model) {
        hri_plan_row_of(&w->job, &w->plans, &w->answer.row);
    } else {
        w->answer.row =
            (hri_plan_row){.fits = true,
                           .peak_bytes = w->plan->arena_bytes,
                           .persistent_bytes = w->plan->persistent_bytes,
                           .arena_bytes = w->plan->arena_bytes - w->plan->persistent_bytes,
                           .live_peak_bytes = w->plan->live_bytes,
                           .micro_batches = 1,
                           .recomputed_ops = w->plan->again_count,
                           .time_ns = w->plan->time_ns,
                           .time_ratio = w->plan->time_ns / w->job.base_time_ns};
    }
    hri_plan_answer_describe(&w->job, &w->plans, w->plan, &w->answer);
    if (w->job.budget_bytes && w->answer.row.peak_bytes > w->job.budget_bytes) {
        hri_say_error(w->cli, "--load: the plan of %s needs %llu bytes more than the budget",
                      w->flags->load,
                      (unsigned long long)(w->answer.row.peak_bytes - w->job.budget_bytes));
        return HRI_EXIT_NO;
    }
    return HRI_EXIT_YES;
}

static int compare(work *w) {
    hri_prose why = {0};
    hri_fit_plans plans = {0};
    hri_plan *plan = NULL;
    const hr_status status = hri_plan_file_load(&w->job, w->flags->compare, &plans, &plan, &why);
    if (status != HR_OK) {
        return failed(w, "--compare", status, &why);
    }
    w->saved.path = w->flags->compare;
    if (w->job.model) {
        hri_plan_row_of(&w->job, &plans, &w->saved.row);
    } else {
        w->saved.row = (hri_plan_row){.fits = true,
                                      .peak_bytes = plan->arena_bytes,
                                      .micro_batches = 1,
                                      .recomputed_ops = plan->again_count,
                                      .time_ratio = plan->time_ns / w->job.base_time_ns};
    }
    hri_fit_plans_deinit(&plans);
    hri_plan_destroy(plan);
    return HRI_EXIT_YES;
}

static int answer(work *w) {
    if (w->flags->load) {
        return answer_from_file(w);
    }
    hri_prose why = {0};
    const hr_status status = hri_plan_answer_make(&w->job, &w->answer, &w->plans, &w->plan, &why);
    return status == HR_OK ? HRI_EXIT_YES : failed(w, w->job.what, status, &why);
}

/* ---- trying ---- */

/* What planning took goes back before the arena comes, or it would count twice. */
static void give_back_records(work *w) {
    const hri_fit_case *c = w->plans.c;
    hri_fit_plans_deinit(&w->plans);
    hri_fit_drop_others(&w->job.fit, c);
    hri_fit_release(&w->job.fit);
    hri_timing_close(w->job.timing);
    w->job.timing = NULL;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* The last look before memory is taken: a plan that would break the promise does not run. */
static int check_promise(const work *w) {
    uint64_t now;
    if (w->job.engine) {
        hri_engine_scratch_drop(w->job.engine);
        now = hri_engine_runtime(w->job.engine);
    } else {
        hri_resident_read(&now, NULL);
    }
    const uint64_t arena = w->answer.row.persistent_bytes + w->answer.row.arena_bytes;
    if (w->job.budget_bytes && now + arena > w->job.budget_bytes) {
        hri_say_error(w->cli,
                      "this process has %llu bytes before the arena of %llu: over the budget of "
                      "%llu, so nothing was run",
                      (unsigned long long)now, (unsigned long long)arena,
                      (unsigned long long)w->job.budget_bytes);
        return HRI_EXIT_FAULT;
    }
    return HRI_EXIT_YES;
}

static int run_steps(work *w, hri_planned *p) {
    hri_prose why = {0};
    hr_status status = hri_planned_take(p, &why);
    const uint64_t begin = hri_clock_ns();
    for (; w->trial.steps < (uint64_t)w->flags->tries && status == HR_OK; w->trial.steps++) {
        hri_numbers numbers = {0};
        status = hri_planned_step(p, &numbers, &why);
        w->losses[w->trial.steps] = numbers.loss;
    }
    w->trial.seconds = (double)(hri_clock_ns() - begin) / 1e9;
    w->trial.losses = w->losses;
    hri_planned_measure(p, &w->trial.measured);
    return status == HR_OK ? HRI_EXIT_YES : failed(w, "--try", status, &why);
}

static int try_plan(work *w) {
    if (!w->job.model || (!w->job.threads && !w->job.engine)) {
        hri_say_error(w->cli,
                      "--try: plans of a model run on the host, and on a GPU that runs kernels");
        return HRI_EXIT_USAGE;
    }
    const hri_planned_options o = {.device = w->job.device,
                                   .plans = &w->plans,
                                   .job = &w->job.job,
                                   .threads = w->job.threads,
                                   .seed = (uint64_t)w->flags->seed,
                                   .limit = (uint32_t)hr_model_classes(w->job.model)};
    hri_planned *p = NULL;
    hri_prose why = {0};
    w->losses = hri_calloc((size_t)w->flags->tries, sizeof *w->losses);
    const hr_status status = w->losses ? hri_planned_open(&o, &p, &why) : HR_E_NOMEM_HOST;
    if (status != HR_OK) {
        return failed(w, "--try", status, &why);
    }
    give_back_records(w);
    int code = check_promise(w);
    if (code == HRI_EXIT_YES) {
        code = run_steps(w, p);
    }
    hri_planned_close(p);
    return code;
}

/* ---- the command ---- */

static int show(work *w) {
    const hri_plan_trial *trial = w->trial.steps ? &w->trial : NULL;
    const hri_plan_saved *saved = w->saved.path ? &w->saved : NULL;
    const int code = w->answer.fits ? HRI_EXIT_YES : HRI_EXIT_NO;
    if (w->flags->json) {
        hri_json json;
        hri_cli_json_start(&json);
        hri_plan_show_json(&w->job, &w->answer, trial, saved, &json);
        return hri_cli_json_end(w->cli, &json, code);
    }
    const hr_status status = hri_plan_show_text(w->cli, &w->job, &w->answer, trial, saved);
    return status == HR_OK ? code : hri_cli_failed(w->cli, NULL, "plan", status);
}

static int work_through(work *w) {
    int code = answer(w);
    hri_waiting_stop(w->waiting);
    if (code == HRI_EXIT_YES) {
        code = write_files(w);
    }
    if (code == HRI_EXIT_YES && w->flags->compare) {
        code = compare(w);
    }
    if (code == HRI_EXIT_YES && w->flags->tries && w->answer.fits) {
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
                   {"--dot", f->dot},
                   {"--save", f->save},
                   {"--save-problem", f->save_problem}};
    int code = HRI_EXIT_YES;
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0] && code == HRI_EXIT_YES; i++) {
        code = hri_output_check(cli, outputs[i].flag, outputs[i].path, HRI_OUTPUT_FILE);
    }
    return code == HRI_EXIT_YES ? hri_output_check(cli, "--spill", f->spill, HRI_OUTPUT_FOLDER)
                                : code;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    hri_plan_flags flags = *(const hri_plan_flags *)options;
    work w = {.cli = cli, .flags = &flags};
    hri_cli_wrap(cli);
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 64 << 10); /* large pieces of planning go straight back */
    mallopt(M_TRIM_THRESHOLD, 64 << 10);
#endif
    if (flags.tries) {
        flags.choices = false; /* memory that looking around would take is the budget's */
    }
    hri_waiting waiting;
    hri_waiting_start(&waiting, &cli->err_term,
                      count           ? arguments[0]
                      : flags.problem ? flags.problem
                                      : "");
    cli->waiting = &waiting;
    w.waiting = &waiting;
    int code = check_outputs(cli, &flags);
    code = code == HRI_EXIT_YES ? hri_plan_job_open(cli, &flags, count, arguments, &w.job) : code;
    if (code == HRI_EXIT_YES) {
        hri_plan_job_road(&w.job, &w.road);
        code = work_through(&w);
    }
    hri_waiting_stop(&waiting);
    cli->waiting = NULL;
    hri_fit_plans_deinit(&w.plans);
    hri_plan_answer_deinit(&w.answer);
    hri_plan_destroy(w.plan);
    hri_free(w.losses);
    hri_plan_job_close(&w.job);
    return code;
}

const hri_command hri_command_plan = {
    .name = "plan",
    .summary = "says whether a training fits a budget, and what that costs",
    .arguments = "[MODEL]",
    .choices = "",
    .arguments_max = 1,
    .help =
        "Plans one training step of MODEL (name[:key=value,...]) for a batch within a budget: what "
        "runs when, what is computed again, where every byte lies. The plan passes a checker that "
        "shares no code with the planner. The budget bounds everything the outside sees: on the "
        "host the resident set of the process, on a GPU what the driver reports.\n\n"
        "TIME is the predicted time of a step over that without a budget, from ops timed on this "
        "device (kept in the cache directory) or, with --no-measure, from an analytic model. "
        "Timings decide which plan is taken, never whether one fits. PARTS are micro-batches: the "
        "batch is cut only where no op couples its samples, unless --ghost-norm allows that. AGAIN "
        "counts ops computed more than once. Plain training keeps every value until its last "
        "reader.\n\n"
        "The exit code is 0 when it fits, 1 when it does not; then the op that makes the floor, "
        "the bytes short and ways out are shown.",
    .examples = {{"headroom plan resnet50 --batch 32 --budget 4GiB", "does it fit this machine?"},
                 {"headroom plan gpt2 --batch 8 --budget 50% --device null:24GiB",
                  "half of a GPU that is not there"},
                 {"headroom plan unet --batch 8 --curve --svg curve.svg", "what memory buys"},
                 {"headroom plan resnet18:size=64 --batch 16 --budget 256MiB --try 3",
                  "runs three steps and measures"}},
    .fields = hri_plan_fields,
    .options_bytes = sizeof(hri_plan_flags),
    .settle = hri_train_keys_settle,
    .run = run,
};
