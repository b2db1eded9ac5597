/* JSON lines: made with jansson, written through a sink.
 *
 * Going on with a file reads it once, line by line, in a window of fixed size: what is kept ends before the first line
 * of a later step, or before a last line that was cut short. */
#include "records/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"

enum { LINE_MOST = 64 << 10 };

/* ---- keeping what was written before ---- */

typedef struct reading {
    const char *path;
    int fd;
    char *text; /* LINE_MOST bytes and one more */
    size_t used;
    uint64_t at; /* of text[0] in the file */
    uint64_t lines;
    const hri_record_start *start;
    hri_lines_replay *replay;
    void *user;
} reading;

static hr_status not_ours(const reading *r, hri_prose *why) {
    return hri_prose_set(why, HR_E_FORMAT,
                         "%s: line %llu is not a training log line; the file is not appended to",
                         r->path, (unsigned long long)r->lines + 1);
}

/* One whole line: *stop is set before the first that does not stay. */
static hr_status read_line(reading *r, const char *line, size_t bytes, bool *stop, hri_prose *why) {
    json_t *object;
    const char *event;
    uint64_t step;
    const hr_status status = hri_json_parse(line, bytes, NULL, &object, NULL);
    if (status != HR_OK) {
        return status == HR_E_NOMEM_HOST ? hri_prose_set(why, status, "%s: out of memory", r->path)
                                         : not_ours(r, why);
    }
    const bool ours = hri_json_get_string(object, "event", &event, NULL) == HR_OK &&
                      hri_json_get_u64(object, "step", &step, NULL) == HR_OK;
    if (ours) {
        *stop = step > r->start->step;
        if (!*stop && r->replay) {
            r->replay(r->user, object);
        }
    }
    json_decref(object);
    return ours ? HR_OK : not_ours(r, why);
}

/* The next bytes of the file behind those in the window; *end when there are none. */
static hr_status read_more(reading *r, bool *end, hri_prose *why) {
    ssize_t got = -1;
    if (HRI_FAULT(READ)) {
        errno = EIO;
    } else {
        do {
            got = read(r->fd, r->text + r->used, LINE_MOST - r->used);
        } while (got < 0 && errno == EINTR);
    }
    if (got < 0) {
        char text[128];
        return hri_prose_set(why, HR_E_IO, "%s: read: %s", r->path,
                             strerror_r(errno, text, sizeof text));
    }
    r->used += (size_t)got;
    *end = got == 0;
    return HR_OK;
}

/* *keep: where the first byte lies that does not stay. */
static hr_status read_lines(reading *r, uint64_t *keep, hri_prose *why) {
    hr_status status = HR_OK;
    bool stop = false, end = false;
    while (status == HR_OK && !stop && !end) {
        status = read_more(r, &end, why);
        char *from = r->text, *newline;
        const char *behind = r->text + r->used;
        while (status == HR_OK && (newline = memchr(from, '\n', (size_t)(behind - from))) != NULL) {
            *newline = '\0';
            status = read_line(r, from, (size_t)(newline - from), &stop, why);
            if (status != HR_OK || stop) {
                break;
            }
            r->lines++;
            from = newline + 1;
        }
        r->at += (uint64_t)(from - r->text);
        r->used = (size_t)(behind - from);
        memmove(r->text, from, r->used);
        if (r->used == LINE_MOST) {
            status = not_ours(r, why);
        }
    }
    if (status == HR_OK) {
        *keep = r->at;
    }
    return status;
}

static hr_status find_end(const char *path, const hri_record_start *start, hri_lines_replay *replay,
                          void *user, uint64_t *keep, hri_prose *why) {
    reading r = {.path = path, .fd = -1, .start = start, .replay = replay, .user = user};
    *keep = 0;
    if (HRI_FAULT(OPEN)) {
        errno = EIO;
    } else {
        r.fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    }
    struct stat info;
    if (r.fd >= 0 && (fstat(r.fd, &info) != 0 || !S_ISREG(info.st_mode))) {
        close(r.fd); /* a pipe, a terminal: nothing of it is kept, and nobody waits for it */
        return HR_OK;
    }
    if (r.fd < 0) {
        const int error = errno;
        char text[128];
        /* A log that is asked for only now begins now.  What cannot be read is not written over. */
        return error == ENOENT ? HR_OK
                               : hri_prose_set(why, HR_E_IO, "%s: open: %s", path,
                                               strerror_r(error, text, sizeof text));
    }
    r.text = hri_malloc(LINE_MOST + 1);
    const hr_status status = r.text
                                 ? read_lines(&r, keep, why)
                                 : hri_prose_set(why, HR_E_NOMEM_HOST, "%s: out of memory", path);
    hri_free(r.text);
    close(r.fd);
    return status;
}

/* ---- writing ---- */

static void begin(hri_json *j, const char *event, uint64_t step) {
    char text[32] = "";
    struct tm parts;
    const time_t now = time(NULL);
    if (gmtime_r(&now, &parts)) {
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
    hri_json_init(j);
    hri_json_string(j, "event", event);
    hri_json_u64(j, "step", step);
    hri_json_string(j, "time", text);
}

static void finish(hri_lines *l, hri_json *j) {
    char *text;
    if (hri_json_print(j, 0, &text) == HR_OK) {
        const size_t bytes = strlen(text);
        text[bytes] = '\n'; /* in the place of the NUL: the record is counted, not ended */
        hri_sink_put(&l->sink, text, bytes + 1);
        hri_free(text);
    } else {
        hri_sink_lose(&l->sink, "out of memory for a line");
    }
    hri_sink_flush(&l->sink);
    hri_json_deinit(j);
}

static void number(hri_json *j, const char *key, double value) {
    if (!isnan(value)) {
        hri_json_double(j, key, value);
    }
}

static void bytes_of(hri_json *j, const char *key, uint64_t value) {
    if (value != UINT64_MAX) {
        hri_json_u64(j, key, value);
    }
}

static void text_of(hri_json *j, const char *key, const char *value) {
    if (value) {
        hri_json_string(j, key, value);
    }
}

static void put_start(hri_lines *l, const hri_record_start *s) {
    hri_json j;
    begin(&j, "start", s->step);
    hri_json_u64(&j, "version", 1);
    text_of(&j, "model", s->model);
    text_of(&j, "data", s->data);
    text_of(&j, "device", s->device);
    text_of(&j, "optimizer", s->optimizer);
    text_of(&j, "precision", s->precision);
    text_of(&j, "command", s->command);
    hri_json_u64(&j, "steps", s->steps);
    hri_json_u64(&j, "epochs", s->epochs);
    hri_json_u64(&j, "batch", s->batch);
    hri_json_u64(&j, "micro_batches", s->micro_batches);
    hri_json_u64(&j, "parameters", s->parameters);
    hri_json_u64(&j, "seed", s->seed);
    hri_json_u64(&j, "budget_bytes", s->budget_bytes);
    hri_json_u64(&j, "planned_peak_bytes", s->planned_peak_bytes);
    hri_json_u64(&j, "runtime_bytes", s->runtime_bytes);
    hri_json_u64(&j, "persistent_bytes", s->persistent_bytes);
    hri_json_u64(&j, "arena_bytes", s->arena_bytes);
    finish(l, &j);
}

hr_status hri_lines_open(const char *path, const hri_record_start *start, hri_lines_replay *replay,
                         void *user, hr_log_fn *log, void *log_user, hri_lines *out,
                         hri_prose *why) {
    uint64_t keep = 0;
    hr_status status = HR_OK;
    if (start->step > 0) {
        status = find_end(path, start, replay, user, &keep, why);
    }
    if (status == HR_OK) {
        status = hri_sink_open(path, keep, log, log_user, &out->sink, why);
    }
    if (status == HR_OK) {
        put_start(out, start);
    }
    return status;
}

void hri_lines_step(hri_lines *l, const hri_record_step *s) {
    hri_json j;
    begin(&j, "step", s->step);
    hri_json_u64(&j, "epoch", s->epoch);
    hri_json_double(&j, "loss", s->loss);
    number(&j, "accuracy", s->accuracy);
    number(&j, "top5", s->top5);
    number(&j, "rate", s->rate);
    number(&j, "norm", s->norm);
    number(&j, "samples_per_second", s->samples_per_second);
    number(&j, "seconds", s->seconds);
    number(&j, "wait_seconds", s->wait_seconds);
    number(&j, "device_seconds", s->device_seconds > 0 ? s->device_seconds : NAN);
    bytes_of(&j, "memory_bytes", s->memory_bytes);
    bytes_of(&j, "peak_bytes", s->peak_bytes);
    finish(l, &j);
}

void hri_lines_validation(hri_lines *l, const hri_record_validation *v) {
    hri_json j;
    begin(&j, "validation", v->step);
    hri_json_u64(&j, "epoch", v->epoch);
    hri_json_u64(&j, "samples", v->samples);
    hri_json_double(&j, "loss", v->loss);
    number(&j, "accuracy", v->accuracy);
    number(&j, "top5", v->top5);
    number(&j, "seconds", v->seconds);
    hri_json_bool(&j, "best", v->best != 0);
    if (v->metric_count) {
        hri_json_object(&j, "metrics");
        for (uint32_t i = 0; i < v->metric_count; i++) {
            hri_json_double(&j, v->metrics[i].name, v->metrics[i].value);
        }
        hri_json_end(&j);
    }
    finish(l, &j);
}

void hri_lines_epoch(hri_lines *l, const hri_record_epoch *e) {
    hri_json j;
    begin(&j, "epoch", e->step);
    hri_json_u64(&j, "epoch", e->epoch);
    hri_json_u64(&j, "samples", e->samples);
    hri_json_double(&j, "loss", e->loss);
    number(&j, "accuracy", e->accuracy);
    number(&j, "top5", e->top5);
    number(&j, "samples_per_second", e->samples_per_second);
    number(&j, "seconds", e->seconds);
    number(&j, "wait_seconds", e->wait_seconds);
    bytes_of(&j, "memory_bytes", e->memory_bytes);
    bytes_of(&j, "peak_bytes", e->peak_bytes);
    finish(l, &j);
}

void hri_lines_end(hri_lines *l, const hri_record_end *e) {
    hri_json j;
    begin(&j, "end", e->step);
    text_of(&j, "reason", e->reason);
    text_of(&j, "checkpoint", e->checkpoint);
    number(&j, "loss", e->loss);
    number(&j, "accuracy", e->accuracy);
    bytes_of(&j, "planned_peak_bytes", e->planned_peak_bytes);
    bytes_of(&j, "measured_peak_bytes", e->measured_peak_bytes);
    number(&j, "samples_per_second", e->samples_per_second);
    number(&j, "seconds", e->seconds);
    finish(l, &j);
}

void hri_lines_close(hri_lines *l) {
    hri_sink_close(&l->sink);
}
