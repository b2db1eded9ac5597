/* Exports: every op and every byte is there, whatever the names are. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "pictures.h"
#include "see/export.h"
#include "see/lines.h"
#include "test.h"

static hri_recording make(void) {
    static const char *const names[] = {"plain", "a \"quoted\", name", "=1+1",
                                        "bad \xff\x01\n utf8"};
    hri_recording r = {.head = {.peak_bytes = 4096, .step_ns = 40, .measured_step_ns = 80}};
    for (uint32_t i = 0; i < 4; i++) {
        hri_see_op op = {.begin_ns = 10 * i, .end_ns = 10 * (i + 1)};
        hri_see_buffer b = {
            .category = (uint8_t)(1 + i), .bytes = 1000 + i, .birth = i, .death = 4};
        if (i != 2) { /* one was not measured */
            op.measured_begin_ns = 20 * i;
            op.measured_end_ns = 20 * (i + 1);
        }
        CHECK_OK(hri_recording_text(&r, names[i], &op.name));
        b.name = op.name;
        CHECK_OK(hri_recording_add(&r, HRI_SEE_OPS, &op));
        CHECK_OK(hri_recording_add(&r, HRI_SEE_BUFFERS, &b));
    }
    CHECK_OK(hri_recording_finish(&r));
    return r;
}

static const char *in_folder(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    return path;
}

TEST(export, a_trace_has_every_op_and_counters_that_add_up) {
    hri_recording r = make();
    hri_prose why = {0};
    json_error_t error;
    CHECK_OK(hri_see_export_trace(&r, in_folder("trace.json"), &why));
    json_t *root = json_load_file(in_folder("trace.json"), 0, &error), *event;
    size_t i, slices[3] = {0}, counters = 0;
    CHECK(root);
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        const char *ph = json_string_value(json_object_get(event, "ph"));
        const json_int_t pid = json_integer_value(json_object_get(event, "pid"));
        CHECK(pid == 1 || pid == 2);
        slices[pid] += !strcmp(ph, "X");
        if (!strcmp(ph, "C") && pid == 1) { /* buffers come one by one and stay */
            json_int_t sum = 0, wanted = 0;
            const char *key;
            json_t *value;
            json_object_foreach(json_object_get(event, "args"), key, value) {
                sum += json_integer_value(value);
            }
            for (size_t k = 0; k <= counters; k++) {
                wanted += 1000 + (json_int_t)k;
            }
            CHECK_EQ(sum, wanted);
            counters++;
        }
    }
    CHECK_EQ(slices[1], 4);
    CHECK_EQ(slices[2], 3);
    CHECK_EQ(counters, 4);
    json_decref(root);
    hri_recording_deinit(&r);
}

/* Perfetto's trace processor drops a slice that begins before the one before it has ended, by however little. */
TEST(export, slices_of_a_trace_are_whole_nanoseconds_and_do_not_overlap) {
    hri_recording r = make();
    hri_prose why = {0};
    json_t *event;
    hri_see_op *ops = r.tables[HRI_SEE_OPS].items;
    r.head.step_ns = 1e6;
    for (size_t i = 0; i < r.tables[HRI_SEE_OPS].count; i++) {
        ops[i].begin_ns = 497250.16667 * (double)i;
        ops[i].end_ns = 497250.16667 * (double)(i + 1);
    }
    CHECK_OK(hri_see_export_trace(&r, in_folder("trace.json"), &why));
    json_t *root = json_load_file(in_folder("trace.json"), 0, NULL);
    double last = 0;
    size_t i, slices = 0;
    CHECK(root);
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0 ||
            json_integer_value(json_object_get(event, "pid")) != 1) {
            continue;
        }
        const double begin = 1e3 * json_number_value(json_object_get(event, "ts"));
        const double length = 1e3 * json_number_value(json_object_get(event, "dur"));
        CHECK(fabs(begin - round(begin)) < 1e-6 && fabs(length - round(length)) < 1e-6);
        CHECK_EQ(round(begin), last);
        last = round(begin) + round(length);
        slices++;
    }
    CHECK_EQ(slices, 4);
    json_decref(root);
    hri_recording_deinit(&r);
}

TEST(export, csv_quotes_what_it_must_and_starts_no_formula) {
    hri_recording r = make();
    hri_prose why = {0};
    char *text;
    CHECK_OK(hri_see_export_csv(&r, in_folder("deep/csv"), &why));
    CHECK_OK(hri_file_read(in_folder("deep/csv/buffers.csv"), 1 << 20, &text, NULL, &why));
    CHECK(strstr(text, "\r\nplain,"));
    CHECK(strstr(text, "\r\n\"a \"\"quoted\"\", name\","));
    CHECK(strstr(text, "\r\n\"'=1+1\","));
    CHECK(strstr(text, ",optimizer state,"));
    hri_free(text);
    hri_recording_deinit(&r);
}

TEST(export, a_place_that_cannot_be_written_is_said) {
    hri_recording r = make();
    hri_prose why = {0};
    CHECK(hri_see_export_trace(&r, "/nowhere/at/all.json", &why) != HR_OK);
    CHECK(strstr(why.text, "/nowhere/at/all.json"));
    CHECK(hri_see_export_csv(&r, "/dev/null/csv", &why) != HR_OK);
    CHECK(hri_see_export_tensorboard(&r, "/dev/null/tb", &why) != HR_OK);
    CHECK_OK(hri_see_export_tensorboard(&r, in_folder("tb"), &why));
    hri_recording_deinit(&r);
}
