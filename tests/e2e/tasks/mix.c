/* Mixup and cutmix: learns, and the same bits however the batch is cut, shared and resumed; what cannot be mixed is refused. */
#include <stdio.h>
#include <string.h>

#include "../train_rig.h"

#define PICTURES                                                                                   \
    "lenet:size=32 --data images:pics --batch 10 --seed 3 --steps 6 --val-split 0.2 "              \
    "--mixup 0.2 --cutmix 1 --optimizer adam --smoothing 0.1 "
#define TABLE                                                                                      \
    "mlp:width=16 --data csv:t.csv,x=a+b,y=kind --val-split 0.2 --batch 10 --optimizer adam "      \
    "--rate 0.02 --seed 3 "

static void make_table(void) {
    unsigned state = 7;
    FILE *f = fopen(in("t.csv"), "w");
    CHECK(f);
    fputs("a,b,kind,price\n", f);
    for (int i = 0; i < 300; i++) {
        state = state * 1664525u + 1013904223u;
        const double a = (double)(state >> 16 & 255) / 64, b = (double)(i % 7);
        fprintf(f, "%.4f,%.4f,%s,%g\n", a, b, a + b > 5 ? "high" : "low", a - b);
    }
    CHECK(fclose(f) == 0);
}

TEST_TIMEOUT(tasks, mixed_samples_have_the_same_bits_in_parts_replicas_and_resumed, 300) {
    static const char *const others[] = {
        PICTURES "--no-save --micro-batches 5 --replicas 2",
        PICTURES "--no-save --micro-batches 5 --replicas 3 --shard weights",
    };
    begin();
    program_outcome plain = run_well(PICTURES "--no-save --micro-batches 5");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        program_outcome o = run_well(others[i]);
        CHECK_STR(program_text(&o, "history"), program_text(&plain, "history"));
        CHECK_STR(program_text(&o, "weights"), program_text(&plain, "weights"));
        program_end(&o);
    }
    program_outcome o = run_well(PICTURES "--out run --micro-batches 5 --save-every 3");
    CHECK_STR(program_text(&o, "history"), program_text(&plain, "history"));
    program_end(&o);
    o = run_well("lenet:size=32 --data images:pics --batch 10 --seed 3 --val-split 0.2 --mixup 0.2 "
                 "--cutmix 1 --optimizer adam --smoothing 0.1 --steps 3 --out half "
                 "--micro-batches 5");
    program_end(&o);
    o = run_well(PICTURES "--out half --micro-batches 5 --resume");
    CHECK_STR(program_text(&o, "history"), program_text(&plain, "history"));
    program_end(&o);
    refused("lenet:size=32 --data images:pics --batch 10 --seed 3 --val-split 0.2 --mixup 0.3 "
            "--cutmix 1 --optimizer adam --smoothing 0.1 --steps 9 --out half --micro-batches 5 "
            "--resume",
            2, "--mixup");
    program_end(&plain);
}

TEST_TIMEOUT(tasks, mixed_rows_of_a_table_are_learnt_and_other_tasks_are_refused, 300) {
    begin();
    make_table();
    program_outcome o = run_well(TABLE "--mixup 0.3 --epochs 8 --no-save");
    CHECK(program_number(&o, "val_accuracy") > 0.9);
    program_end(&o);
    refused(TABLE "--cutmix 1 --no-save", 2, "--cutmix needs images");
    refused(TABLE "--mixup 1 --class-weights auto --no-save", 2,
            "--mixup needs samples of numbers with one class each");
    refused("mlp --data csv:t.csv,x=a,y=price --mixup 1 --no-save", 2, "--mixup needs samples");
    refused("gpt2-nano --data text:t.csv --mixup 1 --no-save", 2, "--mixup needs samples");
}
