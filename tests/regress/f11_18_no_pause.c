/* Issue 11, number 18: on a GPU no batch was fed ahead where an epoch ended, a checkpoint was due or the length of the data
 * was not known.  It is now, and a checkpoint that is written with the next batch on its way knows where the data was before:
 * a run that is stopped behind any step and resumed has the history of one that was not.  tests/cuda/feed.c looks
 * at the batches themselves. */
#include <stdio.h>
#include <string.h>

#include "program.h"
#include "test.h"

#define FAKE                                                                                       \
    "LD_LIBRARY_PATH=" FAKECUDA_ROOT "/fakecuda HEADROOM_CACHE_DIR=" FAKECUDA_ROOT "/test-kernels"
#define MODEL "mlp:size=4,channels=3,width=8,layers=1,classes=3"

static const program_options fake = {.environment = FAKE};

static void check_resumed(const char *data, int steps) {
    program_outcome whole = program_run(
        &fake,
        "train %s --data %s --batch 4 --epochs 3 --device cuda:0 --save-every 2 --out whole "
        "--overwrite --json",
        MODEL, data);
    program_expect(&whole, 0, NULL);
    CHECK_EQ(program_number(&whole, "steps"), steps);
    for (int at = 1; at < steps; at += 2) {
        program_outcome first =
            program_run(&fake,
                        "train %s --data %s --batch 4 --epochs 3 --steps %d --device cuda:0 --out "
                        "cut --overwrite --json",
                        MODEL, data, at);
        program_expect(&first, 0, NULL);
        program_outcome rest = program_run(
            &fake,
            "train %s --data %s --batch 4 --epochs 3 --device cuda:0 --out cut --resume --json",
            MODEL, data);
        program_expect(&rest, 0, NULL);
        CHECK_STR(program_text(&rest, "history"), program_text(&whole, "history"));
        program_end(&first);
        program_end(&rest);
    }
    program_end(&whole);
}

TEST_TIMEOUT(f11_18, a_gpu_run_stopped_behind_any_step_has_the_same_history, 240) {
    check_resumed("synthetic:13", 9);
}

TEST_TIMEOUT(f11_18, a_gpu_run_on_a_stream_has_all_its_steps_and_the_same_history, 240) {
    check_resumed("'synthetic:13,classes=3,shape=4x4x3 | shuffle(seed=0) | limit(1GiB)'", 9);
}
