/* From a checkpoint and data to a predictor, and through the data; see infer.h. */
#include "job/infer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <headroom/bytes.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/grow.h"
#include "device/device.h"
#include "job/train.h"
#include "models/common/model.h"

enum { LEAST_DATA = 4 << 20 };

static hr_status failed(hri_why *why, const char *what, hr_status status, const hri_prose *prose) {
    return hri_why_prose(why, hri_cause_of_input(status), status, what, prose);
}

/* ---- data ---- */

/* The labels of sample `index`, under the model's numbers. */
static void keep_labels(hr_predictor *i, uint32_t index, const hr_element *e) {
    const uint64_t at = index * i->label_each;
    hri_labels_keep(e, i->source.label.name, i->label_each, i->labels ? i->labels + at : NULL,
                    i->targets ? i->targets + at : NULL);
    for (uint64_t k = at; i->labels && i->label_map && k < at + i->label_each; k++) {
        const int32_t id = i->labels[k];
        i->labels[k] = id >= 0 && (size_t)id < i->source.class_count ? i->label_map[id] : id;
    }
}

/* Every sample that goes into a batch passes here. */
static void seen(void *user, uint32_t index, const hr_element *e) {
    hr_predictor *i = user;
    const hr_field *f = hr_element_find(e, "name");
    const char end = '\0';
    if (index < i->label_room && !i->o.no_labels) {
        keep_labels(i, index, e);
    }
    if (index == 0) {
        hri_letters_clear(&i->names);
        i->has_names = f != NULL;
    }
    if (i->has_names &&
        (hri_letters_append(&i->names, f ? f->data : "", f ? f->bytes : 0) != HR_OK ||
         hri_letters_append(&i->names, &end, 1) != HR_OK)) {
        i->no_memory = true;
    }
}

/* The classes of the data under the model's numbers, by name.  Data without names is taken as it is. */
static hr_status map_labels(hr_predictor *i, hri_why *why) {
    const hri_about *a = &i->of.checkpoint.about;
    bool same = true;
    hri_free(i->label_map);
    i->label_map = NULL;
    if (!i->source.classes || !a->classes) {
        return HR_OK;
    }
    i->label_map = hri_calloc(i->source.class_count, sizeof *i->label_map);
    if (!i->label_map) {
        return hri_why_set(why, HR_CAUSE_MACHINE, HR_E_NOMEM_HOST, "classes: %s",
                           hr_status_text(HR_E_NOMEM_HOST));
    }
    for (size_t k = 0; k < i->source.class_count; k++) {
        size_t number = 0;
        while (number < a->class_count && strcmp(a->classes[number], i->source.classes[k]) != 0) {
            number++;
        }
        if (number == a->class_count) {
            return hri_why_set(why, HR_CAUSE_USAGE, HR_E_INVALID,
                               "class \"%s\" of the data is not one of the model's %zu classes",
                               i->source.classes[k], a->class_count);
        }
        i->label_map[k] = (int32_t)number;
        same = same && number == k;
    }
    if (same) {
        hri_free(i->label_map);
        i->label_map = NULL;
    }
    return HR_OK;
}

/* Texts in other tokens than the model has learnt mean nothing to it. */
static hr_status check_tokens(const hr_predictor *i, hri_why *why) {
    const hri_source *s = &i->source;
    const int64_t has = i->of.want.vocab;
    const int texts = !strcmp(s->kind, "texts") || !strcmp(s->kind, "csv");
    if (!texts || !s->vocab || !has || s->vocab == has ||
        (s->vocab < has && strstr(s->text, "tokenizer="))) {
        return HR_OK;
    }
    return hri_why_set(why, HR_CAUSE_USAGE, HR_E_INVALID,
                       "%s has tokens below %lld, but the model has %lld; give the tokenizer that "
                       "it was trained with, tokenizer=FILE",
                       s->text, (long long)s->vocab, (long long)has);
}

/* The samples of a split are the same as in training as long as the data has as many of them in the same order. */
static hr_status choose_part(const hr_predictor *i, hri_source_use *use, hri_why *why) {
    const hri_about *a = &i->of.checkpoint.about;
    const uint64_t all = a->split.val_count + a->split.train_count;
    if (i->o.split == HR_SPLIT_ALL) {
        return HR_OK;
    }
    if (!a->split.val_count) {
        return hri_why_option(why, HR_E_INVALID, "split",
                              ": %s held out no samples (train with `val_split`)",
                              i->of.checkpoint.path);
    }
    if (i->source.count != all) {
        char now[32] = "an unknown number of";
        if (i->source.count != HR_COUNT_UNKNOWN) {
            snprintf(now, sizeof now, "%llu", (unsigned long long)i->source.count);
        }
        return hri_why_option(why, HR_E_INVALID, "split",
                              ": %s was split from %llu samples, but %s has %s",
                              i->of.checkpoint.path, (unsigned long long)all, i->source.text, now);
    }
    /* of a table the file alone: its columns are the checkpoint's */
    const size_t n = a->table ? strcspn(a->source, ",|") : strlen(a->source) + 1;
    if (strncmp(a->source, i->source.text, n) != 0 ||
        (a->table && i->source.text[n] && !strchr(",|", i->source.text[n]))) {
        hri_listener_warn(&i->of.listener, "split", ": the run used %s, this is %s", a->source,
                          i->source.text);
    }
    use->seed = a->split.seed;
    use->part_first = i->o.split == HR_SPLIT_VAL ? 0 : a->split.val_count;
    use->part_count = i->o.split == HR_SPLIT_VAL ? a->split.val_count : a->split.train_count;
    return HR_OK;
}

/* Data with weights of samples is evaluated with them. */
static hr_status weigh_samples(hr_predictor *i, hri_prose *why) {
    hri_loss *loss = &i->of.checkpoint.about.loss;
    if (!i->source.weighted || i->o.no_labels || (!loss->kind && !i->of.want.masks)) {
        return HR_OK;
    }
    loss->weighted = 1;
    return hri_model_input_with(i->of.model, loss, &i->of.want, why);
}

/* What the columns of the data are.  For predictions targets may be anything, or not there. */
static const hri_tabular *table_of(hr_predictor *i) {
    const hri_tabular *t = i->of.checkpoint.about.table;
    if (!t || !i->o.no_labels || !t->input_count) {
        return t;
    }
    i->bare = *t; /* which outlives it */
    i->bare.target_count = 0;
    return &i->bare;
}

/* Without a budget of its own: four MiB, or what the pipeline says it cannot do without. */
static hr_status open_supply(hr_predictor *i, const char *text, hri_prose *why) {
    hri_supply_options options = {
        .pipeline = text,
        .built = i->o.pipeline,
        .source = &i->source,
        .want = &i->of.want,
        .table = table_of(i),
        .no_labels = i->o.no_labels,
        .until_bad = i->o.no_labels,
        .fills_up = i->o.no_labels, /* else the filling would be in the loss */
        .label_map = i->label_map,
        .label_count = i->label_map ? i->source.class_count : 0,
        .seen = seen,
        .seen_user = i,
        .pipeline_options = {
            .size = sizeof(hr_pipeline_options), .skip_bad = i->o.skip_bad, .budget = i->o.ledger}};
    if (i->o.pipeline) { /* it has a budget of its own, and may have been read before */
        hr_pipeline_stats stats = {.size = sizeof stats};
        hr_pipeline_get_stats(i->o.pipeline, &stats);
        i->data_bytes = stats.budget_bytes;
        const hr_status begun = stats.elements ? hr_pipeline_rewind(i->o.pipeline) : HR_OK;
        return begun == HR_OK ? hri_supply_open(&options, &i->supply, why)
                              : hri_prose_set(why, begun, "%s", hr_status_text(begun));
    }
    const uint64_t most = i->of.budget_bytes / 2;
    const uint64_t given = i->predictor    ? i->data_bytes
                           : i->less_bytes ? i->less_bytes
                                           : i->o.data_budget_bytes;
    uint64_t bytes = given ? given : LEAST_DATA;
    hr_status status = HR_E_LIMIT;
    for (; status == HR_E_LIMIT; bytes += bytes / 2) {
        options.pipeline_options.budget_bytes = bytes;
        status = hri_supply_open(&options, &i->supply, why);
        if (status == HR_OK || given || bytes > most) {
            i->data_bytes = bytes;
            break;
        }
    }
    return status;
}

static hr_status open_data(hr_predictor *i, hri_why *why) {
    char text[HRI_SOURCE_TEXT + 1024];
    hri_prose prose = {0};
    hri_source_use use = {0};
    hr_status status =
        i->o.pipeline
            ? hri_source_look_at(i->o.pipeline, &i->of.want, &i->source, &prose)
            : hri_source_look_with(i->o.data, &i->of.want, table_of(i), &i->source, &prose);
    if (status != HR_OK) {
        return failed(why, "data", status, &prose);
    }
    if (!i->o.no_labels) {
        status = hri_source_check_labels(&i->source, &i->of.want, &prose);
        if (status != HR_OK) {
            return failed(why, "data", status, &prose);
        }
    }
    for (size_t k = 0; k < i->source.note_count && !i->less_bytes; k++) {
        hri_listener_warn(&i->of.listener, NULL, "%s", i->source.notes[k]);
    }
    status = weigh_samples(i, &prose);
    if (status != HR_OK) {
        return failed(why, "data", status, &prose);
    }
    status = check_tokens(i, why);
    status = status == HR_OK ? choose_part(i, &use, why) : status;
    if (status == HR_OK && !i->o.no_labels) {
        status = map_labels(i, why);
    }
    if (status != HR_OK) {
        return status;
    }
    /* The data as validation saw it: which stages follows from the data and the model, the numbers from the checkpoint
     * (find_pixels).  No text of a file gets here. */
    status = i->o.pipeline
                 ? HR_OK
                 : hri_source_pipeline(&i->source, &i->of.want, &use, text, sizeof text, &prose);
    if (status == HR_OK) {
        status = open_supply(i, text, &prose);
    }
    return status == HR_OK ? HR_OK : failed(why, "data", status, &prose);
}

/* Bytes are normalised as they were in training, where that was done by the graph too, else by the rule for such data.  A
 * pipeline whose own stages make real numbers needs nothing of it. */
static hri_pixels find_pixels(const hr_predictor *i) {
    const hri_pixels *trained = &i->of.checkpoint.about.pixels;
    const hr_pipeline *p = hri_supply_pipeline(i->supply);
    hri_pixels pixels;
    hri_source_pixels(&i->source, &i->of.want, &pixels);
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

/* A class for every pixel. */
static int is_of_pixels(const hri_model_input *want) {
    return want->sample.shape.rank == 3 && want->label.type == HR_TYPE_I32 &&
           want->label.shape.rank == 2;
}

/* What does not fit is an answer, not a failure. */
static hr_status open_predictor(hr_predictor *i, hri_why *why) {
    const hri_predictor_options options = {
        .device = i->of.device,
        .model = i->of.model,
        .passes = &i->of.passes,
        .checkpoint = &i->of.checkpoint,
        .supply = i->supply,
        .pixels = find_pixels(i),
        .batch = i->o.batch,
        .outputs = i->o.no_labels || is_of_pixels(&i->of.want),
        .single = !i->of.want.masks && !i->o.no_labels,
        .count = hr_pipeline_count(hri_supply_pipeline(i->supply)),
        .budget_bytes = i->o.ledger && !i->o.budget ? 0 : i->of.budget_bytes,
        .data_bytes = i->data_bytes + i->o.own_bytes,
        .threads = (uint32_t)i->o.threads,
        .ledger = i->o.ledger,
        .wait_ms = i->o.wait_ms,
        .name = hr_model_name(i->of.model),
        .minimum_bytes = &i->minimum_bytes};
    hri_prose prose = {0};
    const hr_status status = hri_predictor_open(&options, &i->predictor, &prose);
    if (status == HR_E_NO_PLAN) {
        i->refusal = prose;
        return HR_OK;
    }
    if (status != HR_OK) {
        const char *path = i->of.checkpoint.path;
        const bool named = !strncmp(prose.text, path, strlen(path)); /* as a file's own errors do */
        return failed(why, named ? NULL : path, status, &prose);
    }
    hr_run_report r = {.size = sizeof r};
    hri_predictor_report(
        i->predictor,
        &r); /* on a GPU data_bytes are in another memory, and in the peak all the same */
    const hr_status reserved = hri_admission_resize(i->of.admission, r.peak_bytes, &prose);
    if (reserved != HR_OK) {
        return hri_why_prose(why, HR_CAUSE_NO_FIT, reserved, NULL, &prose);
    }
    i->label_room = (uint32_t)hri_predictor_batch(i->predictor);
    i->label_each = (uint64_t)hr_shape_count(&i->of.want.label.shape);
    const size_t labels = (size_t)(i->label_each * i->label_room);
    if (i->target == HRI_TARGET_CLASSES) {
        i->labels = hri_calloc(labels ? labels : 1, sizeof *i->labels);
    } else {
        i->targets = hri_calloc(labels ? labels : 1, sizeof *i->targets);
    }
    return i->labels || i->targets ? HR_OK : HR_E_NOMEM_HOST;
}

static hr_status own_text(hri_arena *texts, const char **text) {
    *text = *text ? hri_arena_strdup(texts, *text) : NULL;
    return *text ? HR_OK : HR_E_NOMEM_HOST;
}

static hr_status own_texts(hr_predictor *i, hri_why *why) {
    hr_infer_options *o = &i->o;
    if (!o->checkpoint || (!o->data && !o->pipeline)) {
        return hri_why_option(why, HR_E_INVALID, o->checkpoint ? "data" : "checkpoint",
                              " is missing");
    }
    if (o->data && o->pipeline) {
        return hri_why_option(why, HR_E_INVALID, "data",
                              " is given twice: as a string and as a pipeline");
    }
    if (o->pipeline && o->split != HR_SPLIT_ALL) {
        return hri_why_option(why, HR_E_INVALID, "split",
                              ": a pipeline has all samples; use data as a string");
    }
    o->device = o->device ? o->device : "host";
    hr_status status = own_text(&i->texts, &o->checkpoint);
    status = status == HR_OK && o->model ? own_text(&i->texts, &o->model) : status;
    status = status == HR_OK && o->data ? own_text(&i->texts, &o->data) : status;
    status = status == HR_OK && o->metric ? own_text(&i->texts, &o->metric) : status;
    status = status == HR_OK ? own_text(&i->texts, &o->device) : status;
    return status == HR_OK && o->budget ? own_text(&i->texts, &o->budget) : status;
}

/* The metrics that were asked for, of the model as it was trained. */
static hr_status read_metrics(hr_predictor *i, hri_why *why) {
    const hri_about *a = &i->of.checkpoint.about;
    hri_wanted_task task;
    hri_prose prose = {""};
    hri_train_task(&i->of.want, &a->loss, &task);
    task.classes = (const char *const *)a->classes;
    task.class_count = a->classes ? a->class_count : 0;
    const hr_status status = hri_wanted_add(&i->wanted, i->o.metric, &task, NULL, &prose);
    return status == HR_OK ? HR_OK : hri_why_option(why, status, "metric", ": %s", prose.text);
}

/* The input with no more than it works well with, as in training (input.c): speed gives way before the answer is no. */
static hr_status open_with_less(hr_predictor *i, hri_why *why) {
    hr_pipeline_stats stats = {.size = sizeof stats};
    hr_pipeline_get_stats(hri_supply_pipeline(i->supply), &stats);
    const uint64_t least = hri_input_least_bytes(stats.smallest_bytes);
    if (i->o.pipeline || i->o.data_budget_bytes || least >= i->data_bytes) {
        return HR_OK;
    }
    i->less_bytes = least;
    hri_supply_close(i->supply);
    i->supply = NULL;
    hri_source_deinit(&i->source);
    i->source = (hri_source){0};
    const hr_status status = open_data(i, why);
    return status == HR_OK ? open_predictor(i, why) : status;
}

static hr_status open_all(hr_predictor *i, const char *more_passes, hri_why *why) {
    hr_status status = own_texts(i, why);
    const hri_trained_options of = {.checkpoint = i->o.checkpoint,
                                    .model = i->o.model,
                                    .more_passes = more_passes,
                                    .custom_model = i->o.custom_model,
                                    .device = i->o.device,
                                    .budget = i->o.budget,
                                    .ledger = i->o.ledger,
                                    .wait_ms = i->o.wait_ms};
    if (status == HR_OK) {
        status = hri_trained_open(&i->of, i->ctx, &of, why);
    }
    if (status == HR_OK) {
        i->target = hri_train_target(&i->of.checkpoint.about.loss);
        status = read_metrics(i, why);
    }
    if (status == HR_OK) {
        status = open_data(i, why);
    }
    status = status == HR_OK ? open_predictor(i, why) : status;
    return status == HR_OK && !i->predictor ? open_with_less(i, why) : status;
}

hr_status hri_infer_open(hr_ctx *ctx, const hr_infer_options *o, const char *more_passes,
                         hr_predictor **out, hri_why *why) {
    hr_predictor *i = hri_calloc(1, sizeof *i);
    if (!i) {
        return HR_E_NOMEM_HOST;
    }
    i->o = *o;
    i->ctx = ctx;
    i->perplexity = NAN;
    hri_trained_init(&i->of, (hri_listener){o->on_event, o->user});
    const hr_status status = open_all(i, more_passes, why);
    if (status != HR_OK) {
        hr_predictor_close(i);
        return status;
    }
    *out = i;
    return HR_OK;
}

hr_status hr_predictor_open(hr_ctx *ctx, const hr_infer_options *options, hr_predictor **out,
                            hr_error *error) {
    hri_why why = {0};
    hr_infer_options own;
    hr_status status = hri_take(&own, sizeof own, options);
    status = status == HR_OK ? hri_infer_open(ctx, &own, NULL, out, &why) : status;
    if (status != HR_OK) {
        hri_why_give(&why, status, error);
    }
    return status;
}

void hr_predictor_close(hr_predictor *i) {
    if (!i) {
        return;
    }
    hri_predictor_close(i->predictor);
    hri_supply_close(i->supply);
    hri_source_deinit(&i->source);
    hri_trained_close(&i->of);
    hri_letters_deinit(&i->names);
    hri_free(i->label_map);
    hri_free(i->labels);
    hri_free(i->targets);
    hri_metrics_close(i->metrics);
    hri_arena_deinit(&i->texts);
    hri_free(i);
}

/* Another supply under the same plan; on failure there is none, and the next pass tries again. */
static hr_status open_again(hr_predictor *i, hri_why *why) {
    hri_supply_close(i->supply);
    i->supply = NULL;
    hri_source_deinit(&i->source);
    i->source = (hri_source){0};
    const hr_status status = open_data(i, why);
    if (status == HR_OK) {
        hri_predictor_set_supply(i->predictor, i->supply);
        i->passed = false;
    }
    return status;
}

hr_status hr_predictor_set_data(hr_predictor *i, const char *data, hr_error *error) {
    hri_why why = {0};
    const char *text = data;
    hr_status status = !i->predictor ? hri_why_set(&why, HR_CAUSE_NO_FIT, HR_E_NO_PLAN,
                                                   "does not fit: %s", i->refusal.text)
                                     : own_text(&i->texts, &text);
    if (status == HR_OK) {
        i->o.data = text;
        i->o.pipeline = NULL;
        i->passed = true;
        status = open_again(i, &why);
    }
    if (status != HR_OK) {
        hri_why_give(&why, status, error);
    }
    return status;
}

hr_status hr_predictor_get_info(const hr_predictor *i, hr_infer_info *out) {
    hr_run_report r = {.size = sizeof r};
    const uint64_t count =
        i->supply ? hr_pipeline_count(hri_supply_pipeline(i->supply)) : HR_COUNT_UNKNOWN;
    if (i->predictor) {
        hri_predictor_report(i->predictor, &r);
    }
    const int numbers = i->target == HRI_TARGET_NUMBERS;
    const uint64_t rows = i->predictor && hri_predictor_scores(i->predictor)
                              ? (uint64_t)hri_predictor_classes(i->predictor)
                              : 0;
    const hr_infer_info info = {
        .size = sizeof info,
        .sample_count = count == HR_COUNT_UNKNOWN ? HR_UNKNOWN : count,
        .class_count = numbers ? 0 : rows,
        .output_count = numbers ? rows : 0,
        .pixel_classes = i->target == HRI_TARGET_CLASSES && is_of_pixels(&i->of.want)
                             ? (uint64_t)i->of.want.classes
                             : 0,
        .multi_label = i->target == HRI_TARGET_FLAGS,
        .key = i->of.checkpoint.about.table ? i->of.checkpoint.about.table->key : NULL,
        .batch = i->predictor ? hri_predictor_batch(i->predictor) : 0,
        .budget_bytes = i->o.budget || !i->predictor ? i->of.budget_bytes : 0,
        .peak_bytes = r.peak_bytes,
        .minimum_bytes = i->predictor ? r.floor_bytes : i->minimum_bytes,
        .runtime_bytes = r.runtime_bytes,
        .persistent_bytes = r.persistent_bytes,
        .arena_bytes = r.arena_bytes,
        .pipeline_bytes = i->data_bytes,
        .model = i->of.checkpoint.about.model,
        .checkpoint = i->of.checkpoint.path,
        .device = i->o.device,
        .refusal = i->refusal.text,
        .fits = i->predictor != NULL};
    return hri_give(out, &info, sizeof info);
}

const char *hr_predictor_class_name(const hr_predictor *i, uint64_t number) {
    const hri_about *a = &i->of.checkpoint.about;
    if (i->target == HRI_TARGET_NUMBERS) {
        return a->table && number < a->table->target_count ? a->table->targets[number].name : NULL;
    }
    return a->classes && number < a->class_count ? a->classes[number] : NULL;
}

/* ---- running ---- */

/* Those of the first hundred that were not named yet; the sum comes at the end. */
static void name_bad(hr_predictor *i) {
    const char *bad;
    while ((bad = hr_pipeline_bad(hri_supply_pipeline(i->supply), i->bad_said)) != NULL) {
        const hr_job_event e = {.size = sizeof e, .kind = HR_EVENT_BAD_SAMPLE, .text = bad};
        if (i->of.listener.fn) {
            (void)!i->of.listener.fn(i->of.listener.user, &e);
        }
        i->bad_said++;
    }
}

hr_status hri_infer_begin(hr_predictor *i, hri_why *why) {
    if (!i->predictor) {
        return hri_why_set(why, HR_CAUSE_NO_FIT, HR_E_NO_PLAN, "does not fit: %s", i->refusal.text);
    }
    const hr_status status = i->passed || !i->supply ? open_again(i, why) : HR_OK;
    i->passed = true;
    i->samples = i->bad_said = 0;
    i->begun_ns = hri_clock_ns();
    return status;
}

hr_status hri_infer_next(hr_predictor *i, bool *over, hri_why *why) {
    hri_prose prose = {0};
    const uint64_t count = hr_pipeline_count(hri_supply_pipeline(i->supply));
    hr_status status = hri_predictor_next(i->predictor, &prose);
    *over = status == HR_E_EOF;
    if (status == HR_OK && i->no_memory) {
        status = HR_E_NOMEM_HOST;
    }
    if (status != HR_OK) {
        return *over ? HR_OK : failed(why, NULL, status, &prose);
    }
    i->samples += hri_predictor_fed(i->predictor);
    name_bad(i);
    return hri_listener_tick(&i->of.listener, "inference", i->samples,
                             count == HR_COUNT_UNKNOWN ? 0 : count, why);
}

void hri_infer_finish(hr_predictor *i, hr_infer_result *out) {
    hr_run_report r = {.size = sizeof r};
    hr_pipeline_stats s = {.size = sizeof s};
    name_bad(i);
    hri_predictor_report(i->predictor, &r);
    hr_pipeline_get_stats(hri_supply_pipeline(i->supply), &s);
    out->samples = i->samples;
    out->bad_samples = s.bad;
    out->measured_peak_bytes = r.resident_bytes;
    out->seconds = (double)(hri_clock_ns() - i->begun_ns) / 1e9;
    out->samples_per_second = (double)i->samples / (out->seconds > 0 ? out->seconds : 1);
    out->over_budget = i->o.budget && r.resident_bytes > i->of.budget_bytes &&
                       (hri_device_can(i->of.device) & HRI_CAN_POINT);
}
