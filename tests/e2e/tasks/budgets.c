/* A language model at the smallest budget, half-way and unconstrained: the same bits.  Tables, masks and texts of classes have theirs
 * beside their tests. */
#include <stdio.h>
#include <string.h>

#include "../train_rig.h"

/* The budgets are those that the run itself names. */
static void same_in_budgets(const char *arguments) {
    char text[1024];
    snprintf(text, sizeof text, "%s --budget 3MiB", arguments);
    program_outcome plain = run_well(arguments), no = run(text);
    CHECK_EQ(no.code, 1);
    const double most = program_number(&plain, "planned_peak_bytes");
    const double least = program_number(&no, "smallest_bytes") + (1 << 20);
    CHECK(least < most);
    for (int k = 0; k < 2; k++) {
        snprintf(text, sizeof text, "%s --budget %.0f", arguments, k ? (least + most) / 2 : least);
        program_outcome o = run_well(text);
        CHECK(program_number(&o, "planned_peak_bytes") < most);
        CHECK_STR(program_text(&o, "history"), program_text(&plain, "history"));
        CHECK_STR(program_text(&o, "weights"), program_text(&plain, "weights"));
        program_end(&o);
    }
    program_end(&no);
    program_end(&plain);
}

static void make_book(void) {
    FILE *f = fopen(in("book.txt"), "w");
    CHECK(f);
    for (int i = 0; i < 400; i++) {
        fprintf(f, "the %dth fox jumps over the lazy dog; ", i * i % 97);
    }
    CHECK(fclose(f) == 0);
}

TEST_TIMEOUT(tasks, a_text_model_has_the_same_bits_in_every_budget, 90) {
    PROGRAM_NEED_MEMORY();
    begin();
    make_book();
    same_in_budgets("gpt2-nano:layers=3,width=64,heads=2 --data text:book.txt,length=64 --batch 32 "
                    "--steps 2 --seed 3 --micro-batches 1 --no-save");
}
