/* From a checkpoint and data to a predictor; see inference.h. */
#include "cli/common/inference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/alloc.h"
#include "base/clock.h"
#include "device/device.h"

enum { LEAST_DATA = 4 << 20 };

static int failed(const hri_inference *i, const char *what, hr_status status,
                  const hri_prose *why) {
    hri_say_error(i->cli, "%s: %s", what, why->text[0] ? why->text : hr_status_text(status));
    return hri_cli_exit_code_of_input(status);
}

/* ---- opening ---- */

static int open_checkpoint(hri_inference *i, const char *path) {
    hri_prose why = {0};
    hr_status status = hri_checkpoint_open(path, &i->checkpoint, &why);
    if (status != HR_OK) {
        hri_say_error(i->cli, "%s", why.text[0] ? why.text : hr_status_text(status));
        return hri_cli_exit_code_of_input(status);
    }
    status = hri_checkpoint_model(&i->checkpoint, &i->model, &why);
    if (status == HR_OK) {
        status = hri_model_input_of(i->model, &i->want, &why);
    }
    return status == HR_OK ? HRI_EXIT_YES : failed(i, i->checkpoint.path, status, &why);
}

static int open_device(hri_inference *i) {
    hr_device_info info = {0};
    const int code = hri_cli_open_for(i->cli, i->flags->device, &i->ctx);
    if (code != HRI_EXIT_YES) {
        return code;
    }
    hr_status status = hr_device_find(i->ctx, i->flags->device, &i->device);
    if (status == HR_OK) {
        status = hr_device_get_info(i->device, &info);
    }
    if (status != HR_OK) {
        return hri_cli_failed(i->cli, i->ctx, i->flags->device, status);
    }
    if (!(hri_device_can(i->device) & HRI_CAN_COMPUTE)) {
        hri_say_error(i->cli, "--device %s: it runs no kernels, so no model can run on it",
                      i->flags->device);
        return HRI_EXIT_USAGE;
    }
    i->budget_bytes = info.free_bytes;
    if (i->flags->budget) {
        status = hr_bytes_parse(i->flags->budget, info.total_bytes, &i->budget_bytes);
        if (status != HR_OK || i->budget_bytes == 0) {
            hri_say_error(i->cli, "--budget: \"%s\" is no amount of memory", i->flags->budget);
            return HRI_EXIT_USAGE;
        }
    }
    return HRI_EXIT_YES;
}

/* The classes of the data under the model's numbers, by name.  Data without names is taken as it is. */
static int map_labels(hri_inference *i) {
    const hri_about *a = &i->checkpoint.about;
    bool same = true;
    if (!i->source.classes || !a->classes) {
        return HRI_EXIT_YES;
    }
    i->label_map = hri_calloc(i->source.class_count, sizeof *i->label_map);
    if (!i->label_map) {
        return hri_cli_failed(i->cli, NULL, "classes", HR_E_NOMEM_HOST);
    }
    for (size_t k = 0; k < i->source.class_count; k++) {
        size_t number = 0;
        while (number < a->class_count && strcmp(a->classes[number], i->source.classes[k]) != 0) {
            number++;
        }
        if (number == a->class_count) {
            hri_say_error(i->cli,
                          "the data has the class \"%s\", and the model was trained on %zu others",
                          i->source.classes[k], a->class_count);
            return HRI_EXIT_USAGE;
        }
        i->label_map[k] = (int32_t)number;
        same = same && number == k;
    }
    if (same) {
        hri_free(i->label_map);
        i->label_map = NULL;
    }
    return HRI_EXIT_YES;
}

/* The samples of a split are the same as in training as long as the data has as many of them in the same order. */
static int choose_part(const hri_inference *i, int split, hri_source_use *use) {
    const hri_about *a = &i->checkpoint.about;
    const uint64_t all = a->split.val_count + a->split.train_count;
    if (split == HRI_SPLIT_ALL) {
        return HRI_EXIT_YES;
    }
    if (!a->split.val_count) {
        hri_say_error(i->cli, "--split: %s kept no samples apart (train --val-split)",
                      i->checkpoint.path);
        return HRI_EXIT_USAGE;
    }
    if (i->source.count != all) {
        char now[32] = "an unknown number of";
        if (i->source.count != HR_COUNT_UNKNOWN) {
            snprintf(now, sizeof now, "%llu", (unsigned long long)i->source.count);
        }
        hri_say_error(i->cli, "--split: %s was split out of %llu samples, and %s has %s",
                      i->checkpoint.path, (unsigned long long)all, i->source.text, now);
        return HRI_EXIT_USAGE;
    }
    if (strcmp(a->source, i->source.text) != 0) {
        hri_say_warning(i->cli, "--split: the training split %s, this is %s", a->source,
                        i->source.text);
    }
    use->seed = a->split.seed;
    use->part_first = split == HRI_SPLIT_VAL ? 0 : a->split.val_count;
    use->part_count = split == HRI_SPLIT_VAL ? a->split.val_count : a->split.train_count;
    return HRI_EXIT_YES;
}

/* Without --data-budget: four MiB, or what the pipeline says it cannot do without. */
static hr_status open_supply(hri_inference *i, const hri_inference_options *o, const char *text,
                             hri_prose *why) {
    hri_supply_options options = {
        .pipeline = text,
        .source = &i->source,
        .want = &i->want,
        .no_labels = o->predict,
        .until_bad = o->predict,
        .fills_up = 1,
        .label_map = i->label_map,
        .label_count = i->label_map ? i->source.class_count : 0,
        .seen = o->seen,
        .seen_user = o->seen_user,
        .pipeline_options = {.size = sizeof(hr_pipeline_options), .skip_bad = i->flags->skip_bad}};
    const uint64_t most = i->budget_bytes / 2;
    i->data_bytes = i->flags->data_budget_bytes;
    uint64_t bytes = i->data_bytes ? i->data_bytes : LEAST_DATA;
    hr_status status = HR_E_LIMIT;
    for (; status == HR_E_LIMIT; bytes += bytes / 2) {
        options.pipeline_options.budget_bytes = bytes;
        status = hri_supply_open(&options, &i->supply, why);
        if (i->data_bytes || bytes > most) {
            break;
        }
        if (status == HR_OK) {
            i->data_bytes = bytes;
        }
    }
    return status;
}

static int open_data(hri_inference *i, const hri_inference_options *o) {
    char text[HRI_SOURCE_TEXT + 1024];
    hri_prose why = {0};
    hri_source_use use = {0};
    hr_status status = hri_source_look(o->data, &i->want, &i->source, &why);
    if (status != HR_OK) {
        return failed(i, "data", status, &why);
    }
    for (size_t k = 0; k < i->source.note_count; k++) {
        hri_say_warning(i->cli, "%s", i->source.notes[k]);
    }
    int code = choose_part(i, o->split, &use);
    if (code == HRI_EXIT_YES && !o->predict) {
        code = map_labels(i);
    }
    if (code != HRI_EXIT_YES) {
        return code;
    }
    /* The data as validation saw it: which stages follows from the data and the model, the numbers from the checkpoint
     * (find_pixels).  No text of a file gets here. */
    status = hri_source_pipeline(&i->source, &i->want, &use, text, sizeof text, &why);
    if (status != HR_OK) {
        return failed(i, "data", status, &why);
    }
    status = open_supply(i, o, text, &why);
    return status == HR_OK ? HRI_EXIT_YES : failed(i, "data", status, &why);
}

static int read_batch(const hri_inference *i, const char *text, int64_t *out) {
    char *end;
    const long long n = strtoll(text, &end, 10);
    if (!strcmp(text, "auto")) {
        *out = 0;
    } else if (*text && !*end && n >= 1 && n <= 1000000) {
        *out = n;
    } else {
        hri_say_error(i->cli, "--batch: \"%s\" is neither auto nor a number from 1", text);
        return HRI_EXIT_USAGE;
    }
    return HRI_EXIT_YES;
}

/* For a script, no is an answer like any other. */
static int refuse(const hri_inference *i, const hri_prose *why) {
    hri_json j;
    if (!i->flags->json) {
        return HRI_EXIT_NO;
    }
    hri_cli_json_start(&j);
    hri_json_bool(&j, "fits", false);
    hri_json_string(&j, "model", i->checkpoint.about.model);
    hri_json_string(&j, "checkpoint", i->checkpoint.path);
    hri_json_u64(&j, "budget_bytes", i->budget_bytes);
    hri_json_string(&j, "reason", why->text);
    return hri_cli_json_end(i->cli, &j, HRI_EXIT_NO);
}

/* Bytes are normalised as they were in training, where that was done by the graph too, else by the rule for such data.  A
 * pipeline whose own stages make real numbers needs nothing of it. */
static hri_pixels find_pixels(const hri_inference *i) {
    const hri_pixels *trained = &i->checkpoint.about.pixels;
    const hr_pipeline *p = hri_supply_pipeline(i->supply);
    hri_pixels pixels;
    hri_source_pixels(&i->source, &i->want, &pixels);
    for (size_t k = 0; k < hr_pipeline_field_count(p); k++) {
        const hr_field *f = hr_pipeline_field(p, k);
        if (!strcmp(f->name, "image") && f->meta.type != HR_TYPE_U8) {
            pixels.channels = 0;
        }
    }
    if (pixels.channels && pixels.channels == trained->channels) {
        memcpy(pixels.mean, trained->mean, sizeof pixels.mean);
        memcpy(pixels.std, trained->std, sizeof pixels.std);
    }
    return pixels;
}

static int open_predictor(hri_inference *i) {
    hri_predictor_options options = {.device = i->device,
                                     .model = i->model,
                                     .checkpoint = &i->checkpoint,
                                     .supply = i->supply,
                                     .pixels = find_pixels(i),
                                     .count = hr_pipeline_count(hri_supply_pipeline(i->supply)),
                                     .budget_bytes = i->budget_bytes,
                                     .data_bytes = i->data_bytes,
                                     .threads = (uint32_t)i->cli->settings->threads};
    hri_prose why = {0};
    const int code = read_batch(i, i->flags->batch, &options.batch);
    if (code != HRI_EXIT_YES) {
        return code;
    }
    const hr_status status = hri_predictor_open(&options, &i->predictor, &why);
    if (status == HR_E_NO_PLAN) {
        char data[32];
        hri_say_error(i->cli, "does not fit: %s (the input pipeline has %s of it)", why.text,
                      hr_bytes_print(i->data_bytes, data, sizeof data));
        hri_say_hint(i->cli, "a larger --budget%s", options.batch > 1 ? ", or --batch auto" : "");
        return refuse(i, &why);
    }
    return status == HR_OK ? HRI_EXIT_YES : failed(i, i->checkpoint.path, status, &why);
}

int hri_inference_open(hri_cli *cli, const hri_inference_options *o, hri_inference *out) {
    *out = (hri_inference){
        .cli = cli, .flags = o->flags, .quiet = o->quiet, .checkpoint = {.file = {.fd = -1}}};
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 64 << 10); /* what planning takes goes straight back */
    mallopt(M_TRIM_THRESHOLD, 64 << 10);
#endif
    int code = open_checkpoint(out, o->checkpoint);
    if (code == HRI_EXIT_YES) {
        code = open_device(out);
    }
    if (code == HRI_EXIT_YES) {
        code = open_data(out, o);
    }
    if (code == HRI_EXIT_YES) {
        code = open_predictor(out);
    }
    if (code == HRI_EXIT_YES) {
        const uint64_t count = hr_pipeline_count(hri_supply_pipeline(out->supply));
        hri_out_init(&out->err, STDERR_FILENO);
        out->begun_ns = hri_clock_ns();
        hri_progress_init(&out->progress, &out->err, &cli->err_term, "",
                          count == HR_COUNT_UNKNOWN ? 0 : count, out->begun_ns);
    }
    return code;
}

void hri_inference_close(hri_inference *i) {
    hri_predictor_close(i->predictor);
    hri_supply_close(i->supply);
    hri_source_deinit(&i->source);
    hr_model_close(i->model);
    if (i->cli) {
        hri_checkpoint_close(&i->checkpoint);
    }
    hr_ctx_destroy(i->ctx);
    hri_free(i->label_map);
    *i = (hri_inference){0};
}

/* ---- running ---- */

/* Those of the first hundred that were not named yet; the sum comes at the end. */
static void name_bad(hri_inference *i) {
    hr_pipeline *p = hri_supply_pipeline(i->supply);
    const char *bad;
    while ((bad = hr_pipeline_bad(p, i->bad_said)) != NULL) {
        hri_progress_hide(&i->progress);
        hri_say_note("left out: %s", bad);
        i->bad_said++;
    }
}

int hri_inference_next(hri_inference *i, bool *over) {
    hri_prose why = {0};
    const hr_status status = hri_predictor_next(i->predictor, &why);
    *over = status == HR_E_EOF;
    if (status == HR_E_EOF) {
        return HRI_EXIT_YES;
    }
    if (status != HR_OK) {
        hri_progress_hide(&i->progress);
        hri_say_error(i->cli, "%s", why.text[0] ? why.text : hr_status_text(status));
        const int code = hri_cli_exit_code_of_input(status);
        if (!i->flags->skip_bad && code == HRI_EXIT_USAGE) {
            hri_say_note("--skip-bad skips samples that cannot be read");
        }
        return code;
    }
    i->samples += hri_predictor_fed(i->predictor);
    name_bad(i);
    const uint64_t now = hri_clock_ns();
    /* Work of a second needs no bar. */
    if (!i->quiet && now - i->begun_ns > 1000000000u) {
        hri_progress_step(&i->progress, i->samples, "", now);
    }
    return HRI_EXIT_YES;
}

void hri_inference_end(hri_inference *i) {
    hr_pipeline_stats s;
    hri_progress_hide(&i->progress);
    name_bad(i);
    hr_pipeline_get_stats(hri_supply_pipeline(i->supply), &s);
    if (s.bad) {
        hri_say_warning(i->cli, "%llu of %llu samples could not be read and were left out",
                        (unsigned long long)s.bad, (unsigned long long)(s.bad + i->samples));
    }
}

/* ---- showing ---- */

const char *hri_inference_class(const hri_inference *i, int64_t number, char *buf, size_t size) {
    const hri_about *a = &i->checkpoint.about;
    if (a->classes && number >= 0 && (size_t)number < a->class_count) {
        return a->classes[number];
    }
    snprintf(buf, size, "%lld", (long long)number);
    return buf;
}

void hri_inference_show(hri_inference *i) {
    hr_run_report r;
    char planned[32], measured[32], budget[32], headroom[32];
    hri_predictor_report(i->predictor, &r);
    const double seconds = (double)(hri_clock_ns() - i->begun_ns) / 1e9;
    hri_out_printf(&i->cli->out, "%llu samples in %.2f s, %.1f a second, batch %lld on %s\n",
                   (unsigned long long)i->samples, seconds,
                   (double)i->samples / (seconds > 0 ? seconds : 1),
                   (long long)hri_predictor_batch(i->predictor), i->flags->device);
    hri_out_printf(&i->cli->out, "  process  planned %s, resident at most %s",
                   hr_bytes_print(r.peak_bytes, planned, sizeof planned),
                   hr_bytes_print(r.resident_bytes, measured, sizeof measured));
    if (i->flags->budget) {
        const uint64_t left = i->budget_bytes > r.peak_bytes ? i->budget_bytes - r.peak_bytes : 0;
        hri_out_printf(&i->cli->out, ", budget %s, %s of headroom",
                       hr_bytes_print(i->budget_bytes, budget, sizeof budget),
                       hr_bytes_print(left, headroom, sizeof headroom));
    }
    hri_out_text(&i->cli->out, "\n");
}

void hri_inference_json(const hri_inference *i, hri_json *json) {
    hr_run_report r;
    hr_pipeline_stats s;
    hri_predictor_report(i->predictor, &r);
    hr_pipeline_get_stats(hri_supply_pipeline(i->supply), &s);
    const double seconds = (double)(hri_clock_ns() - i->begun_ns) / 1e9;
    hri_json_bool(json, "fits", true);
    hri_json_u64(json, "samples", i->samples);
    hri_json_u64(json, "bad", s.bad);
    hri_json_u64(json, "batch", (uint64_t)hri_predictor_batch(i->predictor));
    hri_json_string(json, "device", i->flags->device);
    hri_json_u64(json, "budget_bytes", i->flags->budget ? i->budget_bytes : 0);
    hri_json_u64(json, "planned_peak_bytes", r.peak_bytes);
    hri_json_u64(json, "measured_peak_bytes", r.resident_bytes);
    hri_json_u64(json, "floor_bytes", r.floor_bytes);
    hri_json_u64(json, "runtime_bytes", r.runtime_bytes);
    hri_json_u64(json, "persistent_bytes", r.persistent_bytes);
    hri_json_u64(json, "arena_bytes", r.arena_bytes);
    hri_json_double(json, "samples_per_second", (double)i->samples / (seconds > 0 ? seconds : 1));
    hri_json_double(json, "seconds", seconds);
}

int hri_inference_verdict(const hri_inference *i, int code) {
    hr_run_report r;
    hri_predictor_report(i->predictor, &r);
    if (i->flags->budget && r.resident_bytes > i->budget_bytes &&
        (hri_device_can(i->device) & HRI_CAN_POINT)) {
        hri_say_error(i->cli,
                      "the process had %llu bytes at most, over the budget of %llu: a bug in "
                      "Headroom",
                      (unsigned long long)r.resident_bytes, (unsigned long long)i->budget_bytes);
        return HRI_EXIT_FAULT;
    }
    return code;
}
