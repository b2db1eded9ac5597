/* 22.8: behind `cache` an npy source was shuffled in another order than without it.  A cache only makes a training faster:
 * the history is the same, for every source, every kind of cache, cold and warm, and after a resume. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "pictures.h"
#include "program.h"
#include "test.h"

static void history(char *to, size_t size, const char *model, const char *data, const char *more) {
    program_outcome o =
        program_run(NULL, "train %s --data '%s' --batch 8 --json %s", model, data, more);
    program_expect(&o, 0, NULL);
    snprintf(to, size, "%s", program_text(&o, "history"));
    program_end(&o);
}

static void check_source(const char *model, const char *source, const char *more) {
    static const char *const caches[] = {" | cache", " | cache(c)", " | cache(c)",
                                         " | cache(c,level=0)"};
    char want[64], is[64], data[512], arguments[256];
    snprintf(arguments, sizeof arguments, "--epochs 3 --no-save %s", more);
    history(want, sizeof want, model, source, arguments);
    for (size_t i = 0; i < sizeof caches / sizeof caches[0]; i++) {
        snprintf(data, sizeof data, "%s%s", source, caches[i]);
        history(is, sizeof is, model, data, arguments);
        CHECK_STR(is, want);
    }
    /* Begun without a cache, gone on with one. */
    snprintf(arguments, sizeof arguments, "--steps 5 --out r --overwrite %s", more);
    history(is, sizeof is, model, source, arguments);
    snprintf(arguments, sizeof arguments, "--epochs 3 --out r --resume %s", more);
    snprintf(data, sizeof data, "%s | cache(c)", source);
    history(is, sizeof is, model, data, arguments);
    CHECK_STR(is, want);
}

TEST_TIMEOUT(f22_08, arrays_train_the_same_with_a_cache, 120) {
    char path[600];
    snprintf(path, sizeof path, "%s/x.npy", test_folder());
    arrays_write_reals(path, 50, 16, 1);
    snprintf(path, sizeof path, "%s/y.npy", test_folder());
    arrays_write_labels(path, 50, 4);
    check_source("mlp:size=4,width=8,classes=4", "npy:x.npy,y.npy", "");
    check_source("mlp:size=4,width=8,classes=4", "npy:x.npy,y.npy | skip(3)", "--val-split 0.2");
    check_source("mlp:size=4,width=8,classes=4", "synthetic:40", "");
}

TEST_TIMEOUT(f22_08, images_train_the_same_with_a_cache, 120) {
    for (int i = 0; i < 24; i++) {
        char name[64];
        size_t bytes;
        unsigned char *jpeg = test_jpeg_of(20, 16, (uint64_t)i, NULL, &bytes);
        snprintf(name, sizeof name, "d/%c/%02d.jpg", "ab"[i % 2], i);
        test_write(test_folder(), name, jpeg, bytes);
        free(jpeg);
    }
    check_source("mlp:size=8,width=8,channels=3", "images:d", "--augment flip,crop,jitter");
}

TEST(f22_08, text_with_an_index_trains_the_same_with_a_cache) {
    char text[4096] = "x,label\n";
    for (int i = 0; i < 50; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "0.%d,%d\n", i + 10, i % 3);
    }
    test_write(test_folder(), "t.csv", text, strlen(text));
    check_source("mlp:size=1,width=4,classes=3", "csv:t.csv,max_bytes=128,index=on", "");
}
