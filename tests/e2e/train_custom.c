/* examples/train_custom: its history, stopped and resumed in one program, is that of the command with its saved model. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures.h"
#include "program.h"
#include "test.h"

enum { POINTS = 2048, HELD_OUT = 250 }; /* those of the example */

static void write_npy(const char *name, const char *type, int count, int wide, const void *data,
                      size_t bytes) {
    char header[128], shape[32];
    unsigned char *file = malloc(128 + bytes);
    CHECK(file != NULL);
    snprintf(shape, sizeof shape, wide ? "(%d, %d)" : "(%d,)", count, wide);
    memset(file, ' ', 128);
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    const int n = snprintf(header, sizeof header,
                           "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    memcpy(file + 10, header, (size_t)n);
    file[127] = '\n';
    memcpy(file + 128, data, bytes);
    test_write(test_folder(), name, file, 128 + bytes);
    free(file);
}

static void write_points(void) {
    static float where[POINTS][2];
    static int32_t which[POINTS];
    for (int at = 0; at < POINTS; at++) {
        const int i = at * 797 % POINTS;
        const double t = 0.3 + 2.9 * (i / 2) / (POINTS / 2.0), angle = 2 * t + (i % 2) * 3.14159265;
        where[at][0] = (float)(t / 3.2 * cos(angle));
        where[at][1] = (float)(t / 3.2 * sin(angle));
        which[at] = i % 2;
    }
    const int rest = POINTS - HELD_OUT;
    write_npy("x.npy", "<f4", rest, 2, where[HELD_OUT], (size_t)rest * sizeof where[0]);
    write_npy("y.npy", "<i4", rest, 0, &which[HELD_OUT], (size_t)rest * sizeof which[0]);
    write_npy("vx.npy", "<f4", HELD_OUT, 2, where, HELD_OUT * sizeof where[0]);
    write_npy("vy.npy", "<i4", HELD_OUT, 0, which, HELD_OUT * sizeof which[0]);
}

/* Runs a command in the case's folder; its output, which must be short. */
static void run(const char *program, const char *arguments, char *out, size_t size) {
    char command[1024];
    snprintf(command, sizeof command, "cd '%s' && '%s' %s 2>words", test_folder(), program,
             arguments);
    FILE *f = popen(command, "r");
    CHECK(f != NULL);
    out[fread(out, 1, size - 1, f)] = '\0';
    CHECK_EQ(pclose(f), 0);
}

TEST_TIMEOUT(train_custom, a_program_and_the_command_have_the_same_history, 120) {
    PROGRAM_NEED_MEMORY();
    static char example[8192], command[65536];
    json_error_t error;
    write_points();
    run(HEADROOM_EXAMPLES "/train_custom", "", example, sizeof example);
    run(HEADROOM_PROGRAM,
        "train ./spirals.hr --data npy:x.npy,y.npy --val-data npy:vx.npy,vy.npy --batch 128 "
        "--micro-batches off --epochs 60 --budget 96MiB --no-save --json "
        "--options optimizer=adamw,rate=0.01,decay=0.001,decay-all=off",
        command, sizeof command);
    json_t *json = json_loads(command, 0, &error);
    const char *history = json_string_value(json_object_get(json, "history"));
    CHECK(history && strlen(history) == 16);
    CHECK(strstr(example, "200 steps, then 840") != NULL);
    CHECK(strstr(example, history) != NULL);
    json_decref(json);
    /* Its folder is a run like any other. */
    run(HEADROOM_PROGRAM, "eval spirals --data npy:vx.npy,vy.npy --json", command, sizeof command);
    json = json_loads(command, 0, &error);
    CHECK(json_number_value(json_object_get(json, "accuracy")) > 0.98);
    json_decref(json);
}
