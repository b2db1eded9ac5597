/* A cache of times that somebody let grow costs no memory, and is written anew. */
#include "program.h"
#include "test.h"

static const char run[] = "plan mlp --batch 8 --no-choices --json";

TEST_TIMEOUT(f22_09, a_huge_cache_of_times_takes_little_memory, 200) {
    PROGRAM_NEED_MEMORY();
    const program_options o = {.environment = "HEADROOM_CACHE_DIR=$PWD/cache", .seconds = 60};
    program_outcome first = program_run(&o, "%s", run);
    program_expect(&first, 0, NULL);
    program_outcome grown = program_run(
        &(program_options){.as_shell = 1, .seconds = 60},
        "f=$(ls cache/timings-*) && (echo '{\"version\": 1, \"times_ns\": {'; "
        "awk 'BEGIN { for (i = 0; i < 700000; i++) printf \"\\\"matmul/0 f32[%%d,64] f32[64,64] -> "
        "f32[64,64]\\\": 1.5,\\n\", i }'; echo '\"x\": 1}}') > \"$f\" && wc -c < \"$f\"");
    CHECK_EQ(grown.code, 0);
    program_end(&grown);
    program_outcome second = program_run(&o, "%s", run);
    program_expect(&second, 0, NULL);
    CHECK_LE(second.resident_bytes, first.resident_bytes + (8 << 20));
    program_end(&first);
    program_end(&second);
    program_outcome size = program_run(&(program_options){.as_shell = 1},
                                       "test $(cat cache/timings-* | wc -c) -lt 4194304");
    CHECK_EQ(size.code, 0); /* what was measured anew took its place */
    program_end(&size);
}
