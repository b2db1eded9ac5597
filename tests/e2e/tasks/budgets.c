/* Tasks at the smallest budget, half-way and unconstrained: the same bits.  Tables of numbers, masks and texts have theirs beside their
 * tests. */
#include <stdio.h>
#include <stdlib.h>
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

TEST_TIMEOUT(tasks, a_text_is_generated_with_the_same_bytes_in_every_budget, 90) {
    PROGRAM_NEED_MEMORY();
    make_book();
    program_outcome o = run_well("gpt2-nano --data text:book.txt,length=64 --batch 16 --steps 30 "
                                 "--optimizer adam --rate 0.003 --seed 3 --out run");
    program_end(&o);
    static const char say[] =
        "generate run --prompt 'the 4' --max 40 --temperature 0.8 --top-k 20 --seed 5 --json";
    char text[512];
    const program_options here = {.folder = where()};
    program_outcome plain = program_run(&here, say);
    CHECK_EQ(plain.code, 0);
    const double least = program_number(&plain, "floor_bytes");
    const double most = program_number(&plain, "planned_peak_bytes");
    CHECK(least <= most);
    snprintf(text, sizeof text, "%s --budget 1MiB", say);
    o = program_run(&here, text);
    CHECK_EQ(o.code, 1);
    program_end(&o);
    for (int k = 0; k < 2; k++) {
        snprintf(text, sizeof text, "%s --budget %.0f", say, k ? (least + most) / 2 : least);
        o = program_run(&here, text);
        CHECK_EQ(o.code, 0);
        CHECK_STR(program_text(&o, "text"), program_text(&plain, "text"));
        program_end(&o);
    }
    program_end(&plain);
}

TEST_TIMEOUT(tasks, an_lstm_has_the_same_bits_in_every_budget, 90) {
    PROGRAM_NEED_MEMORY();
    char command[1024];
    snprintf(command, sizeof command, "%s %s 80 1", HEADROOM_SENTENCES, in("moods"));
    CHECK_EQ(system(command), 0);
    same_in_budgets("lstm:layers=2,width=32,hidden=64 --data texts:moods,length=48 --batch 40 "
                    "--steps 2 --seed 3 --micro-batches 1 --no-save");
}

TEST_TIMEOUT(tasks, classes_of_images_have_the_same_bits_in_every_budget, 90) {
    PROGRAM_NEED_MEMORY();
    begin();
    same_in_budgets("resnet18:size=48,width=16 --data images:pics --batch 24 --steps 2 --seed 3 "
                    "--augment flip --micro-batches 1 --no-save");
}

TEST_TIMEOUT(tasks, labels_of_images_have_the_same_bits_in_every_budget, 90) {
    PROGRAM_NEED_MEMORY();
    char command[1024];
    snprintf(command, sizeof command, "%s --labels %s 48 1 >/dev/null", HEADROOM_SHAPES, in("lab"));
    CHECK_EQ(system(command), 0);
    same_in_budgets("resnet18:size=48,width=16 --data csv:lab/labels.csv,image=file,y=circle+star "
                    "--batch 24 --steps 2 --seed 3 --micro-batches 1 --no-save");
}

TEST_TIMEOUT(tasks, classes_of_a_table_have_the_same_bits_in_every_budget, 90) {
    PROGRAM_NEED_MEMORY();
    FILE *f = fopen(in("t.csv"), "w");
    CHECK(f && fputs("a,b,kind\n", f) >= 0);
    for (int i = 0; i < 400; i++) {
        fprintf(f, "%d,%d,%s\n", i * 37 % 101, i * 53 % 89, i * 37 % 101 > 50 ? "big" : "small");
    }
    CHECK(fclose(f) == 0);
    same_in_budgets("mlp:width=384,layers=6 --data csv:t.csv,x=a+b,y=kind --batch 250 --steps 2 "
                    "--seed 3 --micro-batches 1 --no-save");
}
