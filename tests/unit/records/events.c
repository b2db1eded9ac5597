/* TensorBoard event files, read back by an independent reader (support/events.h). */
#include "records/events.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "events.h"
#include "pictures.h"
#include "test.h"

static const char *in_folder(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    return path;
}

TEST(events, an_independent_reader_finds_what_was_written) {
    const char *folder = in_folder("logs/run 1");
    hri_events e;
    CHECK_OK(hri_events_open(folder, 0, NULL, NULL, &e, NULL));
    hri_events_scalar(&e, "train/loss", 1, 2.5);
    hri_events_scalar(&e, "train/loss", 1000000000000u, -0.125);
    hri_events_scalar(&e, "bad", 3, INFINITY);
    hri_events_text(&e, "run", 0, "| a | b |\n");
    hri_events_close(&e);
    test_events s = {0};
    CHECK_EQ(test_events_folder(folder, &s), 1);
    CHECK_STR(s.log,
              "version train/loss@1=2.5 train/loss@1000000000000=-0.125 bad@3=inf text:run@0 ");
    CHECK_STR(s.text, "| a | b |\n");
}

TEST(events, a_run_that_goes_on_says_from_where_in_a_file_of_its_own) {
    const char *folder = in_folder("logs");
    for (int run = 0; run < 2; run++) {
        hri_events e;
        CHECK_OK(hri_events_open(folder, run ? 4 : 0, NULL, NULL, &e, NULL));
        hri_events_scalar(&e, "x", run ? 4 : 5, 1);
        hri_events_close(&e);
    }
    test_events s = {0};
    CHECK_EQ(test_events_folder(folder, &s), 2);
    CHECK_STR(s.log, "version x@5=1 version start@4 x@4=1 ");
}

TEST(events, a_killed_run_leaves_a_file_of_whole_records) {
    const char *folder = in_folder("logs");
    hri_events e;
    CHECK_OK(hri_events_open(folder, 0, NULL, NULL, &e, NULL));
    for (uint64_t i = 0; i < 10000; i++) { /* many buffers full, none flushed by us */
        hri_events_scalar(&e, "x", i, 1);
    }
    test_events_file(e.sink.path, NULL); /* what lies there now is what a kill would leave */
    struct stat info;
    CHECK(stat(e.sink.path, &info) == 0);
    CHECK(info.st_size > 8 * HRI_SINK_BUFFER);
    CHECK_EQ(info.st_size, (long long)e.sink.good_bytes);
    hri_events_close(&e);
}

TEST(events, a_long_text_is_cut_between_characters) {
    const char *folder = in_folder("logs");
    char *text = malloc(30001);
    for (int i = 0; i < 30000; i += 3) {
        memcpy(text + i, "\xe2\x82\xac", 4);
    }
    hri_events e;
    CHECK_OK(hri_events_open(folder, 0, NULL, NULL, &e, NULL));
    hri_events_text(&e, "t", 0, text);
    hri_events_close(&e);
    test_events s = {0};
    CHECK_EQ(test_events_folder(folder, &s), 1);
    CHECK_STR(s.log, "version text:t@0 ");
    free(text);
}
