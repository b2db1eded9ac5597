/* Ranks with a GPU each over NCCL: here tests/fakecuda/nccl.c on fake devices.  The bits of one rank; a library that is too
 * old, ranks with different ones and one that never answers are told in words and end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "test.h"

/* What cuBLASLt keeps until the end is not ours to free. */
#define FAKE                                                                                       \
    "export LD_LIBRARY_PATH=" FAKECUDA_ROOT "/fakenccl:" FAKECUDA_ROOT                             \
    "/fakecuda FAKECUDA_STATE=$PWD/state FAKECUDA_DEVICES=8 FAKECUDA_MODEL=Fake "                  \
    "HEADROOM_BROKER=off HEADROOM_CACHE_DIR=$PWD/cache ASAN_OPTIONS=detect_leaks=0; test "         \
    "-e " FAKECUDA_ROOT "/fakenccl/libnccl.so.2 || exit 77; "
#define JOB                                                                                        \
    "$HEADROOM train mlp:size=4,width=8,classes=10 --data synthetic --batch 8 "                    \
    "--seed 1 --steps 2 --no-measure --no-save --json "

static program_outcome run(const char *before, const char *flags) {
    program_outcome o = program_run(&(program_options){.seconds = 100, .as_shell = 1},
                                    FAKE "%s " JOB "%s", before, flags);
    if (o.code == 77) {
        program_end(&o);
        test_skip("no fake driver");
    }
    return o;
}

TEST_TIMEOUT(f18_01_nccl, ranks_have_the_bits_of_one, 200) {
    program_outcome one = run("", "--micro-batches 4 --device cuda:0");
    program_expect(&one, 0, NULL);
    program_outcome two =
        run("", "--micro-batches 4 --devices cuda:0,cuda:1 --replicas 2 --net nccl");
    program_expect(&two, 0, NULL);
    CHECK_STR(program_text(&two, "history"), program_text(&one, "history"));
    CHECK_STR(program_text(&two, "weights"), program_text(&one, "weights"));
    program_end(&one);
    program_end(&two);
}

/* What ranks hold in slices goes from device to device, and through the host's memory; digests of parameters and states come
 * from all ranks, and so does a checkpoint, which goes on in one process. */
TEST_TIMEOUT(f18_01_nccl, ranks_that_hold_slices_have_the_bits_of_one, 200) {
#define WIDE "--batch 6 --seed 1 --no-measure --json --micro-batches 3 --optimizer adam "
    static const char job[] = "$HEADROOM train 'net: input(48,classes=4) | dense(48) | relu | "
                              "dense(classes)' --data synthetic " WIDE;
    static const char *const how[] = {
        "--devices cuda:0,cuda:1 --replicas 2 --net nccl --shard weights --out a",
        "--devices cuda:0,cuda:1 --replicas 2 --net shm --shard states --out b"};
    program_outcome one = program_run(&(program_options){.seconds = 100, .as_shell = 1},
                                      FAKE "%s --steps 3 --device cuda:0 --no-save", job);
    if (one.code == 77) {
        program_end(&one);
        test_skip("no fake driver");
    }
    program_expect(&one, 0, NULL);
    for (int i = 0; i < 2; i++) {
        program_outcome o = program_run(
            &(program_options){.seconds = 100, .as_shell = 1},
            FAKE "%s --steps 2 %s > /dev/null && %s --steps 3 --device cuda:0 --out %c --resume",
            job, how[i], job, "ab"[i]);
        program_expect(&o, 0, NULL);
        CHECK_STR(program_text(&o, "history"), program_text(&one, "history"));
        CHECK_STR(program_text(&o, "weights"), program_text(&one, "weights"));
        program_end(&o);
    }
    program_end(&one);
#undef WIDE
}

/* "--devices cuda:0,cuda:1,...", so many of them. */
static const char *devices(int count, const char *more, char out[128]) {
    int used = snprintf(out, 128, "--devices cuda:0");
    for (int i = 1; i < count; i++) {
        used += snprintf(out + used, 128 - (size_t)used, ",cuda:%d", i);
    }
    snprintf(out + used, 128 - (size_t)used, "%s", more);
    return out;
}

/* In one process, and a rank each over NCCL. */
TEST_TIMEOUT(f18_01_nccl, up_to_eight_devices_have_the_bits_of_one, 600) {
    char flags[128];
    if (!getenv("HEADROOM_TEST_ALL")) {
        test_skip("HEADROOM_TEST_ALL=1 trains on 2 to 8 devices");
    }
    program_outcome one = run("", "--micro-batches 8 --device cuda:0");
    program_expect(&one, 0, NULL);
    for (int count = 2; count <= 8; count++) {
        for (int nccl = 0; nccl < 2; nccl++) {
            char more[64];
            snprintf(more, sizeof more,
                     nccl ? " --micro-batches 8 --replicas %d --net nccl" : " --micro-batches 8",
                     count);
            program_outcome many = run("", devices(count, more, flags));
            program_expect(&many, 0, NULL);
            CHECK_STR(program_text(&many, "history"), program_text(&one, "history"));
            CHECK_STR(program_text(&many, "weights"), program_text(&one, "weights"));
            program_end(&many);
        }
    }
    program_end(&one);
}

TEST_TIMEOUT(f18_01_nccl, what_cannot_work_is_told_and_ends, 200) {
    static const struct {
        const char *before, *says;
    } cases[] = {
        {"export FAKENCCL_VERSION=21304;", "2.14 or newer is needed"},
        {"export FAKENCCL_FAIL=group;", "fake failure"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        program_outcome o = run(
            cases[i].before, "--micro-batches 4 --devices cuda:0,cuda:1 --replicas 2 --net nccl");
        CHECK_EQ(o.code, 3);
        CHECK(strstr(o.words, cases[i].says) != NULL);
        program_end(&o);
    }
}

TEST_TIMEOUT(f18_01_nccl, without_a_gpu_it_is_refused, 100) {
    program_outcome o = run("", "--micro-batches 4 --device host --replicas 2 --net nccl");
    CHECK_EQ(o.code, 3);
    CHECK(strstr(o.words, "nccl is for GPUs") != NULL);
    program_end(&o);
}
