/* Training with Adafactor: a table is learnt, the state is small, budgets, micro-batches and resuming change no bit. */
#include <stdio.h>
#include <string.h>

#include "../train_rig.h"

static void make_table(void) {
    FILE *f = fopen(in("t.csv"), "w");
    CHECK(f);
    fputs("a,b,t\n", f);
    for (unsigned i = 0; i < 240; i++) {
        const double a = (double)(i * 2654435761u % 2000) / 1000 - 1;
        const double b = (double)(i * 2246822519u % 2000) / 1000 - 1;
        fprintf(f, "%.6f,%.6f,%.6f\n", a, b, 2 * a - b);
    }
    CHECK(fclose(f) == 0);
}

#define SMALL                                                                                      \
    "mlp:width=24 --data csv:t.csv,x=a+b,y=t --val-split 0.2 --batch 16 --seed 3 "                 \
    "--optimizer adafactor --rate 0.05 "

TEST_TIMEOUT(tasks, adafactor_learns_a_table_and_resumes, 60) {
    begin();
    make_table();
    program_outcome plain = run_well(SMALL "--epochs 12 --no-save");
    CHECK(program_number(&plain, "val_loss") < 0.05);
    program_outcome o = run_well(SMALL "--epochs 12 --steps 50 --out run");
    program_end(&o);
    o = run_well(SMALL "--epochs 12 --out run --resume");
    CHECK_STR(program_text(&o, "history"), program_text(&plain, "history"));
    CHECK_STR(program_text(&o, "weights"), program_text(&plain, "weights"));
    program_end(&o);
    program_end(&plain);
    refused(SMALL "--epochs 13 --out run --resume --options update-clip=2", 2, "update-clip");
}

#define WIDE                                                                                       \
    "mlp:width=384,layers=6 --data csv:t.csv,x=a+b,y=t --batch 200 --steps 2 --seed 3 --no-save "

TEST_TIMEOUT(tasks, adafactor_has_little_state_and_the_same_bits_in_every_budget, 60) {
    PROGRAM_NEED_MEMORY();
    begin();
    make_table();
    program_outcome plain = run_well(WIDE "--optimizer adafactor"),
                    adam = run_well(WIDE "--optimizer adam"),
                    no = run(WIDE "--optimizer adafactor --budget 4MiB");
    CHECK_EQ(no.code, 1);
    const double most = program_number(&plain, "planned_peak_bytes");
    const double least = program_number(&no, "smallest_bytes") + (1 << 20);
    /* Adam keeps two numbers per weight: 6 MB */
    CHECK(most + 5e6 < program_number(&adam, "planned_peak_bytes"));
    for (int k = 0; k < 2; k++) {
        char arguments[512];
        snprintf(arguments, sizeof arguments, WIDE "--optimizer adafactor --budget %.0f",
                 k ? (least + most) / 2 : least);
        program_outcome o = run_well(arguments);
        CHECK(program_number(&o, "planned_peak_bytes") < most);
        CHECK_STR(program_text(&o, "weights"), program_text(&plain, "weights"));
        program_end(&o);
    }
    program_end(&no);
    program_end(&adam);
    program_end(&plain);
}
