/* Random flags from the tables of the commands: nothing crashes, every answer is an object, and a flag that changes nothing
 * in the table's own eyes is named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/plan_flags.h"
#include "manual/train_flags.h"
#include "pictures.h"
#include "program.h"
#include "test.h"

/* Flags that would make a run long, or answer something else. */
static int is_left_out(const char *name) {
    static const char *const names[] = {"data",    "epochs", "steps",   "json",   "also",
                                        "problem", "load",   "compare", "effort", "try",
                                        "curve",   "batch",  "save",    NULL};
    for (const char *const *n = names; *n; n++) {
        if (!strcmp(*n, name)) {
            return 1;
        }
    }
    return 0;
}

static void add_value(const hri_field *f, uint64_t *state, char *out, size_t size) {
    static const char *const numbers[] = {"0", "1", "3", "-1", "0.5", "1e9", "auto", "x"};
    static const char *const sizes[] = {"8MiB", "64MiB", "1GiB", "50%", "0", "x"};
    static const char *const texts[] = {"auto", "off", "2", "x", "synthetic:count=32",
                                        "flip", "none"};
    const uint64_t r = test_random(state);
    switch (f->type) {
    case HRI_FIELD_BOOL:
        snprintf(out, size, " --%s%s", r % 3 ? "" : "no-", f->name);
        return;
    case HRI_FIELD_ENUM: {
        size_t count = 0;
        while (f->choices[count]) {
            count++;
        }
        snprintf(out, size, " --%s %s", f->name, f->choices[r % count]);
        return;
    }
    case HRI_FIELD_SIZE:
    case HRI_FIELD_BYTES:
        snprintf(out, size, " --%s %s", f->name, sizes[r % 6]);
        return;
    case HRI_FIELD_INT:
    case HRI_FIELD_DOUBLE:
        snprintf(out, size, " --%s=%s", f->name, numbers[r % 8]);
        return;
    default:
        snprintf(out, size, " --%s %s", f->name, texts[r % 7]);
    }
}

static void try_some(const char *command, const hri_field *fields, int runs) {
    const size_t count = hri_fields_count(fields);
    uint64_t state = test_seed();
    for (int i = 0; i < runs; i++) {
        char text[2048];
        size_t used = (size_t)snprintf(text, sizeof text, "%s --json", command);
        for (uint64_t n = 1 + test_random(&state) % 5; n > 0; n--) {
            const hri_field *f = &fields[test_random(&state) % count];
            if (!is_left_out(f->name)) {
                add_value(f, &state, text + used, sizeof text - used);
                used = strlen(text);
            }
        }
        program_outcome o = program_run(&(program_options){.folder = test_folder()}, "%s", text);
        const int told = o.json && (o.code == 0 || json_object_get(o.json, "error"));
        if (o.killed_by || o.timed_out || o.code < 0 || o.code > 2 || !told) {
            test_fail(__FILE__, __LINE__, "%s: exit code %d, signal %d; %.500s %.500s", text,
                      o.code, o.killed_by, o.out, o.words);
        }
        test_count_check();
        program_end(&o);
    }
}

TEST_TIMEOUT(f11_12, random_flags_of_train_are_answered, 300) {
    try_some(
        "train mlp:width=8 --data synthetic:count=64 --batch 16 --steps 1 --no-save --no-measure "
        "--threads 1",
        hri_train_flag_fields, 60);
}

TEST_TIMEOUT(f11_12, random_flags_of_plan_are_answered, 300) {
    try_some("plan mlp:width=8 --batch 16 --no-measure --no-choices --threads 1", hri_plan_fields,
             40);
}

/* A flag alone, whose needs are not met, is always named. */
TEST_TIMEOUT(f11_12, each_flag_that_needs_another_is_named_without_it, 120) {
    for (const hri_field *f = hri_train_flag_fields; f->name; f++) {
        if (!f->needs || f->type == HRI_FIELD_STRING || !strcmp(f->needs, "save")) {
            continue;
        }
        const char *value = f->type == HRI_FIELD_BOOL     ? ""
                            : f->type == HRI_FIELD_DOUBLE ? "=0.5"
                                                          : "=2";
        const char *with = strstr(f->needs, "optimizer=") ? " --optimizer adam" : "";
        program_outcome o = program_run(NULL,
                                        "train mlp:width=8 --data synthetic:count=64 --batch 16 "
                                        "--steps 1 --no-save --no-measure "
                                        "--threads 1 --%s%s%s",
                                        f->name, value, with);
        char wanted[128];
        snprintf(wanted, sizeof wanted, "--%s has no effect", f->name);
        if (!strstr(o.words, wanted)) {
            test_fail(__FILE__, __LINE__, "--%s is not named: %.600s", f->name, o.words);
        }
        test_count_check();
        program_end(&o);
    }
}
