/* 11.5: images edited in place were not noticed, neither by cache(DIR) nor by --resume. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "arrays.h"
#include "pictures.h"
#include "program.h"
#include "test.h"

static void write_image(const char *name, uint64_t seed) {
    size_t bytes;
    unsigned char *jpeg = test_jpeg_of(16, 16, seed, NULL, &bytes);
    test_write(test_folder(), name, jpeg, bytes);
    free(jpeg);
}

static void write_images(void) {
    for (int i = 0; i < 16; i++) {
        char name[64];
        snprintf(name, sizeof name, "d/%c/%02d.jpg", "ab"[i % 2], i);
        write_image(name, (uint64_t)i);
    }
}

#define MODEL "mlp:size=8,channels=3,width=4"

static void history(char *to, size_t size, const char *data) {
    program_outcome o = program_run(
        NULL, "train " MODEL " --data '%s' --batch 4 --epochs 2 --no-save --json", data);
    program_expect(&o, 0, NULL);
    snprintf(to, size, "%s", program_text(&o, "history"));
    program_end(&o);
}

TEST(f11_05, a_cache_does_not_serve_an_image_that_was_edited) {
    char before[64], after[64], plain[64];
    write_images();
    history(before, sizeof before, "images:d | cache(c)");
    write_image("d/b/05.jpg", 99);
    history(after, sizeof after, "images:d | cache(c)");
    history(plain, sizeof plain, "images:d");
    CHECK_STR(after, plain);
    CHECK(strcmp(before, after) != 0);
}

/* The same size and another time is enough. */
TEST(f11_05, a_resume_is_refused_and_names_the_image_that_was_edited) {
    write_images();
    program_outcome o =
        program_run(NULL, "train " MODEL " --data images:d --batch 4 --steps 2 --out r");
    program_expect(&o, 0, NULL);
    program_end(&o);
    o = program_run(NULL, "train " MODEL " --data images:d --batch 4 --steps 3 --out r --resume");
    program_expect(&o, 0, NULL);
    program_end(&o);
    char path[600];
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 4000000000}};
    snprintf(path, sizeof path, "%s/d/a/04.jpg", test_folder());
    CHECK_EQ(utimensat(AT_FDCWD, path, times, 0), 0);
    o = program_run(NULL, "train " MODEL " --data images:d --batch 4 --steps 4 --out r --resume");
    program_expect(&o, 2, "d/a/04.jpg");
    CHECK(strstr(o.words, "changed"));
    program_end(&o);
}

/* Every other source of files. */
TEST(f11_05, a_resume_is_refused_when_any_file_was_changed) {
    char text[512] = "x,label\n", path[600];
    for (int i = 0; i < 16; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "0.%d,%d\n", i + 10, i % 3);
    }
    test_write(test_folder(), "t.csv", text, strlen(text));
    snprintf(path, sizeof path, "%s/x.npy", test_folder());
    arrays_write_reals(path, 16, 1, 1);
    snprintf(path, sizeof path, "%s/y.npy", test_folder());
    arrays_write_labels(path, 16, 3);
    static const char *const sources[] = {"csv:t.csv,max_bytes=128", "npy:x.npy,y.npy"};
    static const char *const files[] = {"t.csv", "y.npy"};
    for (int i = 0; i < 2; i++) {
        const char *run = "train mlp:size=1,width=4,classes=3 --data '%s' --batch 4 --steps %d "
                          "--out r%d %s";
        program_outcome o = program_run(NULL, run, sources[i], 2, i, "");
        program_expect(&o, 0, NULL);
        program_end(&o);
        const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 4000000000}};
        snprintf(path, sizeof path, "%s/%s", test_folder(), files[i]);
        CHECK_EQ(utimensat(AT_FDCWD, path, times, 0), 0);
        o = program_run(NULL, run, sources[i], 4, i, "--resume");
        program_expect(&o, 2, files[i]);
        program_end(&o);
    }
}
