/* With --json every failure of every command is one object with an "error"; one exit code a kind of fault. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures.h"
#include "program.h"
#include "sets.h"
#include "test.h"

/* The object is whole, its code is the exit code, its kind goes with it, and nothing else is on stdout. */
static void expect_error(const program_outcome *o, int code) {
    static const char *const kinds[][4] = {
        [1] = {"does_not_fit", "check_failed", "interrupted"},
        [2] = {"bad_input", "usage"},
        [3] = {"runtime"},
    };
    program_expect(o, code, NULL);
    CHECK(o->json);
    CHECK_EQ((int)program_number(o, "version"), 1);
    CHECK_EQ((int)program_number(o, "error.code"), code);
    CHECK(program_text(o, "error.message")[0]);
    int known = 0;
    for (int i = 0; i < 4 && kinds[code][i]; i++) {
        known |= !strcmp(program_text(o, "error.kind"), kinds[code][i]);
    }
    CHECK(known);
}

TEST(f11_14, every_failure_is_one_object) {
    static const struct {
        int code;
        const char *command;
    } rows[] = {
        {2, "--json"},
        {2, "nothing --json"},
        {2, "plan --json"},
        {2, "plan nothing --json"},
        {2, "plan mlp --nothing --json"},
        {2, "plan mlp --batch many --json"},
        {2, "plan mlp --json --problem nothing.json"},
        {2, "plan --problem nothing.json --json"},
        {2, "plan --problem bad.json --json"},
        {2, "plan mlp --load nothing --json"},
        {2, "plan mlp --device nothing --json"},
        {2, "plan mlp --device null:much --json"},
        {1, "plan mlp --budget 1MiB --no-measure --json"},
        {2, "train --json"},
        {2, "train mlp --json"},
        {2, "train nothing --data synthetic --json"},
        {2, "train mlp --data nothing:x --json"},
        {2, "train mlp --data images:nowhere --json"},
        {2, "train mlp --data npy:int.npy --json"},
        {2, "train mlp --data npy:version.npy --json"},
        {2, "train mlp --data synthetic --batch x --json"},
        {2, "train mlp --data synthetic --out run --json"},
        {1, "train mlp --data synthetic --budget 1MiB --no-measure --json"},
        {2, "train mlp --data synthetic --device null:1GiB --json"},
        {2, "eval --json"},
        {2, "eval run --json"},
        {2, "eval nothing --data images:set --json"},
        {2, "eval run --data images:nowhere --json"},
        {2, "eval run --data images:bad --json"},
        {2, "eval run --data npy:int.npy --json"},
        {2, "eval run --data npy:version.npy --json"},
        {1, "eval run --data images:set --budget 1MiB --json"},
        {2, "eval run --data images:set --device null:0 --null-device 1GiB --json"},
        {2, "predict --json"},
        {2, "predict run --json"},
        {2, "predict nothing set --json"},
        {2, "predict run nowhere --json"},
        {2, "predict run npy:int.npy --json"},
        {2, "predict run npy:version.npy --json"},
        {1, "predict run set --budget 1MiB --json"},
        {2, "predict run set --device null:0 --null-device 1GiB --json"},
        {2, "data --json"},
        {2, "data nothing:x --json"},
        {2, "data images:nowhere --json"},
        {2, "data npy:int.npy --json"},
        {2, "data npy:version.npy --json"},
        {1, "data 'images:set | decode(28)' --budget 100 --json"},
        {2, "pack --json"},
        {2, "pack nothing.csv --json"},
        {2, "pack bad.json --json"},
        {2, "devices nothing --json"},
        {2, "doctor nothing --json"},
        {2, "version too many --json"},
    };
    const char *folder = test_folder();
    set_of_run(folder);
    set_of_pictures(folder, "bad", 1);
    test_write(folder, "bad/a/x.png", "not a picture", 13);
    test_write(folder, "bad.json", "{", 1);
    set_of_npy(folder, "int.npy", 1,
               "{'descr': '<c8', 'fortran_order': False, 'shape': (4, 784)}\n", 64);
    set_of_npy(folder, "version.npy", 9,
               "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2)}\n", 32);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        program_outcome o =
            program_run(&(program_options){.folder = folder}, "%s", rows[i].command);
        if (o.code != rows[i].code || !o.json) {
            test_fail(__FILE__, __LINE__, "%s: exit code %d, not %d; out: %.500s; said: %.500s",
                      rows[i].command, o.code, rows[i].code, o.out, o.words);
        }
        expect_error(&o, rows[i].code);
        program_end(&o);
    }
}

TEST(f11_14, predictions_before_a_bad_file_are_given) {
    const char *folder = test_folder();
    set_of_run(folder);
    test_write(folder, "set/b/1.png", "not a picture", 13);
    program_outcome o =
        program_run(&(program_options){.folder = folder}, "predict run set --json --threads 1");
    expect_error(&o, 2);
    const json_t *list = json_object_get(o.json, "predictions");
    CHECK_EQ(json_array_size(list), 5);
    CHECK(strstr(program_text(&o, "error.message"), "b/1.png"));
    program_end(&o);
    o = program_run(&(program_options){.folder = folder}, "predict run set");
    program_expect(&o, 2, "b/1.png");
    int lines = 0;
    for (const char *p = o.out; *p; p++) {
        lines += *p == '\n';
    }
    CHECK_EQ(lines, 6); /* a heading and the five before it */
    program_end(&o);
}

TEST(f11_14, a_train_that_breaks_off_is_an_object) {
    const char *folder = test_folder();
    set_of_pictures(folder, "set", 4);
    test_write(folder, "set/b/1.png", "not a picture", 13);
    program_outcome o = program_run(
        &(program_options){.folder = folder},
        "train lenet --data images:set --batch 4 --epochs 1 --out run --no-measure --json");
    expect_error(&o, 2);
    program_end(&o);
}
