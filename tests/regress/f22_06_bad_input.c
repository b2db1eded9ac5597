/* 22.6 and 11.14: bad input is exit code 2, in every command: every format, every kind of damage. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "pictures.h"
#include "program.h"
#include "test.h"

/* Writes FOLDER/bad/... and says what the source is. */
typedef struct damage {
    const char *name, *source, *file;
    const char *data;
    size_t bytes;
} damage;

#define NPY(HEADER) "\x93NUMPY\1\0\x76\0" HEADER
#define BYTES(TEXT) TEXT, sizeof(TEXT) - 1

static const damage damages[] = {
    {"npy, no npy", "npy:bad/x.npy", "bad/x.npy", BYTES("this is no array")},
    {"npy, empty", "npy:bad/x.npy", "bad/x.npy", "", 0},
    {"npy, cut in its header", "npy:bad/x.npy", "bad/x.npy", BYTES("\x93NUMPY\1\0\x76\0{'descr'")},
    {"npy, version 9", "npy:bad/x.npy", "bad/x.npy", BYTES("\x93NUMPY\x9\0\x76\0{'descr': '<f4'}")},
    {"csv, empty", "csv:bad/t.csv", "bad/t.csv", "", 0},
    {"csv, two columns of one name", "csv:bad/t.csv", "bad/t.csv", BYTES("x,x\n1,2\n")},
    {"tfrecord, no record", "tfrecord:bad/t.rec", "bad/t.rec", BYTES("no record at all, I say")},
    {"tfrecord, empty", "tfrecord:bad/t.rec", "bad/t.rec", "", 0},
    {"tokens, too few", "tokens:bad/t.bin", "bad/t.bin", BYTES("1234")},
    {"mnist, no idx", "mnist:bad", "bad/train-images-idx3-ubyte",
     BYTES("no idx file, no idx file")},
    {"mnist, no file", "mnist:bad/none", "bad/x", BYTES("x")},
    {"cifar10, another size", "cifar10:bad", "bad/data_batch_1.bin", BYTES("x")},
    {"images, no folder", "images:bad/none", "bad/x", BYTES("x")},
    {"images, no class", "images:bad", "bad/x", BYTES("x")},
    {"images, no image", "images:bad", "bad/a/x.txt", BYTES("x")},
    {"images, a broken one", "images:bad", "bad/a/x.jpg", BYTES("\xff\xd8\xff no image")},
    {"images, an empty one", "images:bad", "bad/a/x.png", "", 0},
};

static void write_good(void) {
    for (int i = 0; i < 8; i++) {
        char name[64];
        size_t bytes;
        unsigned char *jpeg = test_jpeg_of(16, 16, (uint64_t)i, NULL, &bytes);
        snprintf(name, sizeof name, "good/%c/%d.jpg", "ab"[i % 2], i);
        test_write(test_folder(), name, jpeg, bytes);
        free(jpeg);
    }
    program_outcome o = program_run(NULL, "train mlp:size=8,channels=3,width=4 --data images:good "
                                          "--batch 4 --steps 1 --out r");
    program_expect(&o, 0, NULL);
    program_end(&o);
}

static void check_commands(const char *name, const char *source) {
    static const char *const commands[] = {
        "data '%s | take(1)'",
        "train mlp:size=8,channels=3,width=4 --data '%s' --batch 1 --steps 1 --no-save",
        "eval r --data '%s'", "predict r '%s'"};
    for (size_t k = 0; k < sizeof commands / sizeof commands[0]; k++) {
        char command[256], text[512];
        snprintf(command, sizeof command, "%s", commands[k]);
        /* `data` decodes, so that a broken image shows. */
        snprintf(text, sizeof text, "%s%s", source,
                 k == 0 && !strncmp(source, "images", 6) ? " | decode(8)" : "");
        char *at = strstr(command, "%s");
        char whole[1024];
        snprintf(whole, sizeof whole, "%.*s%s%s", (int)(at - command), command, text, at + 2);
        program_outcome o = program_run(NULL, "%s", whole);
        if (o.code != 2) {
            test_fail(__FILE__, __LINE__, "%s: %s: exit code %d, said %s", name, whole, o.code,
                      o.words);
        }
        CHECK(strlen(o.words) > 10);
        program_end(&o);
    }
}

TEST_TIMEOUT(f22_06, bad_files_are_exit_code_2_in_every_command, 180) {
    write_good();
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        const damage *d = &damages[i];
        program_outcome o = program_run(&(program_options){.as_shell = 1}, "rm -rf bad; mkdir bad");
        program_end(&o);
        test_write(test_folder(), d->file, d->data, d->bytes);
        check_commands(d->name, d->source);
    }
}

TEST_TIMEOUT(f22_06, arrays_of_a_wrong_kind_are_exit_code_2_in_every_command, 120) {
    static const struct {
        const char *name, *header;
        int version;
    } headers[] = {
        {"complex", "{'descr': '<c8', 'fortran_order': False, 'shape': (4, 192), }", 1},
        {"big-endian", "{'descr': '>f4', 'fortran_order': False, 'shape': (4, 192), }", 1},
        {"objects", "{'descr': '|O', 'fortran_order': False, 'shape': (4, 192), }", 1},
        {"Fortran", "{'descr': '<f4', 'fortran_order': True, 'shape': (4, 192), }", 1},
        {"no shape", "{'descr': '<f4', 'fortran_order': False, }", 1},
        {"no elements", "{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 1},
        {"cut", "{'descr': '<f4', 'fortran_order': False, 'shape': (400, 192), }", 1},
        {"nine dimensions",
         "{'descr': '<f4', 'fortran_order': False, 'shape': (4,1,1,1,1,1,1,1,192), }", 1},
        {"version 4", "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 192), }", 4}};
    static const float numbers[4 * 192];
    char path[600];
    write_good();
    snprintf(path, sizeof path, "%s/x.npy", test_folder());
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        arrays_write_npy(path, headers[i].version, headers[i].header, numbers, sizeof numbers);
        check_commands(headers[i].name, "npy:x.npy");
    }
}

/* 11.19: an empty standard input, or one that cannot be read, is bad input too. */
TEST(f22_06, standard_input_without_an_image_is_exit_code_2) {
    static const char *const inputs[] = {"< /dev/null", "< empty", "<&-", "< good", "< junk"};
    write_good();
    test_write(test_folder(), "empty", "", 0);
    test_write(test_folder(), "junk", "no/such/file.jpg\n\1\2\3", 20);
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        program_outcome o =
            program_run(&(program_options){.as_shell = 1}, "$HEADROOM predict r - %s", inputs[i]);
        program_expect(&o, 2, NULL);
        program_end(&o);
    }
}
