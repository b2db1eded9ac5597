/* The smallest budget that is named fits, everything above it fits, and little below it does. */
#include <stdio.h>

#include "program.h"
#include "test.h"

static program_outcome plan(const char *what, uint64_t budget) {
    return program_run(&(program_options){.seconds = 100},
                       "plan %s --budget %llu --no-choices --no-measure --json", what,
                       (unsigned long long)budget);
}

static uint64_t smallest(const char *what, uint64_t budget) {
    program_outcome o = plan(what, budget);
    program_expect(&o, 1, NULL);
    const uint64_t bytes = (uint64_t)program_number(&o, "smallest_bytes");
    program_end(&o);
    return bytes;
}

static void check_above(const char *what) {
    const uint64_t least = smallest(what, 1 << 16);
    static const unsigned percents[] = {100, 101, 110, 130};
    for (size_t i = 0; i < sizeof percents / sizeof percents[0]; i++) {
        program_outcome o = plan(what, least / 100 * percents[i] + least % 100);
        program_expect(&o, 0, NULL);
        program_end(&o);
    }
    CHECK_EQ(smallest(what, least - 4096), least); /* it does not follow what was asked for */
}

TEST_TIMEOUT(f11_13, nothing_at_or_above_the_smallest_is_refused, 600) {
    PROGRAM_NEED_SPEED();
    check_above("unet:size=32,width=4,depth=3 --batch 4");
    check_above("vit-tiny:size=32,patch=4,width=32,heads=2,layers=2,classes=10 --batch 8");
    check_above("gpt2-nano:layers=2 --batch 4 --optimizer adamw");
}

TEST_TIMEOUT(f11_19, nothing_of_a_problem_at_or_above_the_smallest_is_refused, 600) {
    PROGRAM_NEED_SPEED();
    program_outcome o = program_run(&(program_options){.seconds = 60},
                                    "plan unet:size=16,width=4,depth=2 --batch 4 --no-choices "
                                    "--no-measure --device null:1GiB --save-problem p.json");
    program_expect(&o, 0, NULL);
    program_end(&o);
    check_above("--problem p.json");
    const uint64_t least = smallest("--problem p.json", 1 << 16);
    o = plan("--problem p.json", least / 10 * 9); /* no tenth of it was left lying */
    program_expect(&o, 1, NULL);
    program_end(&o);
}

/* Micro-batches that were asked for are what the smallest budget is of: the whole batch may need less. */
TEST_TIMEOUT(f11_13, the_smallest_of_asked_for_micro_batches_is_of_these, 300) {
    PROGRAM_NEED_SPEED();
    check_above("vit-tiny:size=32,patch=8,width=64,heads=2,layers=2 --batch 4 --optimizer adam "
                "--micro-batches 2");
    check_above("lenet --batch 3 --optimizer adamw --micro-batches 2");
}

/* Two runs that share an arena: what each takes of the other was once an estimate, and the budget named was refused. */
static program_outcome train_two(uint64_t budget) {
    return program_run(&(program_options){.seconds = 150},
                       "train gpt2-nano:layers=2,context=64,width=32,heads=2 --data synthetic:64 "
                       "--batch 2 --optimizer adam --no-measure --no-save --steps 1 --json "
                       "--budget %llu --also 'vit-tiny:size=32,patch=4,width=64,heads=2,layers=2,"
                       "classes=10 --data synthetic:64 --batch 16'",
                       (unsigned long long)budget);
}

TEST_TIMEOUT(f11_13, the_smallest_of_two_runs_is_accepted, 600) {
    PROGRAM_NEED_SPEED();
    program_outcome o = train_two(8 << 20);
    program_expect(&o, 1, NULL);
    const uint64_t least = (uint64_t)program_number(&o, "smallest_bytes");
    program_end(&o);
    o = train_two(least);
    program_expect(&o, 0, NULL);
    program_end(&o);
}
