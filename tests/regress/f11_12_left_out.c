/* 11.12, the data's part: what a source leaves out or ignores is said; classes come from labels; words that nobody knows are
 * refused with the nearest one that somebody does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "pictures.h"
#include "program.h"
#include "test.h"

static void write_image(const char *name) {
    size_t bytes;
    unsigned char *jpeg = test_jpeg_of(16, 16, 1, NULL, &bytes);
    test_write(test_folder(), name, jpeg, bytes);
    free(jpeg);
}

static void write_arrays(const int64_t *labels, uint32_t count) {
    char path[600];
    snprintf(path, sizeof path, "%s/x.npy", test_folder());
    arrays_write_reals(path, count, 16, 1);
    snprintf(path, sizeof path, "%s/y.npy", test_folder());
    arrays_write_i64(path, labels, count);
}

#define TRAIN "train mlp:size=8,channels=3,width=4 --batch 1 --steps 1 --no-save "

TEST(f11_12, classes_without_images_and_files_of_other_types_are_said) {
    write_image("d/a/1.jpg");
    write_image("d/b/1.jpg");
    test_write(test_folder(), "d/c/1.gif", "x", 1);
    test_write(test_folder(), "d/c/2.gif", "x", 1);
    test_write(test_folder(), "d/b/notes.txt", "x", 1);
    program_outcome o = program_run(NULL, TRAIN "--data images:d");
    program_expect(&o, 0,
                   "class c has no images: none of its 2 files is a .jpg, .jpeg, .png, .bmp, "
                   ".webp, .tif, .tiff or .avif");
    CHECK(strstr(
        o.words,
        "skipping 3 files that are not .jpg, .jpeg, .png, .bmp, .webp, .tif, .tiff or .avif"));
    program_end(&o);
    o = program_run(&(program_options){.as_shell = 1},
                    "rm -r d/c/* && $HEADROOM " TRAIN "--data images:d");
    program_expect(&o, 0, "class c has no images: its folder is empty");
    program_end(&o);
    write_image("d/loose.jpg");
    o = program_run(NULL, TRAIN "--data images:d");
    program_expect(&o, 0, "skipping 1 image outside the class folders");
    program_end(&o);
    o = program_run(&(program_options){.as_shell = 1},
                    "rm d/*/*.jpg && $HEADROOM " TRAIN "--data images:d");
    program_expect(&o, 2, "contains no .jpg, .jpeg, .png, .bmp, .webp, .tif, .tiff or .avif files");
    program_end(&o);
}

#define ARRAYS "--data npy:x.npy,y.npy --batch 4 --steps 2 --no-save "

TEST(f11_12, classes_are_taken_from_the_labels_of_arrays) {
    const int64_t labels[12] = {0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4};
    write_arrays(labels, 12);
    program_outcome o = program_run(NULL, "train mlp:size=4,width=4 " ARRAYS);
    program_expect(&o, 0, NULL);
    CHECK(strstr(o.out, "classes=7"));
    program_end(&o);
    o = program_run(NULL, "train mlp:size=4,width=4,classes=9 " ARRAYS);
    program_expect(&o, 0, NULL);
    program_end(&o);
    o = program_run(NULL, "train mlp:size=4,width=4,classes=5 " ARRAYS);
    program_expect(&o, 2, "labels up to 6, but the model has 5 classes (0-4)");
    program_end(&o);
    o = program_run(NULL, "train mlp:size=4,width=4,classes=5 --data 'npy:x.npy,y.npy | "
                          "filter(y,max=4)' --batch 4 --steps 2 --no-save");
    program_expect(&o, 0, NULL);
    program_end(&o);
}

TEST(f11_12, labels_below_zero_are_counted_and_said) {
    const int64_t labels[12] = {0, 1, 2, -1, 1, 2, -100, 0, 1, 2, -1, 1};
    write_arrays(labels, 12);
    program_outcome o = program_run(NULL, "train mlp:size=4,width=4 " ARRAYS);
    program_expect(&o, 0, "3 of 12 labels are negative and are ignored");
    CHECK(strstr(o.out, "classes=3"));
    program_end(&o);
}

TEST(f11_12, misspelled_words_are_refused_with_a_suggestion) {
    static const struct {
        const char *arguments, *said;
    } cases[] = {{TRAIN "--data images:d --augment flp", "did you mean \"flip\""},
                 {TRAIN "--data images:d --augment flip,croop", "did you mean \"crop\""},
                 {TRAIN "--data 'images:d | shufle'", "did you mean \"shuffle\""},
                 {TRAIN "--data 'images:d,clases=off'", "classes"},
                 {TRAIN "--data 'imags:d'", "did you mean \"images\""},
                 {"data 'images:d | decode(8,flp=on)'", "flip"},
                 {"data 'images:d | decode(8) | batch(2,dropp=on)'", "drop"},
                 {"eval r --data 'imges:d'", NULL}};
    write_image("d/a/1.jpg");
    write_image("d/b/1.jpg");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        program_outcome o = program_run(NULL, "%s", cases[i].arguments);
        program_expect(&o, 2, cases[i].said);
        program_end(&o);
    }
    program_outcome o = program_run(NULL, TRAIN "--data images:d --augment flip,jitter");
    program_expect(&o, 0, NULL);
    program_end(&o);
}
