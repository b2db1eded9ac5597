/* 11.10, 11.12, 11.14: two runs into one --out could overwrite each other between the test and the lock; an --out beyond 511
 * characters wrote another folder; one that cannot be written was found out after the first epoch; a FIFO hung on open. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "forge.h"
#include "pictures.h"
#include "program.h"
#include "test.h"

#define TRAIN                                                                                      \
    "train mlp:size=4,channels=1,width=4,layers=1,classes=2 --data npy:x.npy,y.npy --batch 4 "     \
    "--steps 4 --no-measure "

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

TEST_TIMEOUT(f11_10, of_runs_into_one_folder_at_once_one_trains, 120) {
    const char *folder = test_folder();
    forge_data(folder);
    const program_options shell = {.folder = folder, .as_shell = 1};
    for (int round = 0; round < 3; round++) {
        program_outcome o = program_run(
            &shell,
            "for i in 1 2 3 4 5 6; do ( $HEADROOM " TRAIN
            "--out run%d --save-every 1 --steps 50 >out$i 2>&1; echo code=$? ) & done; wait",
            round);
        CHECK_EQ(count_of(o.out, "code=0"), 1);
        CHECK_EQ(count_of(o.out, "code=2"), 5);
        program_end(&o);
    }
}

TEST_TIMEOUT(f11_10, of_runs_without_out_each_gets_its_own_folder, 60) {
    const char *folder = test_folder();
    forge_data(folder);
    const program_options shell = {.folder = folder, .as_shell = 1};
    program_outcome o = program_run(
        &shell,
        "for i in 1 2 3 4; do ( $HEADROOM " TRAIN
        ">out$i 2>&1; echo code=$? ) & done; wait; ls -d runs/*/last.safetensors; cat out*");
    if (count_of(o.out, "code=0") != 4) {
        test_fail(__FILE__, __LINE__, "%s", o.out);
    }
    CHECK_EQ(count_of(o.out, "/last.safetensors\n"), 4);
    program_end(&o);
}

TEST(f11_10, a_long_out_is_that_folder) {
    const char *folder = test_folder();
    char out[1200];
    size_t n = 0;
    for (int i = 0; i < 6; i++) {
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%0150d", i ? "/" : "", i);
    }
    forge_data(folder);
    program_outcome o =
        program_run(&(program_options){.folder = folder}, TRAIN "--out %s --json", out);
    program_expect(&o, 0, NULL);
    char path[2048];
    snprintf(path, sizeof path, "%s/%s/last.safetensors", folder, out);
    CHECK_EQ(access(path, F_OK), 0);
    program_end(&o);
    o = program_run(&(program_options){.folder = folder}, TRAIN "--out %s --resume --steps 6", out);
    program_expect(&o, 0, NULL);
    program_end(&o);
    o = program_run(&(program_options){.folder = folder}, "eval %s --data npy:x.npy,y.npy --json",
                    out);
    program_expect(&o, 0, NULL);
    program_end(&o);
}

TEST(f11_14, an_out_that_cannot_be_written_is_refused_before_planning) {
    const char *folder = test_folder();
    char path[512];
    forge_data(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    FILE *f = fopen(path, "w");
    CHECK(f && fclose(f) == 0);
    static const char *const bad[] = {"/proc/self/nothing", "/proc/self", "file", "file/below",
                                      "/dev/null"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        program_outcome o =
            program_run(&(program_options){.folder = folder}, TRAIN "--out %s --json", bad[i]);
        program_expect(&o, 2, bad[i][0] == '/' ? bad[i] : "file");
        CHECK(o.json != NULL && !strstr(o.words, "epoch"));
        program_end(&o);
    }
}

TEST(f11_14, a_refused_plan_leaves_no_folder) {
    const char *folder = test_folder();
    char path[512];
    forge_data(folder);
    program_outcome o =
        program_run(&(program_options){.folder = folder}, TRAIN "--budget 100KiB --out a/b");
    program_expect(&o, 1, NULL);
    snprintf(path, sizeof path, "%s/a", folder);
    CHECK(access(path, F_OK) != 0);
    program_end(&o);
    o = program_run(&(program_options){.folder = folder}, TRAIN "--budget 100KiB");
    program_expect(&o, 1, NULL);
    snprintf(path, sizeof path, "%s/runs", folder);
    CHECK(access(path, F_OK) != 0);
    program_end(&o);
}

TEST_TIMEOUT(f11_10, a_fifo_in_place_of_a_file_does_not_hang, 120) {
    const char *folder = test_folder();
    char path[512];
    forge_data(folder);
    snprintf(path, sizeof path, "%s/fifo", folder);
    CHECK_EQ(mkfifo(path, 0600), 0);
    static const char *const commands[] = {
        "eval fifo --data npy:x.npy,y.npy",
        "predict fifo x.npy",
        TRAIN "--no-save --init fifo",
        "plan --problem fifo",
        "pack fifo",
        "plan mlp --batch 4 --no-measure --compare fifo",
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        program_outcome o =
            program_run(&(program_options){.folder = folder, .seconds = 10}, "%s", commands[i]);
        CHECK(!o.timed_out);
        CHECK_EQ(o.code, 2);
        program_end(&o);
    }
    /* A log into one that nobody reads loses its lines and says so; the training goes on. */
    program_outcome o = program_run(&(program_options){.folder = folder, .seconds = 30},
                                    TRAIN "--no-save --steps 2000 --log fifo");
    CHECK(!o.timed_out);
    program_expect(&o, 0, "log lines");
    program_end(&o);
}

TEST(f11_10, a_pipe_with_a_writer_is_a_file) {
    const char *folder = test_folder();
    forge_data(folder);
    const program_options shell = {.folder = folder, .as_shell = 1};
    program_outcome o =
        program_run(&shell, "bash -c '$HEADROOM pack <(sleep 1; echo id,lower,upper,size; echo "
                            "a,0,2,4) --json --capacity 64'");
    CHECK(o.code == 0 || strstr(o.words, "FIFO") == NULL);
    program_end(&o);
}
