/* One minimum: the budget that `plan` names, with data and without, is the one that `train` names; `train`, `eval` and `predict`
 * take it, the kernel sees no more than it, and one step below it is refused before anything runs.  A table of models. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train_rig.h"

enum { STEP = 64 << 10 }; /* what budgets of the process are counted in */

typedef struct row {
    const char *model, *options, *data; /* data NULL: made-up */
} row;

static const row rows[] = {
    {"lenet", "--batch 1", NULL},
    {"lenet", "--batch 256", NULL},
    {"lenet", "--batch 64 --optimizer adam --precision bf16 --val-split 0.2", NULL},
    {"mlp", "--batch 16 --optimizer adamw --moments 8bit", NULL},
    {"resnet18:size=32,classes=3", "--batch 4", "images:pics"},
    {"vit-tiny:size=32,patch=4,width=32,heads=2,layers=2", "--batch 8 --micro-batches 2", NULL},
    {"vit-tiny:size=32,patch=4,width=32,heads=2,layers=2,classes=3", "--batch 8", "images:pics"},
    {"gpt2-nano:layers=2", "--batch 4 --optimizer lion", "text:book.txt"},
    {"unet:size=32,width=4,depth=3", "--batch 4", NULL},
    {"'net: input(12x12x1) | conv(4,3) | relu | flatten | dense(3)'", "--batch 32", NULL},
    {"'net: input(12x12x1) | flatten | repeat(30, dense(8) | relu) | dense(3)'", "--batch 4",
     NULL}, /* its text, which checkpoints hold, is long */
    {"'net: dense(32) | relu | dense(3)'", "--batch 64 --optimizer rmsprop",
     "csv:t.csv,x=*,y=kind"},
};

static void make_data(void) {
    static const char *const kinds[] = {"low", "mid", "high"};
    FILE *f = fopen(in("book.txt"), "w");
    CHECK(f);
    for (int i = 0; i < 2000; i++) {
        fprintf(f, "the %dth fox jumps over the lazy dog; ", i * i % 97);
    }
    CHECK(fclose(f) == 0);
    f = fopen(in("t.csv"), "w");
    CHECK(f);
    fprintf(f, "a,b,kind\n");
    for (int i = 0; i < 300; i++) {
        fprintf(f, "%d,%d,%s\n", i % 17, i % 5, kinds[i % 3]);
    }
    CHECK(fclose(f) == 0);
}

static program_outcome ask(const char *command, const row *r, int with_data, const char *more) {
    const char *data = r->data ? r->data : "synthetic:512";
    return program_run(&(program_options){.folder = where(), .seconds = 100},
                       "%s %s %s%s%s --effort 1000 --no-measure --json %s", command, r->model,
                       r->options, with_data ? " --data " : "", with_data ? data : "", more);
}

static uint64_t named(const char *command, const row *r, int with_data, const char *more) {
    program_outcome o = ask(command, r, with_data, more);
    program_expect(&o, 1, NULL);
    const uint64_t bytes = (uint64_t)program_number(&o, "smallest_bytes");
    program_end(&o);
    return bytes;
}

/* Two steps at the budget, inside of it; the checkpoint stays for those who read it. */
static void trains_at(const row *r, uint64_t budget) {
    char more[160];
    snprintf(more, sizeof more, "--budget %llu --steps 2 --out run --overwrite",
             (unsigned long long)budget);
    program_outcome o = ask("train", r, 1, more);
    program_expect(&o, 0, NULL);
    CHECK_EQ((int)program_number(&o, "steps"), 2);
    CHECK_LE(o.resident_bytes, budget);
    CHECK_LE((uint64_t)program_number(&o, "planned_peak_bytes"), budget);
    program_end(&o);
}

static void refused_at(const row *r, uint64_t budget, uint64_t least) {
    char more[160];
    snprintf(more, sizeof more, "--budget %llu --steps 2 --out below", (unsigned long long)budget);
    program_outcome o = ask("train", r, 1, more);
    program_expect(&o, 1, NULL);
    CHECK(strstr(program_text(&o, "error.message"), "does not fit: the budget is "));
    CHECK(strstr(program_text(&o, "error.message"), "the minimum is "));
    CHECK_EQ((uint64_t)program_number(&o, "smallest_bytes"), least);
    CHECK_LE(o.resident_bytes, budget);
    program_end(&o);
    o = program_run(&(program_options){.folder = where(), .as_shell = 1}, "test ! -e below");
    program_expect(&o, 0, NULL); /* nothing was begun */
    program_end(&o);
}

static void reads_at(const row *r, uint64_t budget) {
    const program_options here = {.folder = where(), .seconds = 100};
    program_outcome o =
        program_run(&here, "eval run --data %s --batch 256 --budget %llu --json",
                    r->data ? r->data : "synthetic:512", (unsigned long long)budget);
    program_expect(&o, 0, NULL);
    CHECK_LE(o.resident_bytes, budget);
    program_end(&o);
    if (r->data && !strncmp(r->data, "images:", 7)) {
        o = program_run(&here, "predict run pics --batch 256 --budget %llu --json",
                        (unsigned long long)budget);
        program_expect(&o, 0, NULL);
        CHECK_LE(o.resident_bytes, budget);
        program_end(&o);
    }
}

static void check_row(const row *r) {
    program_outcome o = ask("plan", r, 1, ""); /* one that fits */
    program_expect(&o, 0, NULL);
    const uint64_t least = (uint64_t)program_number(&o, "smallest_bytes");
    program_end(&o);
    char below[64];
    snprintf(below, sizeof below, "--budget %llu --no-choices", (unsigned long long)(least - STEP));
    CHECK_EQ(named("plan", r, 1, below), least);
    if (!r->data) { /* and where no data is named */
        CHECK_EQ(named("plan", r, 0, below), least);
    }
    trains_at(r, least);
    reads_at(r, least);
    refused_at(r, least - STEP, least);
}

TEST_TIMEOUT(minimum, what_plan_names_train_eval_and_predict_take, 600) {
    PROGRAM_NEED_MEMORY();
    begin();
    make_data();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_row(&rows[i]);
    }
}

/* An evaluation has a minimum of its own, of one sample at once, and splits a larger batch before it refuses. */
TEST_TIMEOUT(minimum, an_evaluation_takes_what_it_names_whatever_the_batch, 120) {
    PROGRAM_NEED_MEMORY();
    const program_options here = {.folder = where(), .seconds = 50};
    program_outcome o = program_run(&here, "train lenet --data synthetic:64 --batch 8 --steps 1 "
                                           "--no-measure --out run --json");
    program_expect(&o, 0, NULL);
    program_end(&o);
    static const char *const batches[] = {"1", "64", "500", "auto"};
    uint64_t least = 0;
    for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
        o = program_run(&here, "eval run --data synthetic:64 --batch %s --budget 1MiB --json",
                        batches[i]);
        program_expect(&o, 1, "below the minimum of ");
        const uint64_t bytes = (uint64_t)program_number(&o, "smallest_bytes");
        CHECK(i == 0 || bytes == least);
        least = bytes;
        program_end(&o);
        for (int below = 0; below < 2; below++) {
            o = program_run(&here, "eval run --data synthetic:64 --batch %s --budget %llu --json",
                            batches[i], (unsigned long long)(least - (below ? STEP : 0)));
            program_expect(&o, below, below ? "below the minimum of " : NULL);
            CHECK_LE(o.resident_bytes, least);
            program_end(&o);
        }
    }
}
