/* A batch that cannot be split is refused; a batch of one has one part. */
#include "program.h"
#include "test.h"

TEST(f11_08, micro_batches_of_a_batch_norm_model_are_refused) {
    static const char *const budgets[] = {"1MiB", "100MiB", "10GiB"};
    for (int i = 0; i < 3; i++) {
        program_outcome o = program_run(&(program_options){.seconds = 20},
                                        "plan resnet18:size=32,width=8,classes=10 --batch 8 "
                                        "--micro-batches 4 --budget %s --no-measure",
                                        budgets[i]);
        program_expect(&o, 2, "the batch cannot be split");
        program_expect(&o, 2, "--ghost-norm");
        program_end(&o);
    }
    program_outcome o = program_run(&(program_options){.seconds = 20},
                                    "train resnet18:size=32,width=8,classes=10 --data synthetic "
                                    "--batch 8 --steps 1 --micro-batches 4 --no-measure --no-save");
    program_expect(&o, 2, "the batch cannot be split");
    program_end(&o);
}

TEST(f11_08, ghost_norm_splits_it) {
    program_outcome o = program_run(&(program_options){.seconds = 40},
                                    "plan resnet18:size=32,width=8,classes=10 --batch 8 "
                                    "--micro-batches 4 --ghost-norm --no-measure --no-choices "
                                    "--json");
    program_expect(&o, 0, NULL);
    CHECK_EQ((int)program_number(&o, "micro_batches"), 4);
    program_end(&o);
}

TEST(f11_08, a_batch_of_one_has_one_part) {
    static const char *const models[] = {"mlp", "resnet18:size=32,width=8,classes=10"};
    for (int i = 0; i < 2; i++) {
        program_outcome o =
            program_run(&(program_options){.seconds = 40},
                        "plan %s --batch 1 --micro-batches 4 --no-measure --json", models[i]);
        program_expect(&o, 0, NULL);
        CHECK_EQ((int)program_number(&o, "micro_batches"), 1);
        program_end(&o);
        o = program_run(&(program_options){.seconds = 40},
                        "plan %s --batch 1 --micro-batches 4 --budget 1MiB --no-measure --json",
                        models[i]);
        program_expect(&o, 1, NULL);
        program_end(&o);
    }
}
