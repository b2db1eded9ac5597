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
#include "cli/common/contact.h"
#include "show/progress.h"
#include "cli/common/stages.h"
#include "base/table.h"
#include "graph/half.h"

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
    uint64_t elements, samples, bytes, epochs, ns, began_ns;
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

/* ---- showing ---- */

static uint64_t samples_of(const hr_element *e) {
    const hr_field *f = hr_element_field(e, 0);
    return f && f->meta.shape.rank > 0 && f->meta.shape.dim[0] > 0 ? (uint64_t)f->meta.shape.dim[0]
                                                                   : 1;
}

/* The first numbers of a field: "0 3 3 1 ...", a label with its class. */
static void print_values(const run_state *r, const hr_field *f, char *text, size_t size) {
    const size_t unit = hr_type_bytes(f->meta.type);
    const uint64_t n = f->bytes / unit;
    size_t used = 0;
    text[0] = 0;
    for (uint64_t i = 0; i < n && i < 6 && used + 32 < size; i++) {
        const char *at = (const char *)f->data + i * unit;
        double real = 0;
        long long whole = 0;
        bool is_real = false;
        uint32_t bits;
        float single;
        switch (f->meta.type) {
        case HR_TYPE_F32:
            real = (double)*(const float *)(const void *)at;
            is_real = true;
            break;
        case HR_TYPE_BF16:
            bits = (uint32_t) * (const uint16_t *)(const void *)at << 16;
            memcpy(&single, &bits, 4);
            real = (double)single;
            is_real = true;
            break;
        case HR_TYPE_F16: {
            hri_f16 half;
            memcpy(&half, at, 2);
            real = (double)hri_from_f16(half);
            is_real = true;
            break;
        }
        case HR_TYPE_I32:
            whole = *(const int32_t *)(const void *)at;
            break;
        case HR_TYPE_I64:
            whole = *(const int64_t *)(const void *)at;
            break;
        default:
            whole = *(const uint8_t *)at;
            break;
        }
        const char *name = NULL;
        if (strcmp(f->name, "label") == 0 && whole >= 0 && n == 1) {
            name = hr_pipeline_class(r->pipeline, (size_t)whole);
        }
        const int wrote =
            is_real ? snprintf(text + used, size - used, "%s%.4g", i ? " " : "", real)
                    : snprintf(text + used, size - used, "%s%lld%s%s%s", i ? " " : "", whole,
                               name ? " (" : "", name ? name : "", name ? ")" : "");
        used += wrote > 0 ? (size_t)wrote : 0;
        used = used < size ? used : size - 1;
    }
    if (n > 6 && used + 5 < size) {
        snprintf(text + used, size - used, " ...");
    }
}

static void show(run_state *r, const hr_element *e) {
    hri_out *out = &r->cli->out;
    char meta[256], values[256], size[32];
    if (r->options->json) {
        hri_json_object(&r->json, NULL);
        hri_json_array(&r->json, "fields");
    } else {
        hri_out_printf(out, "element %llu\n", (unsigned long long)r->elements);
    }
    for (size_t i = 0; i < hr_element_field_count(e); i++) {
        const hr_field *f = hr_element_field(e, i);
        hr_meta_print(&f->meta, meta, sizeof meta);
        print_values(r, f, values, sizeof values);
        if (r->options->json) {
            hri_json_object(&r->json, NULL);
            hri_json_string(&r->json, "name", f->name);
            hri_json_string(&r->json, "type", meta);
            hri_json_u64(&r->json, "bytes", f->bytes);
            hri_json_string(&r->json, "values", values);
            hri_json_end(&r->json);
        } else {
            hri_out_printf(out, "  %-10s %-22s %10s   %s\n", f->name, meta,
                           hr_bytes_print(f->bytes, size, sizeof size), values);
        }
    }
    if (r->options->json) {
        hri_json_end(&r->json);
        hri_json_end(&r->json);
    }
}

/* ---- going through ---- */

static int take_one(run_state *r, bool *end) {
    hr_element *e;
    const hr_status status = hr_pipeline_next(r->pipeline, &e);
    *end = status == HR_E_EOF;
    if (status == HR_E_EOF) {
        return HRI_EXIT_YES;
    }
    if (status != HR_OK) {
        return failed_running(r, status);
    }
    int code = HRI_EXIT_YES;
    if (r->elements < (uint64_t)r->options->show && !r->options->bench) {
        show(r, e);
    }
    if (r->elements == 0 && r->options->png) {
        code = hri_contact_sheet(r->cli, e, r->options->png);
    }
    r->elements++;
    r->samples += samples_of(e);
    for (size_t i = 0; i < hr_element_field_count(e); i++) {
        r->bytes += hr_element_field(e, i)->bytes;
    }
    hr_element_unref(e);
    return code;
}

static int go_through(run_state *r) {
    const data_options *o = r->options;
    const uint64_t began = hri_clock_ns();
    const uint64_t until = began + (uint64_t)(o->seconds * 1e9);
    const bool whole = o->epochs > 0;
    int code = HRI_EXIT_YES;
    while (code == HRI_EXIT_YES) {
        bool end = false;
        if (o->bench && !whole
                ? hri_clock_ns() >= until
                : !whole && r->elements >= (uint64_t)o->show && !(o->png && r->elements == 0)) {
            break;
        }
        code = take_one(r, &end);
        if (code == HRI_EXIT_YES && end) {
            r->epochs++;
            if (whole ? r->epochs >= (uint64_t)o->epochs : !o->bench || r->elements == 0) {
                break;
            }
            const hr_status status = hr_pipeline_rewind(r->pipeline);
            code = status == HR_OK ? HRI_EXIT_YES : failed_running(r, status);
        }
    }
    r->ns = hri_clock_ns() - began;
    return code;
}

/* ---- the sums ---- */

static void add_stage(run_state *r, hri_table *table, const hr_stage_stats *s) {
    char b1[32], b2[32];
    if (r->options->json) {
        hri_json *j = &r->json;
        hri_json_object(j, NULL);
        hri_json_string(j, "name", s->name);
        hri_json_u64(j, "elements", s->elements);
        hri_json_u64(j, "bytes", s->bytes);
        hri_json_double(j, "busy_seconds", (double)s->busy_ns / 1e9);
        hri_json_double(j, "wait_seconds", (double)s->wait_ns / 1e9);
        hri_json_u64(j, "held_bytes", s->held_bytes);
        hri_json_u64(j, "peak_bytes", s->peak_bytes);
        hri_json_u64(j, "smallest_bytes", s->smallest_bytes);
        hri_json_u64(j, "threads", s->parallel);
        hri_json_u64(j, "depth", s->depth);
        hri_json_u64(j, "shrunk", s->shrunk);
        hri_json_end(j);
        return;
    }
    hri_table_cell(table, HRI_STYLE_BOLD, "%s", s->name);
    hri_table_cell(table, HRI_STYLE_PLAIN, "%llu", (unsigned long long)s->elements);
    hri_table_cell(table, HRI_STYLE_PLAIN, "%.3f s", (double)s->busy_ns / 1e9);
    hri_table_cell(table, HRI_STYLE_PLAIN, "%.1f us",
                   s->elements ? (double)s->busy_ns / 1e3 / (double)s->elements : 0.0);
    hri_table_cell(table, HRI_STYLE_PLAIN, "%s", hr_bytes_print(s->smallest_bytes, b1, sizeof b1));
    hri_table_cell(table, HRI_STYLE_PLAIN, "%s", hr_bytes_print(s->peak_bytes, b2, sizeof b2));
    if (s->parallel) {
        hri_table_cell(table, HRI_STYLE_PLAIN, "%u threads%s", s->parallel,
                       s->shrunk ? ", shrunk" : "");
    } else if (s->depth) {
        hri_table_cell(table, HRI_STYLE_PLAIN, "%u ahead%s", s->depth, s->shrunk ? ", shrunk" : "");
    } else {
        hri_table_cell(table, HRI_STYLE_PLAIN, "-");
    }
}

static int sum_up(run_state *r, const hr_pipeline_stats *s) {
    static const char *const headings[] = {"STAGE",     ">ELEMENTS", ">BUSY", ">EACH",
                                           ">SMALLEST", ">PEAK",     "TUNED"};
    const double seconds = (double)r->ns / 1e9;
    char b1[32], b2[32];
    hri_table table;
    hri_table_init(&table, headings, sizeof headings / sizeof headings[0]);
    if (r->options->json) {
        hri_json_array(&r->json, "stages");
    }
    for (size_t i = 0; i < s->stage_count; i++) {
        hr_stage_stats stage = {.size = sizeof stage};
        if (hr_pipeline_get_stage_stats(r->pipeline, i, &stage) == HR_OK) {
            add_stage(r, &table, &stage);
        }
    }
    hr_status status = HR_OK;
    if (r->options->json) {
        hri_json_end(&r->json);
    } else {
        hri_say_title(r->cli, "%.1f elements/s, %.1f samples/s, %.1f MB/s over %.2f s",
                      (double)r->elements / seconds, (double)r->samples / seconds,
                      (double)r->bytes / 1e6 / seconds, seconds);
        status = hri_table_print(&table, &r->cli->out, &r->cli->out_term, 0, 1);
        hri_out_printf(&r->cli->out, "peak %s of %s\n",
                       hr_bytes_print(s->peak_bytes, b1, sizeof b1),
                       hr_bytes_print(s->budget_bytes, b2, sizeof b2));
    }
    hri_table_deinit(&table);
    return status == HR_OK ? HRI_EXIT_YES : hri_cli_failed(r->cli, NULL, "data", status);
}

static void say_bad(run_state *r, const hr_pipeline_stats *s) {
    if (r->options->json) {
        hri_json_array(&r->json, "bad_names");
        for (size_t i = 0; hr_pipeline_bad(r->pipeline, i); i++) {
            hri_json_string(&r->json, NULL, hr_pipeline_bad(r->pipeline, i));
        }
        hri_json_end(&r->json);
        return;
    }
    if (s->bad) {
        hri_out_printf(&r->cli->out, "%llu bad element%s skipped:\n", (unsigned long long)s->bad,
                       s->bad == 1 ? " was" : "s were");
        for (size_t i = 0; i < 20 && hr_pipeline_bad(r->pipeline, i); i++) {
            hri_out_printf(&r->cli->out, "  %s\n", hr_pipeline_bad(r->pipeline, i));
        }
        if (s->bad > 20) {
            hri_out_printf(&r->cli->out, "  and %llu more\n", (unsigned long long)s->bad - 20);
        }
    }
}

static int finish(run_state *r) {
    hr_pipeline_stats s = {.size = sizeof s};
    hr_pipeline_get_stats(r->pipeline, &s);
    const uint64_t count = hr_pipeline_count(r->pipeline);
    char b[32];
    int code = HRI_EXIT_YES;
    if (r->options->json) {
        hri_json *j = &r->json;
        hri_json_end(j); /* first */
        if (count == HR_COUNT_UNKNOWN) {
            hri_json_null(j, "count");
        } else {
            hri_json_u64(j, "count", count);
        }
        hri_json_u64(j, "elements", r->elements);
        hri_json_u64(j, "samples", r->samples);
        hri_json_u64(j, "bytes", r->bytes);
        hri_json_double(j, "seconds", (double)r->ns / 1e9);
        hri_json_u64(j, "epochs", r->epochs);
        hri_json_u64(j, "budget_bytes", s.budget_bytes);
        hri_json_u64(j, "smallest_bytes", s.smallest_bytes);
        hri_json_u64(j, "peak_bytes", s.peak_bytes);
        hri_json_u64(j, "bad", s.bad);
    } else if (count == HR_COUNT_UNKNOWN) {
        hri_out_printf(&r->cli->out, "the number of elements per epoch is unknown\n");
    } else {
        hri_out_printf(&r->cli->out, "%llu elements per epoch\n", (unsigned long long)count);
    }
    if (!r->options->json && r->options->epochs) {
        hri_out_printf(&r->cli->out, "%llu elements, %llu samples, %s in %llu epoch%s\n",
                       (unsigned long long)r->elements, (unsigned long long)r->samples,
                       hr_bytes_print(r->bytes, b, sizeof b), (unsigned long long)r->epochs,
                       r->epochs == 1 ? "" : "s");
    }
    if (r->options->bench || r->options->json) {
        code = sum_up(r, &s);
    } else {
        char b1[32], b2[32];
        hri_out_printf(&r->cli->out, "needs at least %s; the budget is %s\n",
                       hr_bytes_print(s.smallest_bytes, b1, sizeof b1),
                       hr_bytes_print(s.budget_bytes, b2, sizeof b2));
    }
    say_bad(r, &s);
    return code;
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

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    static run_state r; /* large, and one a program */
    char text[8192];
    r = (run_state){.cli = cli, .options = options, .began_ns = hri_clock_ns()};
    pthread_mutex_init(&r.mutex, NULL);
    const data_options *o = options;
    if (o->stages) {
        return hri_stages_print(cli, count, arguments);
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
    .help = "A pipeline is a source followed by stages, joined by '|' in one argument or given as "
            "one argument each: images:DIR, mnist:DIR, cifar10:DIR, npy:FILE, tokens:FILE, "
            "tfrecord:FILE, csv:FILE, lines:FILE, synthetic; shuffle, decode, resize, crop, flip, "
            "rotate, jitter, normalise, batch, cache, repeat, take, skip, shard, zip, interleave, "
            "filter, limit, prefetch. --stages lists them all; --stages NAME shows one with its "
            "options.\n\nThe pipeline is built within --budget, as in a training run. If its "
            "smallest working set does not fit, it is refused with the stage that needs most, and "
            "the exit code is 1.\n\nWithout --bench the first elements are shown: fields, types, "
            "shapes, first numbers. With --bench the pipeline runs, and every stage is shown with "
            "its time, its memory and the tuner's choices. --png writes the images of the first "
            "element, or of the first batch as one sheet.",
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
