/* Every way out and every `next:` line is a command that can be typed, and does what it says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures.h"
#include "program.h"
#include "sets.h"
#include "test.h"

#define SHORT "--steps 1 --no-save --no-measure --threads 1 "

/* Types a command that the program printed. */
static void type(const char *folder, const char *command, const char *from) {
    CHECK(!strncmp(command, "headroom ", 9));
    program_outcome o =
        program_run(&(program_options){.folder = folder, .as_shell = 1, .seconds = 55},
                    "$HEADROOM %s", command + 9);
    if (o.code != 0) {
        test_fail(__FILE__, __LINE__, "%s: %s: exit code %d; %.800s %.800s", from, command, o.code,
                  o.out, o.words);
    }
    test_count_check();
    program_end(&o);
}

/* The refusal of a command, its ways out typed; how many there were. */
static size_t type_ways(const char *folder, const char *command, const char *with) {
    program_outcome o =
        program_run(&(program_options){.folder = folder, .seconds = 55}, "%s --json", command);
    program_expect(&o, 1, NULL);
    const json_t *ways = json_object_get(o.json, "ways_out");
    const size_t count = json_array_size(ways);
    int found = !with;
    CHECK(count >= 1);
    for (size_t i = 0; i < count; i++) {
        const json_t *way = json_array_get(ways, i);
        const char *text = json_string_value(json_object_get(way, "command"));
        const char *flags = json_string_value(json_object_get(way, "flags"));
        CHECK(text && flags);
        found = found || strstr(flags, with);
        type(folder, text, command);
    }
    if (!found) {
        test_fail(__FILE__, __LINE__, "%s: no way out has %s: %.1500s", command, with, o.out);
    }
    program_end(&o);
    return count;
}

TEST_TIMEOUT(f22_01, ways_out_of_train_can_be_typed, 300) {
    PROGRAM_NEED_MEMORY();
    static const char *const rows[][2] = {
        {"train mlp --data synthetic:count=64 --batch 32 --schedule cosine --budget "
         "8MiB " SHORT,
         "--momentum 0"},
        {"train mlp --data synthetic:count=64 --optimizer adam --rate 0.01 --budget "
         "8MiB " SHORT,
         "--optimizer sgd"},
        {"train mlp --data synthetic:count=64 --options "
         "schedule=step,every=2,momentum=0.5 "
         "--clip 1 --budget 8MiB " SHORT,
         "--momentum 0"},
        {"train lenet --data images:set --batch 8 --val-split 0.5 --data-budget 24MiB --budget "
         "24MiB " SHORT,
         "--data-budget"},
    };
    const char *folder = test_folder();
    set_of_pictures(folder, "set", 8);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        type_ways(folder, rows[i][0], rows[i][1]);
    }
}

TEST_TIMEOUT(f22_01, ways_out_of_plan_can_be_typed, 300) {
    PROGRAM_NEED_SPEED();
    const char *folder = test_folder();
    const unsigned long long budget = program_runtime_bytes() + (7 << 19);
    char command[160];
    snprintf(command, sizeof command,
             "plan mlp:width=64 --batch 4096 --micro-batches off --budget %llu --no-measure",
             budget);
    type_ways(folder, command, "--micro-batches auto");
    snprintf(command, sizeof command,
             "plan resnet18:size=32,width=8,layers=1x1x1x1 --batch 256 --budget %llu --no-measure "
             "--no-choices",
             budget);
    type_ways(folder, command, "--ghost-norm");
}

/* The words behind "next: " of an answer. */
static const char *next_of(const program_outcome *o, char *buf, size_t size) {
    const char *at = strstr(o->out, "next: ");
    at = at ? at : strstr(o->words, "next: ");
    CHECK(at);
    snprintf(buf, size, "%.*s", (int)strcspn(at + 6, "\n"), at + 6);
    return buf;
}

TEST_TIMEOUT(f22_01, next_lines_keep_every_flag_and_can_be_typed, 300) {
    PROGRAM_NEED_SPEED();
    static const struct {
        int code;
        const char *command, *kept;
    } rows[] = {
        {0,
         "plan mlp:width=8 --batch 16 --optimizer rmsprop --precision bf16 --no-measure "
         "--no-choices "
         "--options alpha=0.9",
         "--options alpha=0.9"},
        {0,
         "plan mlp:width=8 --device null:1GiB --device-spec flops=1e12 --no-choices --seed 3 --try "
         "0",
         "--device-spec flops=1e12"},
        {1, "plan mlp:width=8 --budget 6MiB --momentum 0.5 --no-measure --no-choices --threads 1",
         "--momentum 0.5"},
        {0,
         "train lenet --data 'images:my set' --batch 4 --out 'a run' "
         "--steps 1 --no-measure",
         "'images:my set'"},
        {0, "train mlp:width=8 --data synthetic:count=64 --rate 0.5 --warmup 0 " SHORT,
         "--rate 0.5"},
        {1, "train mlp:width=8 --data synthetic:count=64 --budget 6MiB --rate 0.5 " SHORT,
         "--rate 0.5"},
        {0, "eval run --data 'images:set'", "run"},
        {0, "data 'images:my set | decode(28) | batch(4)' --show 1 --workers 1", "--workers 1"},
        {0, "data 'images:my set' 'decode(28)' --bench --seconds 0.1", "headroom"},
        {0, "data --stages", "headroom"},
        {0, "devices", "headroom"},
        {0, "doctor", "headroom"},
        {2, "trian", "headroom"},
        {2, "train", "headroom"},
        {2, "devices --nothing", "headroom"},
    };
    const char *folder = test_folder();
    set_of_run(folder);
    set_of_pictures(folder, "my set", 4);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char next[4096];
        program_outcome o =
            program_run(&(program_options){.folder = folder}, "%s", rows[i].command);
        program_expect(&o, rows[i].code, NULL);
        next_of(&o, next, sizeof next);
        if (!strstr(next, rows[i].kept)) {
            test_fail(__FILE__, __LINE__, "%s: %s is not in: %s", rows[i].command, rows[i].kept,
                      next);
        }
        program_end(&o);
        if (!strstr(next, " --steps 1") && strstr(next, "headroom train ")) {
            strcat(next, " --steps 1"); /* as it is, but short */
        }
        type(folder, next, rows[i].command);
    }
}
