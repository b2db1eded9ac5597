/* In a container of exactly the budget a training that was said to fit trains: everything that the process takes is in
 * the number. */
#include <string.h>

#include "pictures.h"
#include "program.h"
#include "test.h"

/* The smallest budget that `train` names for these flags. */
static uint64_t smallest(const char *flags) {
    program_outcome o =
        program_run(NULL,
                    "train %s --budget 1MiB --json --out run --overwrite --log run.jsonl "
                    "--no-measure --steps 2",
                    flags);
    program_expect(&o, 1, NULL);
    const uint64_t bytes = (uint64_t)program_number(&o, "smallest_bytes");
    program_end(&o);
    return bytes;
}

/* Trains in a group of that size, with a checkpoint and a log, and looks at what the group was charged. */
static void train_inside(const char *flags, uint64_t bytes) {
    program_outcome o =
        program_run(&(program_options){.cgroup_bytes = bytes},
                    "train %s --budget %llu --json --steps 2 --no-measure --out run "
                    "--overwrite --log run.jsonl",
                    flags, (unsigned long long)bytes);
    program_expect(&o, 0, NULL);
    CHECK_EQ(program_number(&o, "steps"), 2);
    CHECK_LE(program_number(&o, "measured_peak_bytes"), (double)bytes);
    CHECK_LE(o.resident_bytes, bytes);
    CHECK_LE(o.cgroup_bytes, bytes);
    program_end(&o);
}

static void train_at_smallest_and_above(const char *flags) {
    const uint64_t least = smallest(flags);
    train_inside(flags, least);
    train_inside(flags, least + (UINT64_C(1) << 20) + 1234); /* a limit is in whole pages */
    train_inside(flags, least + least / 3);
}

TEST(f11_11, mlp_trains_in_a_container_of_its_smallest_budget) {
    PROGRAM_NEED_CGROUP();
    train_at_smallest_and_above("mlp --data synthetic:256 --batch 32");
}

TEST(f11_11, convolutions_train_in_a_container_of_their_smallest_budget) {
    PROGRAM_NEED_CGROUP();
    train_at_smallest_and_above("lenet --data synthetic:256 --batch 64 --optimizer adam");
}

TEST(f11_11, validation_is_in_the_number) {
    PROGRAM_NEED_CGROUP();
    train_at_smallest_and_above(
        "lenet --data synthetic:64 --val-split 0.25 --batch 16 --val-every 1");
}

TEST(f11_11, the_demo_trains_in_a_container_of_its_budget) {
    PROGRAM_NEED_CGROUP();
    program_outcome o = program_run(
        &(program_options){.cgroup_bytes = 124 << 20, .seconds = 120},
        "train resnet18:classes=10,size=112 --data synthetic --batch 32 --ghost-norm "
        "--micro-batches 8 --budget 124MiB --no-measure --data-budget 4MiB --steps 1 --json");
    program_expect(&o, 0, NULL);
    CHECK_LE(program_number(&o, "measured_peak_bytes"), 124 << 20);
    program_end(&o);
}

/* An arena of some GiB needs more than ten MiB of page tables, which no resident set shows. */
TEST(f11_11, page_tables_are_in_the_number) {
    PROGRAM_NEED_CGROUP();
    const char *flags = "mlp:width=7000,layers=4 --data synthetic:64 --batch 8 --optimizer adam";
    const uint64_t least = smallest(flags);
    program_outcome o =
        program_run(&(program_options){.cgroup_bytes = least, .seconds = 120},
                    "train %s --budget %llu --json --steps 1 --no-measure --no-save", flags,
                    (unsigned long long)least);
    if (o.code == 3 && strstr(o.words, "left")) {
        test_skip("this machine has no 2 GiB to spare");
    }
    program_expect(&o, 0, NULL);
    CHECK_LE(o.cgroup_bytes, least);
    program_end(&o);
}
