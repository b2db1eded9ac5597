/* 11.1: a source whose length nobody knows beforehand ended its first epoch properly; after that every step counted as an
 * epoch.  Epochs of streams have as many steps as those of the same samples with a known length. */
#include <stdio.h>
#include <string.h>

#include "arrays.h"
#include "pictures.h"
#include "program.h"
#include "test.h"

static void write_data(uint32_t count) {
    char path[600];
    snprintf(path, sizeof path, "%s/x.npy", test_folder());
    arrays_write_reals(path, count, 16, 1);
    snprintf(path, sizeof path, "%s/y.npy", test_folder());
    arrays_write_labels(path, count, 4);
    snprintf(path, sizeof path, "%s/t.csv", test_folder());
    FILE *f = fopen(path, "w");
    CHECK(f);
    fprintf(f, "x,label\n");
    for (uint32_t i = 0; i < count; i++) {
        fprintf(f, "0.%u,%u\n", i % 97 + 1, i % 4);
    }
    CHECK_EQ(fclose(f), 0);
}

#define MLP    "mlp:size=4,width=8,classes=4"
#define STREAM "'npy:x.npy,y.npy | filter(y,min=0,max=3)'"

static void check_run(const char *data, uint32_t count, int batch, int epochs, const char *more) {
    program_outcome o =
        program_run(NULL, "train %s --data %s --batch %d --epochs %d --out r --overwrite --json %s",
                    MLP, data, batch, epochs, more);
    program_expect(&o, 0, NULL);
    CHECK_EQ(program_number(&o, "steps"), (uint32_t)epochs * (count / (uint32_t)batch));
    CHECK_EQ(program_number(&o, "epochs"), epochs);
    CHECK_EQ(program_number(&o, "left_over_samples"), count % (uint32_t)batch);
    program_end(&o);
}

TEST(f11_01, every_epoch_of_a_stream_has_all_its_steps) {
    write_data(64);
    check_run(STREAM, 64, 16, 5, "");
    check_run(STREAM, 64, 16, 5, "--micro-batches 4");
    check_run(STREAM, 64, 64, 3, "");
    check_run("'npy:x.npy,y.npy | filter(y,min=0,max=3) | prefetch'", 64, 16, 5, "");
    check_run("'npy:x.npy,y.npy | filter(y,min=0,max=3) | cache'", 64, 16, 5, "");
    check_run("'npy:x.npy,y.npy | filter(y,min=0,max=3) | cache(c)'", 64, 16, 5, "");
    check_run("'npy:x.npy,y.npy | filter(y,min=0,max=3) | cache(c)'", 64, 16, 5, "");
}

TEST(f11_01, what_fills_no_batch_is_left_out_and_said) {
    write_data(70);
    check_run(STREAM, 70, 16, 5, "");
    check_run(STREAM, 70, 16, 5, "--micro-batches 2");
    program_outcome o =
        program_run(NULL, "train %s --data %s --batch 16 --epochs 2 --no-save", MLP, STREAM);
    program_expect(&o, 0, NULL);
    CHECK(strstr(o.out, "6 samples per epoch"));
    program_end(&o);
    o = program_run(NULL, "train %s --data %s --batch 71 --epochs 2 --no-save", MLP, STREAM);
    program_expect(&o, 2, "70 samples, fewer than one batch");
    program_end(&o);
}

TEST(f11_01, records_of_text_train_all_their_epochs) {
    write_data(70);
    program_outcome o =
        program_run(NULL, "train mlp:size=1,width=4,classes=4 --data csv:t.csv,max_bytes=256 "
                          "--batch 16 --epochs 4 --no-save --json");
    program_expect(&o, 0, NULL);
    CHECK_EQ(program_number(&o, "steps"), 16);
    program_end(&o);
}

TEST(f11_01, a_stream_validates_once_an_epoch_on_all_of_a_stream) {
    write_data(70);
    program_outcome o = program_run(
        NULL,
        "train %s --data %s --val-data 'npy:x.npy,y.npy | filter(y,min=0,max=1)' --batch 16 "
        "--epochs 3 --no-save --log l.jsonl --json",
        MLP, STREAM);
    program_expect(&o, 0, NULL);
    CHECK_EQ(program_number(&o, "steps"), 12);
    CHECK_EQ(program_number(&o, "val_samples"), 36);
    program_end(&o);
    o = program_run(&(program_options){.as_shell = 1}, "grep -c '\"val' l.jsonl");
    CHECK_EQ(o.out[0], '3');
    program_end(&o);
}

static void history(char *to, size_t size, const char *arguments) {
    program_outcome o =
        program_run(NULL, "train %s --data %s --batch 16 --json %s", MLP, STREAM, arguments);
    program_expect(&o, 0, NULL);
    snprintf(to, size, "%s", program_text(&o, "history"));
    program_end(&o);
}

/* In the middle of the second epoch, at the end of an epoch, and just before its end is known. */
TEST_TIMEOUT(f11_01, a_stream_goes_on_where_it_stopped, 180) {
    static const int stops[] = {1, 3, 4, 5, 6, 8, 11};
    char whole[64], is[64], arguments[128];
    write_data(70);
    history(whole, sizeof whole, "--epochs 3 --no-save");
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        snprintf(arguments, sizeof arguments, "--steps %d --out r --overwrite", stops[i]);
        history(is, sizeof is, arguments);
        history(is, sizeof is, "--epochs 3 --out r --resume");
        CHECK_STR(is, whole);
    }
    history(is, sizeof is, "--epochs 3 --no-save --micro-batches 1 --threads 1");
    CHECK_STR(is, whole);
}

TEST(f11_01, beside_another_training) {
    write_data(64);
    program_outcome o =
        program_run(NULL,
                    "train %s --data %s --batch 16 --epochs 3 --no-save --json "
                    "--also \"mlp:size=4,width=4,classes=4 --data %s --batch 16 --epochs 2\"",
                    MLP, STREAM, STREAM);
    program_expect(&o, 0, NULL);
    CHECK(strstr(o.out, "\"steps\": 12") || strstr(o.out, "\"steps\":12"));
    CHECK(strstr(o.out, "\"steps\": 8") || strstr(o.out, "\"steps\":8"));
    program_end(&o);
}
