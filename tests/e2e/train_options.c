/* headroom train from outside: what its options and its kinds of data do. */
#include <stdio.h>
#include <string.h>

#include "pictures.h"
#include "train_rig.h"

TEST_TIMEOUT(train, other_classes_get_a_new_classifier_and_it_is_said, 60) {
    begin();
    make_pictures("more", 5);
    program_outcome o = run_well(RESNET " --epochs 2 --out run");
    program_end(&o);
    o = program_run(&(program_options){.folder = where()},
                    "train resnet18:size=32,width=8 --data images:more --batch 10 --epochs 1 "
                    "--no-save --no-measure --init run/best.safetensors");
    CHECK_EQ(o.code, 0);
    CHECK(strstr(o.out, "3 classes in the file and 5 here"));
    CHECK(strstr(o.out, "from the data: classes=5"));
    CHECK(strstr(o.out, "next: headroom"));
    program_end(&o);
    refused("lenet --data images:more --batch 10 --no-save --init run/best.safetensors", 2,
            "conv1.weight");
}

TEST_TIMEOUT(train, several_runs_in_one_arena_learn_what_each_learns_alone, 60) {
    static const char *const runs[] = {
        "mlp:size=8,width=16 --data synthetic --batch 8 --steps 5 --seed 1 --no-save",
        "mlp:size=8,width=24 --data synthetic --batch 4 --steps 7 --seed 2 --no-save",
        "lenet --data synthetic --batch 2 --steps 3 --seed 3 --no-save"};
    char arguments[1024];
    begin();
    snprintf(arguments, sizeof arguments, "%s --also \"%s\" --also \"%s\"", runs[0], runs[1],
             runs[2]);
    program_outcome all = run_well(arguments);
    for (size_t i = 0; i < 3; i++) {
        static const char *const keys[] = {"history", "also.history", "also_2.history"};
        program_outcome alone = run_well(runs[i]);
        CHECK_EQ(strcmp(program_text(&all, keys[i]), program_text(&alone, "history")), 0);
        program_end(&alone);
    }
    CHECK(program_number(&all, "planned_peak_bytes") < program_number(&all, "separate_bytes"));
    program_end(&all);
    snprintf(arguments, sizeof arguments, "%s", runs[0]);
    for (int i = 0; i < 8; i++) {
        const size_t used = strlen(arguments);
        snprintf(arguments + used, sizeof arguments - used, " --also 'mlp --data synthetic'");
    }
    refused(arguments, 2, "--also: more than 8 runs");
}

TEST_TIMEOUT(train, the_largest_batch_comes_from_the_plan_and_is_kept_from_outside, 90) {
    PROGRAM_NEED_MEMORY();
    begin();
    program_outcome o =
        run_well("resnet18:size=64,width=16 --data images:pics --batch auto --budget 40MiB "
                 "--epochs 1 --no-save");
    const double batch = program_number(&o, "batch");
    printf("    batch %.0f, planned %.1f MiB, resident %.1f MiB\n", batch,
           program_number(&o, "planned_peak_bytes") / 1048576, (double)o.resident_bytes / 1048576);
    CHECK(batch >= 2 && batch <= 60);
    CHECK(program_number(&o, "planned_peak_bytes") <= 40 << 20);
    CHECK(o.resident_bytes <= 40 << 20);
    program_end(&o);
}

TEST_TIMEOUT(train, accumulated_batches_make_one_step_and_patience_ends_it, 60) {
    begin();
    program_outcome o = run_well(RESNET " --accumulate 3 --epochs 2 --no-save");
    CHECK_EQ(program_number(&o, "batch"), 24);
    CHECK_EQ(program_number(&o, "micro_batches"), 3);
    CHECK_EQ(program_number(&o, "steps"), 4);
    program_end(&o);
    o = run_well(RESNET " --val-data images:pics --val-batch 7 --val-every 4 --patience 2 "
                        "--min-delta 1000 --epochs 50 --no-save");
    CHECK_EQ(strcmp(program_text(&o, "ended"), "early stopping"), 0);
    CHECK_EQ(program_number(&o, "steps"), 12); /* the first is the best, two more are not better */
    CHECK_EQ(program_number(&o, "val_samples"), 60);
    program_end(&o);
}

TEST_TIMEOUT(train, slices_with_limits_of_their_own_and_memory_that_grows_change_no_bit, 60) {
    PROGRAM_NEED_MEMORY();
    begin();
    const char *const two =
        "lenet:size=20,channels=3 --data images:pics --batch 6 --steps 5 --seed "
        "2 --no-save";
    program_outcome a = run_well(RESNET " --val-split 0.2 --val-batch 12 --epochs 2 --no-save");
    program_outcome b = run_well(two);
    char arguments[1024];
    snprintf(arguments, sizeof arguments,
             RESNET " --val-split 0.2 --val-batch 12 --epochs 2 --no-save --logical-devices "
                    "12MiB,4MiB --memory-growth --also '%s'",
             two);
    program_outcome both = run_well(arguments);
    CHECK_EQ(strcmp(program_text(&both, "history"), program_text(&a, "history")), 0);
    CHECK(program_number(&both, "val_loss") == program_number(&a, "val_loss"));
    CHECK_EQ(strcmp(program_text(&both, "also.history"), program_text(&b, "history")), 0);
    CHECK(program_number(&both, "measured_arena_bytes") <= 12 << 20);
    CHECK(program_number(&both, "also.measured_arena_bytes") <= 4 << 20);
    /* What the process takes is more than one slice, and not too much. */
    program_outcome large = run_well("mlp:width=1024 --data synthetic:32 --batch 8 --steps 2 "
                                     "--no-save --no-measure --logical-devices 30MiB,30MiB --also "
                                     "'mlp:width=1024 --data synthetic:32 --batch 8 --steps 2'");
    CHECK(program_number(&large, "measured_peak_bytes") > program_number(&large, "budget_bytes"));
    program_end(&large);
    refused(RESNET " --logical-devices 1KiB --no-save", 1, "");
    refused(RESNET " --logical-devices 8MiB --no-save --also 'lenet --data synthetic'", 2,
            "1 sizes for 2 runs");
    refused(RESNET " --logical-devices 64MiB --budget 32MiB --no-save", 2, "exceed the budget");
    program_end(&a);
    program_end(&b);
    program_end(&both);
}

static void put_u32(uint8_t *to, uint32_t x) {
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(x >> (24 - 8 * i));
    }
}

TEST_TIMEOUT(train, digits_say_their_size_and_classes_themselves, 60) {
    enum { N = 40, SIDE = 12 };
    uint8_t images[16 + N * SIDE * SIDE], labels[8 + N];
    put_u32(images, 0x803);
    put_u32(images + 4, N);
    put_u32(images + 8, SIDE);
    put_u32(images + 12, SIDE);
    put_u32(labels, 0x801);
    put_u32(labels + 4, N);
    for (int i = 0; i < N; i++) {
        labels[8 + i] = (uint8_t)(i % 10);
        for (int k = 0; k < SIDE * SIDE; k++) { /* a bright row for each digit */
            images[16 + i * SIDE * SIDE + k] = k / SIDE == i % 10 ? 250 : (uint8_t)(k * 7 % 40);
        }
    }
    test_write(where(), "digits/train-images-idx3-ubyte", images, sizeof images);
    test_write(where(), "digits/train-labels-idx1-ubyte", labels, sizeof labels);
    program_outcome o =
        run_well("mlp:width=64,layers=1 --data mnist:digits --batch 10 --epochs 40 --no-save "
                 "--optimizer adam --rate 0.01");
    CHECK(strstr(program_text(&o, "model"), "size=12,channels=1") &&
          strstr(program_text(&o, "model"), "classes=10"));
    CHECK(program_number(&o, "accuracy") > 0.95);
    program_end(&o);
}

TEST_TIMEOUT(train, arrays_and_tokens_are_trained_on_too, 60) {
    uint16_t tokens[4096];
    for (size_t i = 0; i < 4096; i++) {
        tokens[i] = (uint16_t)(i * i % 61);
    }
    test_write(where(), "tokens.bin", tokens, sizeof tokens);
    program_outcome o =
        run_well("gpt2-nano --data tokens:tokens.bin --batch 4 --epochs 2 --optimizer adamw "
                 "--val-split 0.1 --no-save");
    CHECK(program_number(&o, "loss") < 5.6 && program_number(&o, "loss") > 0); /* ln 256 is 5.55 */
    program_end(&o);
    o = run_well("gpt2-nano --data synthetic:40 --batch 4 --steps 3 --no-save");
    CHECK(program_number(&o, "loss") > 0);
    program_end(&o);
}
