/* A limit on the size of files (ulimit -f) is an ordinary error, not a signal. */
#include <string.h>

#include "pictures.h"
#include "program.h"
#include "test.h"

TEST(f11_10, a_limit_on_files_is_an_error_with_a_sentence) {
    program_outcome o = program_run(
        &(program_options){.as_shell = 1},
        "ulimit -f 100; exec $HEADROOM train mlp --data synthetic:64 --batch 8 --steps 1 "
        "--no-measure --budget 96MiB --no-save");
    CHECK_EQ(o.killed_by, 0);
    program_expect(&o, 3, "ulimit -f");
    program_end(&o);
}

/* The arena is a file without a name: a limit that it keeps is no hindrance. */
TEST(f11_10, a_limit_that_is_kept_changes_nothing) {
    program_outcome o = program_run(
        &(program_options){.as_shell = 1},
        "ulimit -f 20000; exec $HEADROOM train mlp --data synthetic:64 --batch 8 --steps 1 "
        "--no-measure --budget 96MiB --out run");
    program_expect(&o, 0, NULL);
    program_end(&o);
}

/* Files that the program writes meet the limit, too: a write that fails is said. */
TEST(f11_10, a_plan_that_is_too_long_for_the_limit_is_not_written) {
    program_outcome o =
        program_run(&(program_options){.as_shell = 1},
                    "ulimit -f 8; exec $HEADROOM plan resnet18:size=32 --batch 2 --no-measure "
                    "--no-choices --budget 1GiB --save-problem p.json");
    CHECK_EQ(o.killed_by, 0);
    CHECK(o.code != 0 && strstr(o.words, "p.json"));
    program_end(&o);
}
