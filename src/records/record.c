/* One record, every output. */
#include "records/record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <headroom/bytes.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/visible.h"
#include "records/events.h"
#include "records/lines.h"
#include "records/picture.h"

struct hri_record {
    hri_lines lines;
    hri_events events;
    hri_picture *picture; /* NULL: none is drawn */
    char *picture_path, *title;
    uint64_t every;
    uint64_t budget_bytes, planned_bytes;
    hr_log_fn *log;
    void *log_user;
};

/* ---- opening ---- */

static double number_of(const json_t *line, const char *key) {
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void replay(void *user, const json_t *line) {
    hri_record *r = user;
    const char *event = json_string_value(json_object_get(line, "event"));
    const uint64_t step = (uint64_t)json_integer_value(json_object_get(line, "step"));
    if (!r->picture || !event) {
        return;
    }
    if (!strcmp(event, "step")) {
        hri_picture_step(r->picture, step, number_of(line, "loss"),
                         number_of(line, "memory_bytes"));
    } else if (!strcmp(event, "validation")) {
        hri_picture_validation(r->picture, step, number_of(line, "loss"));
    }
}

/* The folder of a file that is to be written, made when it is not there. */
static hr_status make_folder_of(const char *path, hri_prose *why) {
    const size_t length = (size_t)(hri_path_name(path) - path);
    if (length < 2) {
        return HR_OK; /* here, or the root */
    }
    char *folder = hri_strdup(path);
    if (!folder) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "%s: out of memory", path);
    }
    folder[length - 1] = '\0';
    const hr_status status = hri_path_make_folders(folder, why);
    hri_free(folder);
    return status;
}

/* A place that cannot be written is found out now, not after the training. */
static hr_status open_picture(hri_record *r, const char *path, const hri_record_start *start,
                              hri_prose *why) {
    char title[256];
    hri_writer probe;
    struct stat is;
    if (stat(path, &is) != 0 || S_ISREG(is.st_mode)) { /* who reads a pipe would see it end */
        const hr_status status = hri_writer_open(&probe, path, why);
        if (status != HR_OK) {
            return status;
        }
        hri_writer_abandon(&probe);
    }
    snprintf(title, sizeof title, "%.160s, batch %llu", start->model ? start->model : "training",
             (unsigned long long)start->batch);
    r->picture = hri_calloc(1, sizeof *r->picture);
    r->picture_path = hri_strdup(path);
    r->title = hri_strdup(title);
    return r->picture && r->picture_path && r->title
               ? HR_OK
               : hri_prose_set(why, HR_E_NOMEM_HOST, "%s: out of memory for the chart", path);
}

/* A '|' in a value, as pipelines have, would end the cell; the page is made into HTML, so '<' and '&' are words too. */
static void row(char *text, size_t size, const char *name, const char *value) {
    size_t used = strlen(text), taken;
    if (!value || size - used < strlen(name) + 5 * strlen(value) + 8) {
        return;
    }
    used += (size_t)snprintf(text + used, size - used, "| %s | ", name);
    for (; *value; value += taken) {
        char shown[17];
        const size_t put = hri_visible_next(value, shown, &taken);
        const char *word = shown[0] == '<' ? "&lt;" : shown[0] == '&' ? "&amp;" : NULL;
        if (shown[0] == '|') {
            text[used++] = '\\';
        }
        memcpy(text + used, word ? word : shown, word ? strlen(word) : put);
        used += word ? strlen(word) : put;
    }
    strcpy(text + used, " |\n");
}

static void row_bytes(char *text, size_t size, const char *name, uint64_t bytes) {
    char value[32];
    row(text, size, name, hr_bytes_print(bytes, value, sizeof value));
}

static void row_count(char *text, size_t size, const char *name, uint64_t count) {
    char value[32];
    snprintf(value, sizeof value, "%llu", (unsigned long long)count);
    row(text, size, name, value);
}

/* The run as a table on TensorBoard's text page. */
static void put_run(hri_record *r, const hri_record_start *s) {
    char text[8192] = "| | |\n|---|---|\n";
    row(text, sizeof text, "model", s->model);
    row(text, sizeof text, "data", s->data);
    row(text, sizeof text, "device", s->device);
    row(text, sizeof text, "optimizer", s->optimizer);
    row(text, sizeof text, "precision", s->precision);
    row_count(text, sizeof text, "batch", s->batch);
    row_count(text, sizeof text, "micro-batches", s->micro_batches);
    row_count(text, sizeof text, "parameters", s->parameters);
    row_count(text, sizeof text, "seed", s->seed);
    if (s->budget_bytes) {
        row_bytes(text, sizeof text, "budget", s->budget_bytes);
    }
    row_bytes(text, sizeof text, "planned peak", s->planned_peak_bytes);
    row(text, sizeof text, "command", s->command);
    hri_events_text(&r->events, "run", s->step, text);
    hri_events_flush(&r->events);
}

hr_status hri_record_open(const hri_record_options *o, const hri_record_start *start,
                          hri_record **out, hri_prose *why) {
    hri_record *r = hri_calloc(1, sizeof *r);
    if (!r) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for logs");
    }
    r->lines.sink.fd = r->events.sink.fd = -1;
    r->every = o->every ? o->every : 1;
    r->budget_bytes = start->budget_bytes;
    r->planned_bytes = start->planned_peak_bytes;
    r->log = o->log;
    r->log_user = o->log_user;
    hr_status status = HR_OK;
    if (o->picture) {
        status = make_folder_of(o->picture, why);
    }
    if (status == HR_OK && o->picture) {
        status = open_picture(r, o->picture, start, why);
    }
    if (status == HR_OK && o->lines) {
        status = make_folder_of(o->lines, why);
    }
    if (status == HR_OK && o->lines) {
        status = hri_lines_open(o->lines, start, replay, r, o->log, o->log_user, &r->lines, why);
    }
    if (status == HR_OK && o->events) {
        status = hri_events_open(o->events, start->step ? start->step + 1 : 0, o->log, o->log_user,
                                 &r->events, why);
    }
    if (status != HR_OK) {
        hri_record_close(r);
        return status;
    }
    put_run(r, start);
    *out = r;
    return HR_OK;
}

void hri_record_close(hri_record *r) {
    if (!r) {
        return;
    }
    hri_lines_close(&r->lines);
    hri_events_close(&r->events);
    hri_free(r->picture);
    hri_free(r->picture_path);
    hri_free(r->title);
    hri_free(r);
}

/* ---- records ---- */

static void scalar(hri_record *r, const char *tag, uint64_t step, double value) {
    if (!isnan(value)) {
        hri_events_scalar(&r->events, tag, step, value);
    }
}

static void megabytes(hri_record *r, const char *tag, uint64_t step, uint64_t bytes) {
    if (bytes != UINT64_MAX) {
        hri_events_scalar(&r->events, tag, step, (double)bytes / 1048576);
    }
}

void hri_record_step_done(hri_record *r, const hri_record_step *s) {
    if (!r) {
        return;
    }
    if (r->picture) {
        hri_picture_step(r->picture, s->step, s->loss,
                         s->memory_bytes == UINT64_MAX ? NAN : (double)s->memory_bytes);
    }
    if (s->step % r->every != 0) {
        return;
    }
    if (r->lines.sink.fd >= 0) {
        hri_lines_step(&r->lines, s);
    }
    hri_events_scalar(&r->events, "train/loss", s->step, s->loss);
    scalar(r, "train/accuracy", s->step, s->accuracy);
    scalar(r, "train/top5", s->step, s->top5);
    scalar(r, "train/rate", s->step, s->rate);
    scalar(r, "train/norm", s->step, s->norm);
    scalar(r, "speed/samples_per_second", s->step, s->samples_per_second);
    scalar(r, "speed/wait_seconds", s->step, s->wait_seconds);
    megabytes(r, "memory/now_MiB", s->step, s->memory_bytes);
    megabytes(r, "memory/peak_MiB", s->step, s->peak_bytes);
}

void hri_record_validation_done(hri_record *r, const hri_record_validation *v) {
    if (!r) {
        return;
    }
    if (r->picture) {
        hri_picture_validation(r->picture, v->step, v->loss);
    }
    if (r->lines.sink.fd >= 0) {
        hri_lines_validation(&r->lines, v);
    }
    hri_events_scalar(&r->events, "validation/loss", v->step, v->loss);
    scalar(r, "validation/accuracy", v->step, v->accuracy);
    scalar(r, "validation/top5", v->step, v->top5);
    for (uint32_t i = 0; i < v->metric_count; i++) {
        char name[128];
        snprintf(name, sizeof name, "validation/%s", v->metrics[i].name);
        scalar(r, name, v->step, v->metrics[i].value);
    }
    hri_events_flush(&r->events);
}

void hri_record_epoch_done(hri_record *r, const hri_record_epoch *e) {
    if (!r) {
        return;
    }
    if (r->lines.sink.fd >= 0) {
        hri_lines_epoch(&r->lines, e);
    }
    hri_events_scalar(&r->events, "epoch/loss", e->step, e->loss);
    scalar(r, "epoch/accuracy", e->step, e->accuracy);
    scalar(r, "epoch/top5", e->step, e->top5);
    hri_events_flush(&r->events);
}

static void warn(const hri_record *r, const char *text) {
    if (r->log) {
        r->log(r->log_user, HR_LOG_WARN, text);
    }
}

static void draw(const hri_record *r, const hri_record_end *e) {
    const hri_picture_text text = {.title = r->title,
                                   .planned_bytes = e->planned_peak_bytes != UINT64_MAX
                                                        ? e->planned_peak_bytes
                                                        : r->planned_bytes,
                                   .budget_bytes = r->budget_bytes};
    char *svg;
    hri_prose why = {0};
    hr_status status = hri_picture_draw(r->picture, &text, &svg);
    if (status == HR_OK) {
        status = hri_file_write(r->picture_path, svg, strlen(svg), &why);
        hri_free(svg);
    }
    if (status != HR_OK) {
        warn(r, why.text[0] ? why.text : "out of memory for the chart");
    }
}

void hri_record_ended(hri_record *r, const hri_record_end *e) {
    if (!r) {
        return;
    }
    if (r->lines.sink.fd >= 0) {
        hri_lines_end(&r->lines, e);
    }
    hri_events_flush(&r->events);
    if (r->picture) {
        draw(r, e);
    }
}
