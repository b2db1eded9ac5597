/* Ranks with a GPU each over NCCL: here tests/fakecuda/nccl.c on two fake devices.  The bits of one rank; a library that is too
 * old, ranks with different ones and one that never answers are told in words and end. */
#include <stdio.h>
#include <string.h>

#include "program.h"
#include "test.h"

/* What cuBLASLt keeps until the end is not ours to free. */
#define FAKE                                                                                       \
    "export LD_LIBRARY_PATH=" FAKECUDA_ROOT "/fakenccl:" FAKECUDA_ROOT                             \
    "/fakecuda FAKECUDA_STATE=$PWD/state FAKECUDA_DEVICES=2 FAKECUDA_MODEL=Fake "                  \
    "HEADROOM_BROKER=off HEADROOM_CACHE_DIR=$PWD/cache ASAN_OPTIONS=detect_leaks=0; test "         \
    "-e " FAKECUDA_ROOT "/fakenccl/libnccl.so.2 || exit 77; "
#define JOB                                                                                        \
    "$HEADROOM train mlp:size=4,width=8,classes=10 --data synthetic --batch 8 --micro-batches 4 "  \
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
    program_outcome one = run("", "--device cuda:0");
    program_expect(&one, 0, NULL);
    program_outcome two = run("", "--devices cuda:0,cuda:1 --replicas 2 --net nccl");
    program_expect(&two, 0, NULL);
    CHECK_STR(program_text(&two, "history"), program_text(&one, "history"));
    CHECK_STR(program_text(&two, "weights"), program_text(&one, "weights"));
    program_end(&one);
    program_end(&two);
}

TEST_TIMEOUT(f18_01_nccl, what_cannot_work_is_told_and_ends, 200) {
    static const struct {
        const char *before, *says;
    } cases[] = {
        {"export FAKENCCL_VERSION=21304;", "2.14 or newer is needed"},
        {"export FAKENCCL_FAIL=group;", "fake failure"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        program_outcome o = run(cases[i].before, "--devices cuda:0,cuda:1 --replicas 2 --net nccl");
        CHECK_EQ(o.code, 3);
        CHECK(strstr(o.words, cases[i].says) != NULL);
        program_end(&o);
    }
}

TEST_TIMEOUT(f18_01_nccl, without_a_gpu_it_is_refused, 100) {
    program_outcome o = run("", "--device host --replicas 2 --net nccl");
    CHECK_EQ(o.code, 3);
    CHECK(strstr(o.words, "nccl is for GPUs") != NULL);
    program_end(&o);
}
