/* Which cut a budget leads to, and whether anything fits, is the problem's: not the clock's, not the threads'. */
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "test.h"

static const char model[] = "vit-tiny:size=32,patch=4,width=32,heads=2,layers=2,classes=10";

static program_outcome plan(const char *environment, uint64_t budget) {
    const program_options o = {.environment = environment, .seconds = 100};
    return program_run(&o, "plan %s --batch 16 --budget %llu --no-choices --json", model,
                       (unsigned long long)budget);
}

/* A budget in the middle between the smallest and plain training. */
static uint64_t middle(void) {
    program_outcome o = plan("HEADROOM_CACHE_DIR=$PWD/none", 1 << 20);
    const uint64_t budget = (uint64_t)(0.7 * program_number(&o, "smallest_bytes") +
                                       0.3 * program_number(&o, "unplanned_peak_bytes"));
    program_end(&o);
    return budget;
}

TEST_TIMEOUT(f11_03, the_cut_does_not_follow_measured_times, 300) {
    PROGRAM_NEED_SPEED();
    const uint64_t budget = middle();
    double parts = 0;
    for (int i = 0; i < 3; i++) {
        program_outcome o = plan("HEADROOM_CACHE_DIR=$PWD/cache", budget);
        program_expect(&o, 0, NULL);
        CHECK(i == 0 || program_number(&o, "micro_batches") == parts);
        parts = program_number(&o, "micro_batches");
        program_end(&o);
        /* Times that no machine has: products cost next to nothing, or a thousand times as much. */
        o = program_run(&(program_options){.as_shell = 1},
                        "sed -i '/matmul/s/[0-9][0-9.e+]*\\(,*\\)$/%s\\1/' cache/timings-* && "
                        "grep -c '%s' cache/timings-*",
                        i ? "9000000000.5" : "1.5", i ? "9000000000.5" : "1.5");
        CHECK_EQ(o.code, 0);
        program_end(&o);
    }
}

TEST_TIMEOUT(f11_03, the_cut_does_not_follow_threads, 300) {
    PROGRAM_NEED_SPEED();
    static const char *const threads[] = {"HEADROOM_THREADS=1 HEADROOM_CACHE_DIR=$PWD/a",
                                          "HEADROOM_THREADS=2 HEADROOM_CACHE_DIR=$PWD/b",
                                          "HEADROOM_THREADS=7 HEADROOM_CACHE_DIR=$PWD/c"};
    const uint64_t budget = middle();
    double parts = 0;
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        program_outcome o = plan(threads[i], budget);
        program_expect(&o, 0, NULL);
        CHECK(i == 0 || program_number(&o, "micro_batches") == parts);
        parts = program_number(&o, "micro_batches");
        program_end(&o);
    }
}

TEST_TIMEOUT(f22_03, the_verdict_does_not_follow_threads, 300) {
    PROGRAM_NEED_SPEED();
    program_outcome o = plan("HEADROOM_THREADS=1 HEADROOM_CACHE_DIR=", 1 << 20);
    const int64_t least = (int64_t)program_number(&o, "smallest_bytes");
    program_end(&o);
    for (int i = -1; i < 1; i++) {
        int code = 0;
        for (int threads = 1; threads < 9; threads += 7) {
            o = program_run(&(program_options){.seconds = 100},
                            "--threads %d plan %s --batch 16 --budget %lld --no-choices "
                            "--no-measure --json",
                            threads, model, (long long)(least + i * 50000));
            CHECK(threads == 1 || o.code == code);
            CHECK(i < 0 || o.code == 0);
            code = o.code;
            program_end(&o);
        }
    }
}

/* Where the budget bears no more, a training runs on fewer threads than were asked for. */
TEST_TIMEOUT(f22_03, a_tight_budget_takes_fewer_threads, 100) {
    PROGRAM_NEED_SPEED();
    program_outcome o = plan("HEADROOM_THREADS=1 HEADROOM_CACHE_DIR=", 1 << 20);
    const uint64_t least = (uint64_t)program_number(&o, "smallest_bytes");
    program_end(&o);
    o = program_run(&(program_options){.seconds = 60},
                    "--threads 64 plan %s --batch 16 --budget %llu --no-measure --try 1 --json",
                    model, (unsigned long long)least);
    program_expect(&o, 0, NULL);
    CHECK(program_number(&o, "threads") >= 1 && program_number(&o, "threads") < 64);
    program_end(&o);
}
