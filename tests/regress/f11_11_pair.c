/* Two trainings that share their threads: a budget that allows fewer of them leaves neither with a pool that is gone. */
#include "pictures.h"
#include "program.h"
#include "test.h"

static program_outcome train(unsigned kib) {
    return program_run(&(program_options){.seconds = 150},
                       "train lenet --data synthetic:100 --batch 16 --optimizer adamw "
                       "--no-measure --threads 4 --budget %uKiB --json --steps 2 --no-save --also "
                       "'gpt2-nano:layers=4,context=64 --data synthetic:200 --batch 4'",
                       kib);
}

TEST_TIMEOUT(f11_11, two_trainings_keep_one_pool_when_the_budget_is_tight, 500) {
    PROGRAM_NEED_SPEED();
    PROGRAM_NEED_MEMORY();
    int trained = 0;
    program_outcome o = train(1024);
    const unsigned least = (unsigned)(program_number(&o, "smallest_bytes") / 1024);
    program_end(&o);
    for (unsigned kib = least; kib <= least + 300; kib += 300) {
        o = train(kib);
        CHECK_EQ(o.killed_by, 0);
        CHECK(o.code == 0 || o.code == 1);
        trained += o.code == 0;
        program_end(&o);
    }
    CHECK(trained > 0);
}
