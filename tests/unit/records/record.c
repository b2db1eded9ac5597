/* What a training writes about itself: whole records whatever happens, each step once, and every output
 * has what it should. */
#include "records/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <jansson.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "events.h"
#include "pictures.h"
#include "test.h"
#include "records/lines.h"
#include "records/picture.h"

static const char *in(const char *folder, const char *name) {
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* The whole file with a NUL behind; free() it. */
static char *slurp(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    char *text = malloc(1 << 20);
    const size_t n = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    text[n] = '\0';
    if (bytes) {
        *bytes = n;
    }
    return text;
}

typedef struct warnings {
    int count;
    char last[512];
} warnings;

static void count_warning(void *user, hr_log_level level, const char *line) {
    warnings *w = user;
    CHECK_EQ(level, HR_LOG_WARN);
    w->count++;
    snprintf(w->last, sizeof w->last, "%s", line);
}

static hri_record_step step_at(uint64_t step) {
    return (hri_record_step){.step = step,
                             .epoch = 1,
                             .loss = 1.0 / (double)step,
                             .accuracy = 0.5,
                             .top5 = NAN,
                             .rate = 0.1,
                             .norm = NAN,
                             .samples_per_second = 100,
                             .seconds = 0.25,
                             .wait_seconds = 0.01,
                             .memory_bytes = (100 + step) << 20,
                             .peak_bytes = UINT64_MAX};
}

/* ---- sinks ---- */

TEST(sink, a_refused_write_is_one_warning_and_whole_records_stay) {
    const char *path = in(test_folder(), "log");
    warnings w = {0};
    hri_sink s;
    CHECK_OK(hri_sink_open(path, 0, count_warning, &w, &s, NULL));
    hri_sink_put(&s, "one\n", 4);
    hri_sink_flush(&s);
    for (int i = 0; i < 3; i++) {
        hri_fault_set(HRI_FAULT_WRITE, 1, 0);
        hri_sink_put(&s, "lost\n", 5);
        hri_sink_put(&s, "lost too\n", 9);
        hri_sink_flush(&s);
        CHECK_EQ(hri_fault_delivered(), 1);
    }
    CHECK_EQ(w.count, 1);
    CHECK(strstr(w.last, path) && strstr(w.last, "training continues"));
    hri_sink_put(&s, "two\n", 4);
    CHECK_EQ(s.lost, 6);
    hri_sink_close(&s);
    CHECK_EQ(w.count, 2);
    CHECK(strstr(w.last, "6 log lines could not be written"));
    char *text = slurp(path, NULL);
    CHECK_STR(text, "one\ntwo\n");
    free(text);
}

TEST(sink, a_full_device_never_ends_anything) {
    warnings w = {0};
    hri_sink s;
    if (access("/dev/full", W_OK) != 0) {
        test_skip("there is no /dev/full here");
    }
    CHECK_OK(hri_sink_open("/dev/full", 0, count_warning, &w, &s, NULL));
    for (int i = 0; i < 100; i++) {
        hri_sink_put(&s, "line\n", 5);
        hri_sink_flush(&s);
    }
    CHECK_EQ(w.count, 1);
    CHECK_EQ(s.lost, 100);
    hri_sink_close(&s);
}

TEST(sink, records_larger_than_the_buffer_go_straight_through_in_order) {
    const char *path = in(test_folder(), "log");
    char *large = malloc(3 * HRI_SINK_BUFFER);
    memset(large, 'x', 3 * HRI_SINK_BUFFER);
    hri_sink s;
    CHECK_OK(hri_sink_open(path, 0, NULL, NULL, &s, NULL));
    hri_sink_put(&s, "a", 1);
    hri_sink_put(&s, large, 3 * HRI_SINK_BUFFER);
    hri_sink_put(&s, "b", 1);
    hri_sink_close(&s);
    size_t bytes;
    char *text = slurp(path, &bytes);
    CHECK_EQ(bytes, 3 * HRI_SINK_BUFFER + 2);
    CHECK(text[0] == 'a' && text[bytes - 1] == 'b' &&
          !memcmp(text + 1, large, 3 * HRI_SINK_BUFFER));
    free(text);
    free(large);
}

TEST(sink, a_place_that_is_none_is_refused_with_its_name) {
    hri_sink s;
    hri_prose why = {0};
    CHECK_STATUS(hri_sink_open("/nowhere/at/all", 0, NULL, NULL, &s, &why), HR_E_NOT_FOUND);
    CHECK(strstr(why.text, "/nowhere/at/all"));
    CHECK_STATUS(hri_sink_open("/", 0, NULL, NULL, &s, &why), HR_E_IO);
}

/* ---- JSON lines ---- */

/* "start0 step1 step2 ...": event and step of every line. */
static void summary_of(const char *path, char *out, size_t size) {
    char *text = slurp(path, NULL);
    out[0] = '\0';
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        CHECK(json_is_object(object));
        CHECK(json_is_string(json_object_get(object, "time")));
        const size_t used = strlen(out);
        snprintf(out + used, size - used, "%s%s%lld", used ? " " : "",
                 json_string_value(json_object_get(object, "event")),
                 (long long)json_integer_value(json_object_get(object, "step")));
        json_decref(object);
    }
    free(text);
}

static void write_lines(const char *path, uint64_t from, uint64_t to) {
    const hri_record_start start = {.model = "mlp", .step = from, .batch = 8};
    hri_lines l;
    hri_prose why = {0};
    CHECK_OK(hri_lines_open(path, &start, NULL, NULL, NULL, NULL, &l, &why));
    for (uint64_t i = from + 1; i <= to; i++) {
        const hri_record_step s = step_at(i);
        hri_lines_step(&l, &s);
    }
    hri_lines_close(&l);
}

TEST(lines, a_continued_log_has_every_step_once) {
    const char *path = in(test_folder(), "run.jsonl");
    char is[512];
    write_lines(path, 0, 5); /* killed after step 5; the last checkpoint was at step 3 */
    write_lines(path, 3, 7);
    summary_of(path, is, sizeof is);
    CHECK_STR(is, "start0 step1 step2 step3 start3 step4 step5 step6 step7");
    write_lines(path, 0, 1); /* not continued: begun anew */
    summary_of(path, is, sizeof is);
    CHECK_STR(is, "start0 step1");
}

TEST(lines, a_last_line_cut_at_any_byte_is_taken_out) {
    const char *path = in(test_folder(), "run.jsonl");
    write_lines(path, 0, 3);
    size_t bytes;
    char *whole = slurp(path, &bytes), is[512];
    size_t last = bytes - 1;
    while (whole[last - 1] != '\n') {
        last--;
    }
    for (size_t cut = last; cut < bytes; cut++) {
        const char *part = in(test_folder(), "cut.jsonl");
        FILE *f = fopen(part, "wb");
        CHECK(f && fwrite(whole, 1, cut, f) == cut && fclose(f) == 0);
        write_lines(part, 2, 3);
        summary_of(part, is, sizeof is);
        CHECK_STR(is, "start0 step1 step2 start2 step3");
    }
    free(whole);
}

TEST(lines, every_line_is_on_disk_before_the_next_step) {
    const char *path = in(test_folder(), "run.jsonl");
    const hri_record_start start = {.batch = 8};
    hri_lines l;
    CHECK_OK(hri_lines_open(path, &start, NULL, NULL, NULL, NULL, &l, NULL));
    const hri_record_step s = step_at(1);
    hri_lines_step(&l, &s);
    char is[64];
    summary_of(path, is, sizeof is); /* nothing was flushed or closed by us */
    CHECK_STR(is, "start0 step1");
    hri_lines_close(&l);
}

TEST(lines, what_is_not_a_log_is_not_continued_and_not_touched) {
    const char *const texts[] = {"a,b\n1,2\n", "{\"x\": 1}\n", "[1]\n{\"event\":\"step\"}\n",
                                 "{\"event\":\"start\",\"step\":\"x\"}\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        test_write(test_folder(), "mine", texts[i], strlen(texts[i]));
        const char *path = in(test_folder(), "mine");
        const hri_record_start start = {.step = 4};
        hri_lines l;
        hri_prose why = {0};
        CHECK_STATUS(hri_lines_open(path, &start, NULL, NULL, NULL, NULL, &l, &why), HR_E_FORMAT);
        CHECK(strstr(why.text, "line 1 is not a training log line"));
        char *text = slurp(path, NULL);
        CHECK_STR(text, texts[i]);
        free(text);
    }
}

TEST(lines, numbers_that_are_not_known_are_left_out_and_a_bad_loss_is_null) {
    const char *path = in(test_folder(), "run.jsonl");
    const hri_record_start start = {.batch = 8};
    hri_lines l;
    CHECK_OK(hri_lines_open(path, &start, NULL, NULL, NULL, NULL, &l, NULL));
    hri_record_step s = step_at(1);
    s.loss = NAN;
    hri_lines_step(&l, &s);
    hri_lines_close(&l);
    char *text = slurp(path, NULL), *line = strstr(text, "\"event\":\"step\"");
    CHECK(line != NULL);
    CHECK(strstr(line, "\"loss\":null") && strstr(line, "\"accuracy\":0.5"));
    CHECK(strstr(line, "\"memory_bytes\":105906176"));
    CHECK(!strstr(line, "top5") && !strstr(line, "norm") && !strstr(line, "peak_bytes"));
    free(text);
}

/* ---- all together ---- */

static hr_status record(const char *folder, uint64_t from, uint64_t to, warnings *w) {
    const hri_record_options o = {.lines = in(folder, "run.jsonl"),
                                  .events = in(folder, "events"),
                                  .picture = in(folder, "run.svg"),
                                  .log = count_warning,
                                  .log_user = w};
    const hri_record_start start = {.model = "mlp:a<b",
                                    .data = "images:x | shuffle",
                                    .step = from,
                                    .batch = 8,
                                    .budget_bytes = 128 << 20,
                                    .planned_peak_bytes = 120 << 20};
    hri_record *r = NULL;
    hri_prose why = {0};
    const hr_status status = hri_record_open(&o, &start, &r, &why);
    if (status != HR_OK) {
        CHECK(r == NULL && why.text[0]);
        return status;
    }
    for (uint64_t i = from + 1; i <= to; i++) {
        const hri_record_step s = step_at(i);
        hri_record_step_done(r, &s);
    }
    const hri_record_validation v = {
        .step = to, .epoch = 1, .samples = 10, .loss = 0.5, .accuracy = 0.9, .top5 = NAN};
    hri_record_validation_done(r, &v);
    const hri_record_epoch e = {
        .step = to, .epoch = 1, .samples = 80, .loss = 0.4, .accuracy = NAN, .top5 = NAN};
    hri_record_epoch_done(r, &e);
    const hri_record_end end = {.step = to,
                                .reason = "done",
                                .loss = 0.5,
                                .accuracy = 0.9,
                                .planned_peak_bytes = 120 << 20,
                                .measured_peak_bytes = 110 << 20};
    hri_record_ended(r, &end);
    hri_record_close(r);
    return HR_OK;
}

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (const char *p = text; (p = strstr(p, part)) != NULL; p++) {
        count++;
    }
    return count;
}

TEST(record, one_call_reaches_every_output) {
    const char *folder = test_folder();
    warnings w = {0};
    CHECK_OK(record(folder, 0, 3, &w));
    CHECK_EQ(w.count, 0);
    char is[512];
    summary_of(in(folder, "run.jsonl"), is, sizeof is);
    CHECK_STR(is, "start0 step1 step2 step3 validation3 epoch3 end3");
    test_events s = {0};
    CHECK_EQ(test_events_folder(in(folder, "events"), &s), 1);
    CHECK_EQ(count_of(s.log, "train/loss@"), 3);
    CHECK(strstr(s.log, "text:run@0") && strstr(s.log, "validation/accuracy@3=0.9"));
    CHECK(strstr(s.log, "memory/now_MiB@2=102") && !strstr(s.log, "top5"));
    CHECK(strstr(s.text, "images:x \\| shuffle"));
    char *svg = slurp(in(folder, "run.svg"), NULL);
    CHECK(!strncmp(svg, "<svg ", 5) && strstr(svg, "</svg>"));
    CHECK(strstr(svg, "planned peak 120 MiB") && strstr(svg, "mlp:a&lt;b, batch 8"));
    free(svg);
}

TEST(record, folders_that_are_missing_are_made) {
    char folder[512];
    warnings w = {0};
    snprintf(folder, sizeof folder, "%s/a/b", test_folder());
    CHECK_OK(record(folder, 0, 1, &w));
    char is[128];
    summary_of(in(folder, "run.jsonl"), is, sizeof is);
    CHECK_STR(is, "start0 step1 validation1 epoch1 end1");
    const hri_record_options o = {.lines = "/dev/null/x/run.jsonl"};
    const hri_record_start start = {.batch = 8};
    hri_record *r = NULL;
    hri_prose why = {0};
    CHECK(hri_record_open(&o, &start, &r, &why) != HR_OK);
    CHECK(r == NULL && strstr(why.text, "/dev/null"));
}

TEST(record, the_picture_of_a_continued_run_shows_its_first_part_too) {
    const char *folder = test_folder();
    warnings w = {0};
    CHECK_OK(record(folder, 0, 10, &w));
    CHECK_OK(record(folder, 10, 12, &w));
    char *svg = slurp(in(folder, "run.svg"), NULL);
    const char *line = strstr(svg, "<polyline");
    CHECK(line != NULL);
    char points[2048];
    snprintf(points, sizeof points, "%.*s", (int)strcspn(line, "\n"), line);
    CHECK_EQ(count_of(points, ","), 12);
    free(svg);
}

TEST(record, any_fault_is_a_refusal_at_the_start_or_a_warning_later) {
    for (int kind = 0; kind < HRI_FAULT_COUNT; kind++) {
        for (uint64_t nth = 1; nth < 200; nth++) {
            const char *folder = test_folder();
            warnings w = {0};
            const int64_t live = hri_fault_live_allocs();
            hri_fault_set((hri_fault_kind)kind, nth, 0);
            const hr_status status = record(folder, 0, 3, &w);
            const uint64_t delivered = hri_fault_delivered();
            hri_fault_set((hri_fault_kind)kind, 0, 0);
            CHECK_EQ(hri_fault_live_allocs(), live);
            if (delivered == 0) {
                break;
            }
            CHECK(status == HR_OK || status == HR_E_IO || status == HR_E_NOMEM_HOST ||
                  status == HR_E_NOT_FOUND);
            CHECK_OK(record(folder, 0, 3, &w)); /* a retry works */
        }
    }
}

TEST(record, a_disk_that_stays_full_warns_once_a_file_and_loses_no_training) {
    const char *folder = test_folder();
    warnings w = {0};
    const hri_record_options o = {.lines = in(folder, "run.jsonl"),
                                  .events = in(folder, "events"),
                                  .log = count_warning,
                                  .log_user = &w};
    const hri_record_start start = {.batch = 8};
    hri_record *r;
    CHECK_OK(hri_record_open(&o, &start, &r, NULL));
    hri_fault_set(HRI_FAULT_WRITE, 1, 1);
    for (uint64_t i = 1; i <= 500; i++) {
        const hri_record_step s = step_at(i);
        hri_record_step_done(r, &s);
    }
    CHECK_EQ(w.count, 2);
    hri_fault_set(HRI_FAULT_WRITE, 0, 0); /* somebody made room */
    const hri_record_step s = step_at(501);
    hri_record_step_done(r, &s);
    hri_record_close(r);
    CHECK_EQ(w.count, 4);
    char is[512];
    summary_of(in(folder, "run.jsonl"), is, sizeof is);
    CHECK_STR(is, "start0 step501");
}

TEST(picture, keeps_the_highest_memory_however_many_steps_there_are) {
    hri_picture *p = hri_calloc(1, sizeof *p);
    for (uint64_t i = 1; i <= 100000; i++) {
        hri_picture_step(p, i, i == 77777 ? NAN : 1, i == 54321 ? 9e6 : 5e6);
    }
    double most = 0;
    for (size_t i = 0; i < p->train.count; i++) {
        most = fmax(most, p->train.most[i]);
        CHECK(i == 0 || p->train.step[i] > p->train.step[i - 1]);
        CHECK(p->train.mean[i] == 1 || isnan(p->train.mean[i]));
    }
    CHECK(most == 9e6);
    CHECK(p->train.count > HRI_PICTURE_POINTS / 4);
    CHECK(p->train.step[p->train.count - 1] == 100000);
    hri_free(p);
}

TEST(picture, is_drawn_with_no_points_one_point_and_nothing_finite) {
    hri_picture *p = hri_calloc(1, sizeof *p);
    const hri_picture_text text = {.planned_bytes = 1 << 20};
    for (int round = 0; round < 4; round++) {
        char *svg;
        CHECK_OK(hri_picture_draw(p, &text, &svg));
        CHECK(strstr(svg, "</svg>") && !strstr(svg, "nan") && !strstr(svg, "inf"));
        hri_free(svg);
        hri_picture_step(p, (uint64_t)round + 1, round == 0 ? NAN : 0, NAN);
        hri_picture_validation(p, (uint64_t)round + 1, round == 1 ? INFINITY : 2);
    }
    hri_free(p);
}
