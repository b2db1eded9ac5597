/* --batch auto is the fastest batch that fits, not the largest, leaves an epoch its steps, and says what it took. */
#include <stdio.h>
#include <string.h>

#include "program.h"
#include "test.h"

TEST(f11_15, batch_auto_leaves_an_epoch_its_steps_and_says_so) {
    program_outcome o = program_run(
        NULL,
        "train mlp:width=8 --data synthetic:count=640 --batch auto --budget 256MiB --epochs 1 "
        "--no-save --no-measure --threads 1");
    program_expect(&o, 0, NULL);
    CHECK(strstr(o.out, "batch auto chose "));
    program_end(&o);
    long long batches[2];
    for (int i = 0; i < 2; i++) { /* the same whatever the threads */
        o = program_run(NULL,
                        "train mlp:width=8 --data synthetic:count=640 --batch auto --budget 256MiB "
                        "--epochs 1 --no-save --no-measure --threads %d --json",
                        i + 1);
        program_expect(&o, 0, NULL);
        batches[i] = (long long)program_number(&o, "batch");
        CHECK(program_number(&o, "steps") >= 16);
        program_end(&o);
    }
    CHECK_EQ(batches[0], batches[1]);
}
