/* The tutorial evaluated on pictures that the model had learnt from: what a training kept apart could not be asked for. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "pictures.h"
#include "program.h"
#include "test.h"

enum { SAMPLES = 60, PIXELS = 16 };

static void write_npy(const char *name, const char *type, const char *shape, const void *data,
                      size_t bytes) {
    char file[128 + SAMPLES * PIXELS * 4], text[118];
    snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type,
             shape);
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    memset(file + 10, ' ', 117);
    memcpy(file + 10, text, strlen(text));
    file[127] = '\n';
    CHECK(bytes <= sizeof file - 128);
    memcpy(file + 128, data, bytes);
    test_write(test_folder(), name, file, 128 + bytes);
}

static void write_data(void) {
    float x[SAMPLES * PIXELS];
    int32_t y[SAMPLES];
    for (uint64_t i = 0; i < SAMPLES * PIXELS; i++) {
        x[i] = (float)(hri_hash_u64(i) % 2000) / 1000.0f - 1.0f;
    }
    for (uint64_t i = 0; i < SAMPLES; i++) {
        y[i] = (int32_t)(hri_hash_u64(i + 9999) % 3);
    }
    write_npy("x.npy", "<f4", "60, 4, 4, 1", x, sizeof x);
    write_npy("y.npy", "<i4", "60,", y, sizeof y);
    write_npy("x2.npy", "<f4", "50, 4, 4, 1", x, sizeof x / 60 * 50);
    write_npy("y2.npy", "<i4", "50,", y, sizeof y / 60 * 50);
}

typedef struct numbers {
    double samples, loss, accuracy;
} numbers;

static numbers measure(const char *run, const char *flags) {
    program_outcome r = program_run(NULL, "eval %s --data npy:x.npy,y.npy --json %s", run, flags);
    program_expect(&r, 0, NULL);
    const numbers n = {program_number(&r, "samples"), program_number(&r, "loss"),
                       program_number(&r, "accuracy")};
    program_end(&r);
    return n;
}

TEST_TIMEOUT(f11_16, eval_measures_on_what_the_training_kept_apart, 120) {
    write_data();
    program_outcome r = program_run(
        NULL, "train mlp:size=4,width=16,layers=1,classes=3 --data npy:x.npy,y.npy --batch 9 "
              "--epochs 3 --val-split 0.25 --seed 7 --out run --rate 0.1 --json");
    program_expect(&r, 0, NULL);
    const double loss = program_number(&r, "val_loss");
    program_end(&r);
    const numbers val = measure("run/last.safetensors", "--split val");
    const numbers train = measure("run/last.safetensors", "--split train --batch 7");
    const numbers all = measure("run/last.safetensors", "");
    CHECK(val.samples == 15 && train.samples == 45 && all.samples == 60);
    CHECK(fabs(val.loss - loss) < 1e-6 * loss); /* the very samples of the last validation */
    CHECK(fabs(val.loss - train.loss) > 1e-3);
    CHECK(fabs((val.loss * 15 + train.loss * 45) / 60 - all.loss) < 1e-6);
    CHECK(fabs((val.accuracy * 15 + train.accuracy * 45) / 60 - all.accuracy) < 1e-6);
    CHECK(measure("run", "--split val").samples == 15); /* the best weights know it too */
    r = program_run(NULL, "eval run --data npy:x2.npy,y2.npy --split val");
    program_expect(&r, 2, "60");
    program_end(&r);
}

TEST_TIMEOUT(f11_16, a_training_without_a_split_has_none_to_ask_for, 60) {
    write_data();
    program_outcome r =
        program_run(NULL, "train mlp:size=4,width=16,layers=1,classes=3 --data npy:x.npy,y.npy "
                          "--batch 9 --steps 2 --out run --json");
    program_expect(&r, 0, NULL);
    program_end(&r);
    r = program_run(NULL, "eval run --data npy:x.npy,y.npy --split val");
    program_expect(&r, 2, "--val-split");
    program_end(&r);
}

/* The command that a training proposes measures what it has not learnt from. */
TEST_TIMEOUT(f11_16, the_next_command_of_a_training_asks_for_the_split, 60) {
    write_data();
    program_outcome r =
        program_run(NULL, "train mlp:size=4,width=16,layers=1,classes=3 --data npy:x.npy,y.npy "
                          "--batch 9 --epochs 1 --val-split 0.2 --out run");
    program_expect(&r, 0, NULL);
    CHECK(strstr(r.out, "--split val") || strstr(r.words, "--split val"));
    program_end(&r);
}
