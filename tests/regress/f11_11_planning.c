/* The planner's own memory is in the budget, and a refusal needs no more than it refuses. */
#include "program.h"
#include "test.h"

/* What a refusal may take however small the budget is: docs/where-the-bytes-go.md */
#ifdef __x86_64__
enum { BARE = 11 << 20 };
#else
enum { BARE = 9 << 20 };
#endif

static program_outcome plan(int layers, uint64_t budget, const char *more) {
    return program_run(&(program_options){.seconds = 280},
                       "plan gpt2-nano:layers=%d --batch 8 --budget %llu --no-measure %s --json",
                       layers, (unsigned long long)budget, more);
}

TEST_TIMEOUT(f11_11, planning_24_layers_stays_inside_the_budget, 300) {
    PROGRAM_NEED_MEMORY();
    const uint64_t budget = program_runtime_bytes() + (7 << 20);
    program_outcome o = plan(24, budget, "--no-choices");
    program_expect(&o, 0, NULL);
    CHECK_LE(o.resident_bytes, budget);
    CHECK_LE((uint64_t)program_number(&o, "planning_bytes"), budget);
    program_end(&o);
}

TEST_TIMEOUT(f11_11, planning_at_the_smallest_budget_stays_inside_it, 300) {
    PROGRAM_NEED_MEMORY();
    program_outcome o = plan(24, 1 << 20, "--no-choices");
    const uint64_t least = (uint64_t)program_number(&o, "smallest_bytes");
    CHECK_LE(program_number(&o, "planning_bytes"), (double)least);
    program_end(&o);
    o = plan(24, least, "--try 1");
    program_expect(&o, 0, NULL);
    CHECK_LE(o.resident_bytes, least);
    program_end(&o);
}

/* Next to the minimum the search for two threads found nothing, and the plan of one thread was taken: 2.87 times as long. */
TEST_TIMEOUT(f21_05, next_to_the_minimum_plans_have_all_threads, 120) {
    const uint64_t budget = program_runtime_bytes() + (43 << 20);
    program_outcome o = program_run(
        &(program_options){.seconds = 100},
        "plan unet:width=16,depth=3,size=128 --batch 8 --threads 2 --budget %llu --effort 4000 "
        "--no-measure --no-choices --json",
        (unsigned long long)budget);
    program_expect(&o, 0, NULL);
    CHECK_EQ(program_number(&o, "threads"), 2);
    CHECK(program_number(&o, "time_ratio") < 1.6);
    program_end(&o);
}

static void expect_small(const program_outcome *o, uint64_t budget) {
    program_expect(o, 1, NULL);
    CHECK_LE(o->resident_bytes, budget > BARE ? budget : BARE);
}

/* No room to plan: a bound in place of the smallest budget, and it is below what is found with more room. */
TEST_TIMEOUT(f22_05, a_refusal_takes_no_more_than_the_budget, 300) {
    PROGRAM_NEED_MEMORY();
    static const int layers[] = {12, 50, 100, 150};
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        for (uint64_t budget = 8 << 20; budget <= 12 << 20; budget += 4 << 20) {
            program_outcome o = plan(layers[i], budget, "--no-choices");
            expect_small(&o, budget);
            program_end(&o);
        }
    }
    program_outcome o = plan(150, 20 << 20, ""); /* with the table of other budgets */
    expect_small(&o, 20 << 20);
    program_end(&o);
}

TEST_TIMEOUT(f22_05, what_a_refusal_cannot_find_out_is_bounded, 300) {
    PROGRAM_NEED_MEMORY();
    program_outcome o = plan(100, 8 << 20, "--no-choices");
    expect_small(&o, 8 << 20);
    CHECK(json_is_null(json_object_get(o.json, "smallest_bytes")));
    CHECK(!json_object_get(o.json, "ways_out"));
    const double bound = program_number(&o, "smallest_at_least_bytes");
    program_end(&o);
    o = plan(100, 18 << 20, "--no-choices");
    expect_small(&o, 18 << 20);
    CHECK(bound > 8 << 20 && bound <= program_number(&o, "smallest_bytes"));
    CHECK(json_array_size(json_object_get(o.json, "ways_out")) > 0);
    program_end(&o);
}

TEST_TIMEOUT(f22_05, a_refused_training_takes_no_more_than_the_budget, 300) {
    PROGRAM_NEED_MEMORY();
    static const char *const flags = "--data synthetic:64 --batch 8";
    program_outcome o =
        program_run(NULL,
                    "train gpt2-nano:layers=100 %s --steps 1 --no-save --no-measure --budget "
                    "8MiB --json",
                    flags);
    expect_small(&o, 8 << 20);
    program_end(&o);
    o = program_run(NULL,
                    "train gpt2-nano:layers=50 %s --steps 1 --no-save --no-measure --budget 8MiB "
                    "--json --also 'gpt2-nano:layers=50 %s'",
                    flags, flags);
    expect_small(&o, 8 << 20);
    CHECK(program_number(&o, "smallest_at_least_bytes") > 8 << 20);
    program_end(&o);
}

/* Planning and training in a container of exactly the budget, at the smallest and above it. */
TEST_TIMEOUT(f22_04, deep_models_train_in_containers_of_their_budgets, 300) {
    PROGRAM_NEED_CGROUP();
    const char *flags = "gpt2-nano:layers=24 --data synthetic:64 --batch 8 --steps 1 --no-save "
                        "--no-measure --json";
    program_outcome o =
        program_run(&(program_options){.seconds = 100}, "train %s --budget 1MiB", flags);
    const uint64_t least = (uint64_t)program_number(&o, "smallest_bytes");
    program_end(&o);
    for (unsigned i = 0; i < 3; i++) {
        const uint64_t budget = least + i * 700001;
        o = program_run(&(program_options){.cgroup_bytes = budget, .seconds = 100},
                        "train %s --budget %llu", flags, (unsigned long long)budget);
        program_expect(&o, 0, NULL);
        CHECK_LE(program_number(&o, "measured_peak_bytes"), (double)budget);
        program_end(&o);
    }
}
