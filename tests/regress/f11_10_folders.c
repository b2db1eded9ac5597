/* 11.10, the data's part: folders of 40,000 and more images hung while opening, and a FIFO in place of any file. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pictures.h"
#include "program.h"
#include "test.h"

/* Links to one image: 48,000 names in two classes. */
static void write_folder(int count) {
    size_t bytes;
    char path[600];
    unsigned char *jpeg = test_jpeg_of(16, 16, 1, NULL, &bytes);
    test_write(test_folder(), "d/a/000000.jpg", jpeg, bytes);
    test_write(test_folder(), "d/b/000000.jpg", jpeg, bytes);
    free(jpeg);
    for (int c = 0; c < 2; c++) {
        snprintf(path, sizeof path, "%s/d/%c", test_folder(), "ab"[c]);
        const int folder = open(path, O_RDONLY | O_DIRECTORY);
        CHECK(folder >= 0);
        for (int i = 1; i < count / 2; i++) {
            char name[64];
            snprintf(name, sizeof name, "%06d.jpg", (i * 7919) % 1000000);
            CHECK_EQ(linkat(folder, "000000.jpg", folder, name, 0), 0);
        }
        close(folder);
    }
}

TEST_TIMEOUT(f11_10, a_large_folder_opens_in_a_reasonable_budget_and_is_refused_in_a_small_one,
             120) {
    write_folder(48000);
    program_outcome o =
        program_run(NULL, "data 'images:d | take(10) | decode(8) | batch(2)' --budget 4MiB");
    program_expect(&o, 0, NULL);
    program_end(&o);
    o = program_run(NULL, "data 'images:d | take(10) | decode(8) | batch(2)' --budget 256KiB");
    program_expect(&o, 1, "names of 48000 files need");
    program_end(&o);
    o = program_run(NULL, "data 'images:d,classes=off | take(10) | decode(8)' --budget 100KiB");
    program_expect(&o, 1, "names of 48000 files need");
    program_end(&o);
}

/* Every source with a FIFO, a device and a folder where its file should be: said at once, exit code 2. */
TEST_TIMEOUT(f11_10, whatever_is_no_regular_file_is_refused_at_once, 120) {
    static const struct {
        const char *source, *file;
    } sources[] = {{"npy:s/x.npy", "x.npy"},
                   {"csv:s/t.csv", "t.csv"},
                   {"lines:s/t.txt", "t.txt"},
                   {"tfrecord:s/t.rec", "t.rec"},
                   {"tokens:s/t.bin", "t.bin"},
                   {"mnist:s", "train-images-idx3-ubyte"},
                   {"cifar10:s", "data_batch_1.bin"},
                   {"images(@s/list,classes=off)", "list"},
                   {"images(s/1.jpg,classes=off) | decode(8)", "1.jpg"}};
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        static const char *const makes[] = {"mkfifo s/%s", "ln -s /dev/zero s/%s"};
        for (size_t k = 0; k < 2; k++) {
            char make[256];
            snprintf(make, sizeof make, makes[k], sources[i].file);
            program_outcome o = program_run(&(program_options){.as_shell = 1, .seconds = 10},
                                            "rm -rf s && mkdir s && %s && $HEADROOM data '%s'",
                                            make, sources[i].source);
            program_expect(&o, 2, k ? "a device" : "a FIFO");
            program_end(&o);
        }
    }
}
