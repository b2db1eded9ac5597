/* headroom data: what a pipeline gives, how fast, and what it holds.
 *
 * The one idea: the text of a pipeline, with "|" between its stages or each as an argument of its own, is built as a
 * training run would build it, inside the same budget, and then looked at: the first elements, a whole epoch, a
 * measurement of every stage, a picture of a batch. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <headroom/data.h>
#include "base/clock.h"
#include "cli/common/command.h"
#include "show/progress.h"
#include "data/image/sheet.h"
#include "show/data.h"
#include "show/stages.h"
#include "show/help_texts.h"

typedef struct data_options {
    bool json, skip_bad, bench, stages;
    int64_t show, workers, seed, epochs;
    double seconds;
    uint64_t budget_bytes;
    const char *png;
} data_options;

static const hri_field fields[] = {
    {"budget", "memory budget of the pipeline; default: half of the available memory",
     offsetof(data_options, budget_bytes), HRI_FIELD_BYTES, .metavar = "SIZE"},
    {"show", "number of elements to show", offsetof(data_options, show), HRI_FIELD_INT, "3",
     .min = 0, .max = 1e9, .metavar = "N", .needs = "!bench"},
    {"epochs", "run N epochs and count elements", offsetof(data_options, epochs), HRI_FIELD_INT,
     "0", .min = 0, .max = 1e9, .metavar = "N"},
    {"bench", "measure every stage", offsetof(data_options, bench), HRI_FIELD_BOOL, .value = NULL},
    {"seconds", "maximum duration of --bench", offsetof(data_options, seconds), HRI_FIELD_DOUBLE,
     "10", .min = 0.1, .max = 1e6, .metavar = "S", .needs = "bench"},
    {"png", "write the images of the first element or batch", offsetof(data_options, png),
     HRI_FIELD_STRING, .metavar = "FILE"},
    {"skip-bad", "skip bad elements; count and name them", offsetof(data_options, skip_bad),
     HRI_FIELD_BOOL, .value = NULL},
    {"workers", "maximum threads per stage; 0: one per core", offsetof(data_options, workers),
     HRI_FIELD_INT, "0", .min = 0, .max = 1024, .metavar = "N"},
    {"seed", "random seed of every stage without one", offsetof(data_options, seed), HRI_FIELD_INT,
     "0"},
    {"stages", "list the stages and their options", offsetof(data_options, stages), HRI_FIELD_BOOL,
     .value = NULL},
    {"json", "print one JSON object", offsetof(data_options, json), HRI_FIELD_BOOL, .value = NULL},
    {0},
};

typedef struct run_state {
    hri_cli *cli;
    const data_options *options;
    hr_pipeline *pipeline;
    hri_out err;
    hri_progress progress;
    char progress_stage[64];
    bool drawing;
    pthread_mutex_t mutex; /* the progress line: stages speak from their own threads */
    hri_json json;
    hr_pipeline_run_result result;
    uint64_t seen, began_ns;
    int code; /* of what went wrong here, not in the pipeline */
} run_state;

static void hide_progress(run_state *r) {
    pthread_mutex_lock(&r->mutex);
    if (r->drawing) {
        hri_progress_hide(&r->progress);
        hri_out_flush(&r->err);
    }
    pthread_mutex_unlock(&r->mutex);
}

static void on_log(void *user, hr_log_level level, const char *line) {
    run_state *r = user;
    if (level == HR_LOG_ERROR) {
        return; /* failures are reported once, where they end the run */
    }
    hide_progress(r);
    hri_say_note("%s", line);
}

static void on_progress(void *user, const char *stage, uint64_t done, uint64_t total) {
    run_state *r = user;
    if (hri_clock_ns() - r->began_ns < 1000000000u) {
        return; /* what is over at once needs no bar */
    }
    pthread_mutex_lock(&r->mutex);
    if (!r->drawing || strcmp(stage, r->progress_stage) != 0 || total != r->progress.total) {
        snprintf(r->progress_stage, sizeof r->progress_stage, "%s", stage);
        hri_progress_init(&r->progress, &r->err, &r->cli->err_term, r->progress_stage, total,
                          hri_clock_ns());
        r->drawing = true;
    }
    hri_progress_step(&r->progress, done, "", hri_clock_ns());
    hri_out_flush(&r->err);
    pthread_mutex_unlock(&r->mutex);
}

static int failed(run_state *r, hr_status status, const hr_error *error) {
    hide_progress(r);
    hri_say_error(r->cli, "%s", error->message[0] ? error->message : hr_status_text(status));
    return hri_cli_exit_code_of_input(status);
}

static int failed_running(run_state *r, hr_status status) {
    hr_error error;
    hr_pipeline_error(r->pipeline, &error);
    const int code = failed(r, status, &error);
    if (hri_cli_exit_code_of_input(status) == HRI_EXIT_USAGE) {
        hri_say_note("--skip-bad skips such elements");
    }
    return code;
}

/* ---- going through ---- */

static hr_status on_element(void *user, hr_element *e) {
    run_state *r = user;
    const data_options *o = r->options;
    hri_prose why = {{0}};
    if (r->seen < (uint64_t)o->show && !o->bench) {
        if (o->json) {
            hri_data_element_json(r->pipeline, e, &r->json);
        } else {
            hri_data_show_element(r->pipeline, e, r->seen, &r->cli->out);
        }
    }
    const hr_status status = r->seen++ == 0 && o->png ? hri_sheet_write(e, o->png, &why) : HR_OK;
    if (status != HR_OK) {
        hri_say_error(r->cli, "--png: %s", why.text[0] ? why.text : hr_status_text(status));
        r->code = hri_cli_exit_code(status);
    }
    return status;
}

static int go_through(run_state *r) {
    const data_options *o = r->options;
    const uint64_t shown = o->show ? (uint64_t)o->show : o->png ? 1 : 0;
    const bool whole = o->epochs > 0;
    const hr_pipeline_run_options run = {.size = sizeof run,
                                         .epochs = (uint64_t)o->epochs,
                                         .elements = whole || o->bench ? 0 : shown,
                                         .milliseconds =
                                             o->bench && !whole ? (uint64_t)(o->seconds * 1e3) : 0};
    r->result.size = sizeof r->result;
    if (!whole && !o->bench && !shown) {
        return HRI_EXIT_YES; /* nothing is to be shown */
    }
    const hr_status status = hr_pipeline_run(r->pipeline, &run, on_element, r, &r->result);
    return status == HR_OK           ? HRI_EXIT_YES
           : r->code != HRI_EXIT_YES ? r->code
                                     : failed_running(r, status);
}

static int finish(run_state *r) {
    hr_pipeline_stats s = {.size = sizeof s};
    hr_pipeline_get_stats(r->pipeline, &s);
    const hri_data_sheet sheet = {.pipeline = r->pipeline,
                                  .stats = &s,
                                  .result = &r->result,
                                  .epochs = r->options->epochs > 0,
                                  .bench = r->options->bench};
    if (r->options->json) {
        hri_json_end(&r->json); /* first */
        hri_data_json(&sheet, &r->json);
        return HRI_EXIT_YES;
    }
    const hr_status status = hri_data_show(&sheet, &r->cli->out, &r->cli->out_term);
    return status == HR_OK ? HRI_EXIT_YES : hri_cli_failed(r->cli, NULL, "data", status);
}

static bool join(int count, const char *const *arguments, char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        const int n = snprintf(text + used, size - used, "%s%s", i ? " | " : "", arguments[i]);
        if (n < 0 || (size_t)n >= size - used) {
            return false;
        }
        used += (size_t)n;
    }
    return true;
}

/* The same pipeline measured; behind a measurement, what it may feed. */
static void say_next(hri_cli *cli, const data_options *o, int count, const char *const *arguments) {
    hri_text command = {0};
    data_options bench = *o;
    bench.bench = true;
    bench.show = 3; /* nothing is shown then */
    if (o->bench) {
        hri_say_next(cli, "headroom help train");
        return;
    }
    hri_text_add(&command, "headroom data");
    for (int i = 0; i < count; i++) {
        hri_text_add(&command, " ");
        hri_text_word(&command, arguments[i]);
    }
    if (hri_fields_command(fields, &bench, &command) == HR_OK) {
        hri_say_next(cli, hri_text_get(&command));
    }
    hri_text_deinit(&command);
}

static int show_stages(hri_cli *cli, int count, const char *const *names) {
    hr_status status = count ? HR_OK : hri_stages_show(&cli->out, &cli->out_term);
    for (int i = 0; i < count && status == HR_OK; i++) {
        status = hri_stage_show(names[i], &cli->out, &cli->out_term);
        if (status == HR_E_NOT_FOUND) {
            hri_say_error(cli, "data: unknown stage \"%s\"; headroom data --stages lists them",
                          names[i]);
            return HRI_EXIT_USAGE;
        }
    }
    if (status == HR_OK && !count) {
        hri_say_next(cli, "headroom data --stages shuffle");
    }
    return status == HR_OK ? HRI_EXIT_YES : hri_cli_failed(cli, NULL, "data", status);
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    static run_state r; /* large, and one a program */
    char text[8192];
    r = (run_state){.cli = cli, .options = options, .began_ns = hri_clock_ns()};
    pthread_mutex_init(&r.mutex, NULL);
    const data_options *o = options;
    if (o->stages) {
        return show_stages(cli, count, arguments);
    }
    if (count == 0) {
        hri_say_error(cli, "data: a pipeline is required; headroom data --stages lists sources and "
                           "stages");
        return HRI_EXIT_USAGE;
    }
    if (!join(count, arguments, text, sizeof text)) {
        hri_say_error(cli, "data: the pipeline is too long");
        return HRI_EXIT_USAGE;
    }
    hri_out_init(&r.err, STDERR_FILENO);
    const hr_pipeline_options po = {.size = sizeof po,
                                    .budget_bytes = o->budget_bytes,
                                    .seed = (uint64_t)o->seed,
                                    .workers = (uint32_t)o->workers,
                                    .skip_bad = o->skip_bad,
                                    .log = on_log,
                                    .log_user = &r,
                                    .log_level = HR_LOG_WARN,
                                    .progress = on_progress,
                                    .progress_user = &r};
    hr_error error = {0};
    const hr_status status = hr_pipeline_open(&po, text, &error, &r.pipeline);
    if (status != HR_OK) {
        return failed(&r, status, &error);
    }
    hri_cli_json_start(&r.json);
    hri_json_array(&r.json, "first");
    int code = go_through(&r);
    hide_progress(&r);
    if (code == HRI_EXIT_YES) {
        code = finish(&r);
    }
    hr_pipeline_destroy(r.pipeline);
    if (o->json && code == HRI_EXIT_YES) {
        return hri_cli_json_end(cli, &r.json, code);
    }
    hri_json_deinit(&r.json);
    if (code == HRI_EXIT_YES) {
        say_next(cli, o, count, arguments);
    }
    return code;
}

const hri_command hri_command_data = {
    .name = "data",
    .summary = "run an input pipeline; report output, speed and memory",
    .arguments = "SRC [STAGE...]",
    .choices = "",
    .arguments_max = HRI_ARGUMENTS_MAX,
    .help = hri_help_data,
    .examples = {{"headroom data images:flowers 'decode(224)'", "the first three images"},
                 {"headroom data 'images:flowers | shuffle | decode(224,random_crop=on,flip=on) | "
                  "batch(64)' --png sheet.png",
                  "what a batch looks like after augmentation"},
                 {"headroom data 'images:flowers | decode(224) | batch(64) | prefetch' --bench "
                  "--budget 64MiB",
                  "speed within 64 MiB"},
                 {"headroom data --stages shuffle", "the options of shuffle"}},
    .fields = fields,
    .options_bytes = sizeof(data_options),
    .run = run,
};
