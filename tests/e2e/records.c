/* What `headroom train` writes about itself, read by readers that share nothing with the writers: event files by
 * support/events.c, JSON lines by jansson; each step is there once, also when a run was stopped and resumed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#include "events.h"
#include "pictures.h"
#include "test.h"

static int run(const char *more) {
    char command[2048];
    const char *f = test_folder();
    snprintf(
        command, sizeof command,
        "%s train mlp:size=8,channels=1,width=16 --data synthetic:64 --val-split 0.25 --batch 8 "
        "--budget 128MiB --no-measure --seed 3 --out %s/run --log %s/run.jsonl "
        "--tensorboard %s/events --svg %s/run.svg %s >%s/out 2>&1",
        HEADROOM_PROGRAM, f, f, f, f, more, f);
    const int code = system(command);
    return code < 0 ? code : code >> 8;
}

static const char *in(const char *name) {
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder(), name);
    return path;
}

/* losses[step] from the lines; checks that every step of 1 .. count is there once. */
static void read_lines(int count, double *losses) {
    FILE *f = fopen(in("run.jsonl"), "r");
    char line[8192];
    int seen = 0;
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f)) {
        json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        CHECK(json_is_object(o));
        const char *event = json_string_value(json_object_get(o, "event"));
        const json_int_t step = json_integer_value(json_object_get(o, "step"));
        if (!strcmp(event, "step")) {
            CHECK_EQ(step, ++seen);
            losses[step] = json_real_value(json_object_get(o, "loss"));
        }
        json_decref(o);
    }
    fclose(f);
    CHECK_EQ(seen, count);
}

/* The points of a tag as TensorBoard keeps them: a start at step n forgets what was there from n on. */
static void read_points(const char *tag, int count, double *values) {
    static test_events all;
    int last = 0;
    CHECK(test_events_folder(in("events"), &all) >= 1);
    for (char *word = strtok(all.log, " "); word; word = strtok(NULL, " ")) {
        int step;
        double value;
        const size_t n = strlen(tag);
        if (sscanf(word, "start@%d", &step) == 1) {
            last = step - 1;
        } else if (!strncmp(word, tag, n) && sscanf(word + n, "@%d=%lf", &step, &value) == 2) {
            CHECK_EQ(step, last + 1);
            values[step] = value;
            last = step;
        }
    }
    CHECK_EQ(last, count);
}

TEST(records, event_files_and_lines_hold_every_step_once_also_when_resumed) {
    double lines[32] = {0}, points[32] = {0};
    CHECK_EQ(run("--steps 5"), 0);
    read_lines(5, lines);
    CHECK_EQ(run("--steps 12 --resume"), 0);
    read_lines(12, lines);
    read_points("train/loss", 12, points);
    for (int i = 1; i <= 12; i++) {
        CHECK(isfinite(lines[i]) && lines[i] > 0);
        CHECK(fabs(lines[i] - points[i]) <
              1e-5 * lines[i]); /* six digits of a float were printed */
    }
    FILE *f = fopen(in("run.svg"), "r");
    char head[16] = "";
    CHECK(f && fread(head, 1, 5, f) == 5);
    fclose(f);
    CHECK_STR(head, "<svg ");
}

TEST(records, a_place_that_cannot_be_written_is_refused_before_step_1) {
    char more[600];
    const char *const flags[] = {"--log", "--tensorboard", "--svg"};
    for (int i = 0; i < 3; i++) {
        snprintf(more, sizeof more, "--steps 2 --overwrite %s /dev/null/x", flags[i]);
        const int code = run(more);
        CHECK(code == 2 || code == 3);
    }
}

TEST(records, a_full_disk_loses_records_and_no_training) {
    CHECK_EQ(run("--steps 4 --log /dev/full"), 0);
    FILE *f = fopen(in("out"), "r");
    char text[8192] = "";
    CHECK(f && fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    CHECK(strstr(text, "training continues") && strstr(text, "done: 4 steps"));
}
