/* Seeds of parts: each decides its own part and no other, all of them together are a seed, and a checkpoint keeps them. */
#include <stdio.h>
#include <string.h>

#include "../train_rig.h"

static void make_table(void) {
    FILE *f = fopen(in("t.csv"), "w");
    CHECK(f);
    fputs("a,b,kind\n", f);
    for (unsigned i = 0; i < 80; i++) {
        const unsigned a = i * 2654435761u % 2000, b = i * 2246822519u % 2000;
        fprintf(f, "%u,%u,%s\n", a, b, a > b ? "more" : "less");
    }
    CHECK(fclose(f) == 0);
}

#define RUN                                                                                        \
    "'net: input(2,classes=2) | dense(8) | relu | dropout(0.5) | dense(2)' --data "                \
    "csv:t.csv,x=a+b,y=kind --val-split 0.2 --batch 8 --steps 6 --mixup 0.4 "

/* The weights that a run ends with. */
static void weights_of(const char *more, char *out, size_t size) {
    char arguments[512];
    snprintf(arguments, sizeof arguments, RUN "%s --no-save", more);
    program_outcome o = run_well(arguments);
    snprintf(out, size, "%s", program_text(&o, "weights"));
    program_end(&o);
}

TEST_TIMEOUT(tasks, seeds_of_parts_are_those_of_their_part_and_of_no_other, 60) {
    static const char *const parts[] = {"data=9", "init=9", "dropout=9", "augment=9"};
    char plain[200], all[200], one[4][200];
    begin();
    make_table();
    weights_of("--seed 3", plain, sizeof plain);
    weights_of("--seed 7 --seeds data=3,init=3,dropout=3,augment=3", all, sizeof all);
    CHECK_STR(all, plain);
    weights_of("--seed 3 --seeds init=3", all, sizeof all);
    CHECK_STR(all, plain);
    for (int i = 0; i < 4; i++) {
        char more[64];
        snprintf(more, sizeof more, "--seed 3 --seeds %s", parts[i]);
        weights_of(more, one[i], sizeof one[i]);
        CHECK(strcmp(one[i], plain) != 0);
        for (int k = 0; k < i; k++) {
            CHECK(strcmp(one[i], one[k]) != 0);
        }
    }
}

TEST_TIMEOUT(tasks, seeds_of_parts_are_kept_in_the_checkpoint, 60) {
    begin();
    make_table();
    char whole[200];
    weights_of("--seed 3 --seeds init=5,dropout=6", whole, sizeof whole);
    program_outcome o = run_well(RUN "--steps 4 --seed 3 --seeds init=5,dropout=6 --out run");
    program_end(&o);
    refused(RUN "--seed 3 --seeds init=4,dropout=6 --out run --resume", 2, "--seeds");
    refused(RUN "--seed 3 --out run --resume", 2, "--seeds");
    o = run_well(RUN "--seed 3 --seeds init=5,dropout=6 --out run --resume");
    CHECK_STR(program_text(&o, "weights"), whole);
    program_end(&o);
    refused(RUN "--seeds date=1 --no-save", 2, "date");
    refused(RUN "--seeds data=-1 --no-save", 2, "seeds");
}
