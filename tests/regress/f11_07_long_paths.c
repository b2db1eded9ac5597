/* 11.7: SIGSEGV on an unreadable file with a long path.  A sentence keeps the reason whatever the path, and no path is cut
 * into another one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pictures.h"
#include "program.h"
#include "test.h"

/* "d/a/xxx.../xxx.../...", `levels` folders of 200 letters below. */
static void long_folder(char *path, size_t size, int levels) {
    size_t used = (size_t)snprintf(path, size, "d/a");
    for (int i = 0; i < levels; i++) {
        used += (size_t)snprintf(path + used, size - used, "/%0200d", i);
    }
}

static void write_image(const char *name) {
    size_t bytes;
    unsigned char *jpeg = test_jpeg_of(16, 16, 1, NULL, &bytes);
    test_write(test_folder(), name, jpeg, bytes);
    free(jpeg);
}

TEST(f11_07, a_file_with_a_long_path_that_cannot_be_read_is_named_with_its_reason) {
    static char folder[4000], name[4100];
    long_folder(folder, sizeof folder, 4);
    snprintf(name, sizeof name, "%s/1.jpg", folder);
    write_image(name);
    write_image("d/b/2.jpg");
    program_outcome o =
        program_run(&(program_options){.as_shell = 1},
                    "rm '%s' && mkfifo '%s' && $HEADROOM data 'images:d | decode(8)'", name, name);
    program_expect(&o, 2, "a FIFO");
    CHECK(!o.killed_by && o.code == 2);
    program_end(&o);
    /* A link to nowhere. */
    o = program_run(&(program_options){.as_shell = 1},
                    "rm '%s' && ln -s /nowhere/x.jpg '%s' && $HEADROOM data 'images:d | decode(8)'",
                    name, name);
    CHECK(o.code == 2 || o.code == 3);
    CHECK(strstr(o.words, "no such file"));
    program_end(&o);
}

TEST(f11_07, long_paths_of_every_source_are_said_or_read) {
    static const char *const sources[] = {"images:%s",   "mnist:%s",  "cifar10:%s",
                                          "npy:%s",      "csv:%s",    "lines:%s",
                                          "tfrecord:%s", "tokens:%s", "range:4 | cache(%s)"};
    static char path[6000], text[7000];
    memset(path, 'p', 5000);
    for (size_t i = 0; i < 5000; i += 200) {
        path[i] = '/';
    }
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        snprintf(text, sizeof text, sources[i], path);
        program_outcome o = program_run(NULL, "data '%s'", text);
        CHECK(!o.killed_by && (o.code == 2 || o.code == 3));
        CHECK(strlen(o.words) > 10);
        program_end(&o);
    }
    /* 1,100 letters: more than a buffer of 1,024, and a good path. */
    static char folder[1300], name[1400];
    size_t used = (size_t)snprintf(folder, sizeof folder, "m");
    for (int i = 0; i < 6; i++) {
        used += (size_t)snprintf(folder + used, sizeof folder - used, "/%0190d", i);
    }
    unsigned char images[16 + 2 * 4] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2};
    unsigned char labels[8 + 2] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 0};
    snprintf(name, sizeof name, "%s/train-images-idx3-ubyte", folder);
    test_write(test_folder(), name, images, sizeof images);
    snprintf(name, sizeof name, "%s/train-labels-idx1-ubyte", folder);
    test_write(test_folder(), name, labels, sizeof labels);
    program_outcome o = program_run(NULL, "data 'mnist:%s'", folder);
    program_expect(&o, 0, NULL);
    program_end(&o);
    o = program_run(NULL, "data 'mnist:%s | cache(%s/c)'", folder, folder);
    program_expect(&o, 0, NULL);
    program_end(&o);
}
