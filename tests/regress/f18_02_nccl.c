/* NCCL in all its states, here tests/fakecuda/nccl.c on fake devices: versions, ranks with different ones, memory that it takes, two ranks
 * on one GPU, a group that never ends, a rank that dies in one; and no rank touches a device that is not its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "program.h"
#include "test.h"

/* What cuBLASLt keeps until the end is not ours to free. */
#define FAKE                                                                                       \
    "export LD_LIBRARY_PATH=" FAKECUDA_ROOT "/fakenccl:" FAKECUDA_ROOT                             \
    "/fakecuda FAKECUDA_STATE=$PWD/state FAKECUDA_DEVICES=8 FAKECUDA_MODEL=Fake "                  \
    "HEADROOM_BROKER=off HEADROOM_CACHE_DIR=$PWD/cache ASAN_OPTIONS=detect_leaks=0; test "         \
    "-e " FAKECUDA_ROOT "/fakenccl/libnccl.so.2 || exit 77; "
#define JOB                                                                                        \
    "$HEADROOM train mlp:size=4,width=8,classes=10 --data synthetic --batch 8 --micro-batches 4 "  \
    "--seed 1 --no-measure --no-save --json "
#define TWO "--steps 2 --devices cuda:0,cuda:1 --replicas 2 --net nccl "

static program_outcome run(const char *before, const char *flags) {
    program_outcome o = program_run(&(program_options){.seconds = 100, .as_shell = 1},
                                    FAKE "%s " JOB "%s", before, flags);
    if (o.code == 77) {
        program_end(&o);
        test_skip("no fake driver");
    }
    return o;
}

static void need_all(void) {
    if (!getenv("HEADROOM_TEST_ALL")) {
        test_skip("HEADROOM_TEST_ALL=1 runs it");
    }
}

static void refused(const char *before, const char *flags, const char *says) {
    program_outcome o = run(before, flags);
    if (o.code != 3 || !strstr(o.words, says)) {
        test_fail(__FILE__, __LINE__, "%s %s: code %d, %s", before, flags, o.code, o.words);
    }
    program_end(&o);
}

TEST_TIMEOUT(f18_02_nccl, ranks_with_different_versions_are_told, 100) {
    refused("export FAKENCCL_VERSION=22809,22703;", TWO,
            "rank 0 has NCCL 2.28.9, rank 1 has 2.27.3: all need the same");
}

TEST_TIMEOUT(f18_02_nccl, two_ranks_on_one_GPU_are_refused_in_words, 200) {
    static const char both[] = "--steps 2 --device cuda:0 --replicas 2 --net nccl";
    refused("", both, "ranks 0 and 1 are on the same GPU, which NCCL 2.28.9 does not allow: ");
    if (getenv("HEADROOM_TEST_ALL")) {
        refused("export FAKENCCL_VERSION=23007;", both, "NCCL_MULTI_RANK_GPU_ENABLE=1");
        program_outcome o =
            run("export FAKENCCL_VERSION=23007 NCCL_MULTI_RANK_GPU_ENABLE=1;", both);
        program_expect(&o, 0, NULL);
        program_end(&o);
    }
}

/* The oldest one, one that knows the whole of our config, the one that was tried on a GPU, a newer one. */
TEST_TIMEOUT(f18_02_nccl, every_version_from_2_14_on_has_the_bits_of_one_rank, 400) {
    static const char *const versions[] = {"21403", "21708", "22809", "23007"};
    need_all();
    program_outcome one = run("", "--steps 2 --device cuda:0");
    program_expect(&one, 0, NULL);
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        char before[64];
        snprintf(before, sizeof before, "export FAKENCCL_VERSION=%s;", versions[i]);
        program_outcome two = run(before, TWO);
        program_expect(&two, 0, NULL);
        CHECK_STR(program_text(&two, "weights"), program_text(&one, "weights"));
        program_end(&two);
    }
    program_end(&one);
}

/* What it takes is seen, and inside what was planned; what is more than planned is refused before the first step. */
TEST_TIMEOUT(f18_02_nccl, its_memory_is_planned_for, 200) {
    need_all();
    program_outcome less = run("", TWO), more = run("export FAKENCCL_BYTES=104857600;", TWO);
    program_expect(&less, 0, NULL);
    program_expect(&more, 0, NULL);
    CHECK(program_number(&more, "measured_peak_bytes") >=
          program_number(&less, "measured_peak_bytes") + 104857600);
    CHECK(program_number(&more, "measured_peak_bytes") <=
          program_number(&more, "planned_peak_bytes"));
    char flags[200];
    snprintf(flags, sizeof flags, TWO "--budget %.0f",
             program_number(&more, "planned_peak_bytes") + 4194304);
    program_end(&less);
    program_end(&more);
    program_outcome o = run("export FAKENCCL_BYTES=1073741824;", flags);
    CHECK(o.code == 1 || o.code == 3);
    CHECK(strstr(o.words, "budget") != NULL);
    program_end(&o);
}

/* Neither the group nor its abort comes back: 2 s of the deadline, 10 s of the abort. */
TEST_TIMEOUT(f18_02_nccl, a_group_that_never_ends_is_ended, 100) {
    struct timespec begun, now;
    need_all();
    clock_gettime(CLOCK_MONOTONIC, &begun);
    refused("export FAKENCCL_FAIL=hang;",
            "--steps 40 --devices cuda:0,cuda:1 --replicas 2 --net nccl --net-deadline 2s",
            "ncclGroupEnd was not done within 2 s");
    clock_gettime(CLOCK_MONOTONIC, &now);
    CHECK_LE(now.tv_sec - begun.tv_sec, 40); /* with the time until then */
}

TEST_TIMEOUT(f18_02_nccl, a_rank_that_dies_in_a_group_is_named, 100) {
    need_all();
    refused("export FAKENCCL_FAIL=die;",
            "--steps 40 --devices cuda:0,cuda:1 --replicas 2 --net nccl --net-deadline 2s",
            "rank 1 (");
}

/* The most that was ever taken of each device, from the file that the fake driver's processes share: behind 8 numbers and the
 * capacities of 8 devices. */
static int devices_touched(const char *file) {
    program_outcome o =
        program_run(&(program_options){.as_shell = 1}, "od -An -v -w8 -tu8 -j128 -N64 %s", file);
    const char *at = o.out;
    int touched = 0;
    CHECK_EQ(o.code, 0);
    for (int i = 0; i < 8; i++) {
        char *end;
        touched |= strtoull(at, &end, 10) ? 1 << i : 0;
        CHECK(end != at);
        at = end;
    }
    program_end(&o);
    return touched;
}

/* Each rank with a driver of its own, so that what it touches is told apart. */
TEST_TIMEOUT(f18_02_nccl, a_rank_touches_its_own_device_alone, 100) {
    program_outcome o = program_run(
        &(program_options){.seconds = 60, .as_shell = 1},
        FAKE "export HEADROOM_SIZE=2 HEADROOM_RUN=own-$$; (export HEADROOM_RANK=1 "
             "FAKECUDA_STATE=$PWD/state1; " JOB "--steps 2 --devices cuda:2,cuda:5 --net nccl) & "
             "export HEADROOM_RANK=0; " JOB
             "--steps 2 --devices cuda:2,cuda:5 --net nccl; code=$?; wait; exit $code");
    if (o.code == 77) {
        program_end(&o);
        test_skip("no fake driver");
    }
    program_expect(&o, 0, NULL);
    program_end(&o);
    CHECK_EQ(devices_touched("state"), 1 << 2);
    CHECK_EQ(devices_touched("state1"), 1 << 5);
}

/* In one process, with slices: what is held is divided, the bits stay. */
TEST_TIMEOUT(f18_02_nccl, up_to_eight_devices_with_slices_have_the_bits_of_one, 600) {
    static const int counts[] = {2, 3, 4, 8};
    static const char *const shards[] = {"none", "states", "weights"};
    need_all();
    program_outcome one = run("", "--steps 2 --micro-batches 8 --device cuda:0");
    program_expect(&one, 0, NULL);
    for (int i = 0; i < 12; i++) {
        char flags[200];
        int used =
            snprintf(flags, sizeof flags, "--steps 2 --micro-batches 8 --shard %s --devices cuda:0",
                     shards[i % 3]);
        for (int k = 1; k < counts[i / 3]; k++) {
            used += snprintf(flags + used, sizeof flags - (size_t)used, ",cuda:%d", k);
        }
        program_outcome many = run("", flags);
        program_expect(&many, 0, NULL);
        CHECK_STR(program_text(&many, "history"), program_text(&one, "history"));
        CHECK_STR(program_text(&many, "weights"), program_text(&one, "weights"));
        CHECK(program_number(&many, "measured_arena_bytes") ==
              program_number(&many, "planned_arena_bytes"));
        program_end(&many);
    }
    program_end(&one);
}
