/* Beside a GPU the host's memory has a budget of its own: what waits there is bounded, planned, checked and shown. */
#include <stdint.h>
#include <string.h>

#include "pictures.h"
#include "plan/plan.h"
#include "program.h"
#include "test.h"

#define NULL_PLAN                                                                                  \
    "plan resnet18:size=64,width=32 --batch 16 --device null:1GiB --device-spec "                  \
    "copy=200e9,page=4096 --no-choices --effort 500 --budget 31MiB --json "

TEST(f11_11, offload_stays_inside_the_host_budget) {
    program_outcome o = program_run(NULL, NULL_PLAN);
    program_expect(&o, 0, NULL);
    const double free = program_number(&o, "host_peak_bytes");
    CHECK(free > 4 << 20);
    program_end(&o);
    for (double budget = free; budget > 1e6; budget = (double)(uint64_t)(budget / 3)) {
        o = program_run(NULL, NULL_PLAN "--host-budget %.0f", budget);
        program_expect(&o, 0, NULL);
        CHECK_EQ(program_number(&o, "host_budget_bytes"), budget);
        CHECK_LE(program_number(&o, "host_peak_bytes"), budget);
        program_end(&o);
    }
}

TEST(f11_11, the_host_budget_is_shown_and_refused_where_it_means_nothing) {
    program_outcome o = program_run(
        NULL,
        "plan resnet18:size=64,width=32 --batch 16 --device null:1GiB --device-spec copy=25e9 "
        "--no-choices --budget 64MiB --host-budget 10MiB");
    program_expect(&o, 0, NULL);
    CHECK(strstr(o.out, "host memory: ") && strstr(o.out, " of 10 MiB"));
    program_end(&o);
    o = program_run(NULL, "plan mlp --no-measure --host-budget 1GiB");
    program_expect(&o, 2, "--host-budget is for GPUs");
    program_end(&o);
    o = program_run(NULL, "plan mlp --device null:1GiB --host-budget lots");
    program_expect(&o, 2, "--host-budget");
    program_end(&o);
}

TEST(f11_11, the_checker_bounds_the_other_memory_by_itself) {
    hri_plan_buffer buffers[2] = {{.memory = 1, .offset = 100, .bytes = 50},
                                  {.memory = 0, .offset = 1000, .bytes = 1000}};
    const hri_plan plan = {.buffers = buffers, .buffer_count = 2, .memory_bytes = {1}};
    CHECK_STATUS(hri_plan_check_other(&plan, 150, NULL), HR_OK);
    CHECK_STATUS(hri_plan_check_other(&plan, 149, NULL), HR_E_INVALID);
    CHECK_STATUS(hri_plan_check_other(&plan, 10, NULL), HR_E_INVALID);
    buffers[0].offset = UINT64_MAX - 10;
    CHECK_STATUS(hri_plan_check_other(&plan, 150, NULL), HR_E_INVALID);
}

/* On the driver of our own over host memory.  What waits there is several times what differs from run to run. */
static program_outcome train_on_gpu(const char *more) {
    program_outcome o = program_run(
        &(program_options){.as_shell = 1, .seconds = 240},
        "fake=$(dirname \"$HEADROOM\")/fakecuda; test -e $fake/libcuda.so.1 || exit 77\n"
        "LD_LIBRARY_PATH=$fake FAKECUDA_STATE=$PWD/state HEADROOM_CACHE_DIR=$PWD/cache "
        "$HEADROOM train mlp:width=64,layers=60 --data synthetic:512 --device cuda:0 --batch 512 "
        "--micro-batches off --steps 1 --no-save --budget 82MiB --json %s",
        more);
    if (o.code == 77) {
        test_skip("the fake driver was not built");
    }
    return o;
}

TEST_TIMEOUT(f11_11, a_training_on_a_gpu_offloads_no_more_than_its_host_budget_allows, 800) {
    PROGRAM_NEED_SPEED();
    PROGRAM_NEED_MEMORY();
    char flags[64];
    program_outcome o = train_on_gpu(""); /* compiles and times kernels, which takes memory, too */
    program_expect(&o, 0, NULL);
    program_end(&o);
    o = train_on_gpu("");
    program_expect(&o, 0, NULL);
    const double peak = program_number(&o, "host_peak_bytes");
    const double away = program_number(&o, "offloaded_bytes");
    CHECK(away > 2 << 20 && program_number(&o, "host_budget_bytes") >= peak);
    program_end(&o);
    const double budget = (double)(uint64_t)(peak - away / 2);
    snprintf(flags, sizeof flags, "--host-budget %.0f", budget);
    o = train_on_gpu(flags);
    program_expect(&o, 0, NULL);
    CHECK_LE(program_number(&o, "host_peak_bytes"), budget);
    CHECK(program_number(&o, "offloaded_bytes") < away);
    program_end(&o);
    o = train_on_gpu("--host-budget 20MiB");
    program_expect(&o, 1, "the host budget of 20 MiB is less than");
    program_end(&o);
}
