/* No flag is dropped in silence: what has no effect is named, what cannot be meant is refused, nothing is cut. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pictures.h"
#include "program.h"
#include "sets.h"
#include "test.h"

#define TRAIN                                                                                      \
    "train mlp:width=8 --data synthetic:count=64 --batch 16 --steps 2 --no-measure --threads 1 "

typedef struct row {
    int code;
    const char *flags, *said;
} row;

static void check_rows(const char *folder, const char *command, const row *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        program_outcome o =
            program_run(&(program_options){.folder = folder}, "%s%s", command, rows[i].flags);
        if (o.code != rows[i].code || !strstr(o.words, rows[i].said)) {
            test_fail(__FILE__, __LINE__, "%s%s: exit code %d, not %d, or \"%s\" is not in: %.900s",
                      command, rows[i].flags, o.code, rows[i].code, rows[i].said, o.words);
        }
        test_count_check();
        program_end(&o);
    }
}

TEST(f11_12, what_cannot_be_meant_is_refused) {
    static const row rows[] = {
        {2, "--augment flp", "flp"},
        {2, "--augment flip,flp", "flp"},
        {2, "--rate -0.5", "--rate: -0.5"},
        {2, "--lr -1", "--lr: -1"},
        {2, "--decay -1", "--decay: -1"},
        {2, "--decay -0.1", "--decay"},
        {2, "--momentum -1", "--momentum"},
        {2, "--epochs 0", "--epochs: 0"},
        {2, "--every 0 --schedule step", "--every: 0"},
        {2, "--also 'mlp --data synthetic' --also 'mlp --data synthetic --budget 1GiB'",
         "--also: --budget can only be given for the first run"},
        {2, "--also ''", "does not name one model"},
        {2, "--also 'mlp --data synthetic --budget 1GiB'",
         "--also: --budget can only be given for the first run"},
        {2, "--also 'mlp --data \"synthetic'", "--also: a quote is not closed"},
        {2, "--options schedule=cosine --schedule step --every 1", "conflicts with --schedule"},
        {2, "--options rate=-1", "rate: -1"},
        {2, "--logical-devices 64MiB,64MiB", "--logical-devices"},
        {2, "--logical-devices 64MiB,64MiB,64MiB --also 'mlp --data synthetic'",
         "--logical-devices"},
        {2, "--options momentum=0.5,momentum=0.6", "momentum"},
    };
    check_rows(test_folder(), TRAIN "--no-save ", rows, sizeof rows / sizeof rows[0]);
}

TEST(f11_12, what_has_no_effect_is_named) {
    static const row rows[] = {
        {0, "--gamma 0.5", "--gamma has no effect without --schedule step"},
        {0, "--gamma 0.5 --schedule cosine", "--gamma has no effect"},
        {0, "--warmup 2", "--warmup 2"},
        {0, "--schedule step --every 9", "--every 9 has no effect"},
        {0, "--every 2", "--every has no effect without --schedule step"},
        {0, "--final-rate 0.1", "--final-rate has no effect without --schedule cosine"},
        {0, "--momentum 0.5 --optimizer adam", "--momentum has no effect"},
        {0, "--val-batch 4", "--val-batch has no effect without --val-data or --val-split"},
        {0, "--val-every 1", "--val-every has no effect"},
        {0, "--patience 1", "--patience has no effect"},
        {0, "--resume", "--resume has no effect with --no-save"},
        {0, "--out x", "--out has no effect with --no-save"},
        {0, "--batch 8", "--batch is given more than once"},
        {0, "--exact", "--exact has no effect without --device cuda"},
        {0, "--log-every 2", "--log-every has no effect without --log or --tensorboard or --svg"},
    };
    check_rows(test_folder(), TRAIN "--no-save ", rows, sizeof rows / sizeof rows[0]);
    static const row saving[] = {
        {0, "--out none --resume", "--resume has no effect: none has no checkpoint"},
    };
    check_rows(test_folder(), TRAIN, saving, 1);
    /* what --options says counts as said */
    program_outcome o =
        program_run(NULL, TRAIN "--no-save --options schedule=cosine --final-rate 0.001");
    program_expect(&o, 0, NULL);
    CHECK(!strstr(o.words, "warning"));
    program_end(&o);
}

TEST(f11_12, augmentation_without_effect_is_named) {
    const char *folder = test_folder();
    uint16_t tokens[512];
    for (int i = 0; i < 512; i++) {
        tokens[i] = (uint16_t)(i % 32);
    }
    test_write(folder, "tokens", tokens, sizeof tokens);
    static const row rows[] = {{0, "--augment flip", "--augment flip has no effect"}};
    check_rows(folder,
               "train gpt2-nano:vocab=32,context=8,layers=1,width=16,heads=2 --data tokens:tokens "
               "--batch 2 --steps 1 --no-save --no-measure ",
               rows, 1);
    /* pictures that are not encoded are not cropped */
    static const row crop[] = {{0, "--augment crop", "--augment crop has no effect"}};
    check_rows(folder, "train lenet --data synthetic --batch 4 --steps 1 --no-save --no-measure ",
               crop, 1);
}

/* Longer than any buffer that ever stood here. */
TEST(f11_12, nothing_that_was_typed_is_cut) {
    const char *folder = test_folder();
    char out[1400] = "", options[1400] = "check=true";
    while (strlen(out) < 1200) {
        strcat(out, strlen(out) % 100 == 99 ? "/" : "d");
    }
    program_outcome o = program_run(&(program_options){.folder = folder}, TRAIN "--out %s", out);
    program_expect(&o, 0, NULL);
    char path[2400];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s/last.safetensors", folder, out);
    CHECK(stat(path, &st) == 0);
    program_end(&o);
    /* the last key of many counts: it is not one */
    static const char *const keys[] = {"beta1=0.9", "beta2=0.999", "alpha=0.99",
                                       "epsilon=0.00000001"};
    for (size_t i = 0; i < 4; i++) { /* 0.9000...: as long as wanted */
        char piece[256];
        snprintf(piece, sizeof piece, ",%s%0*d", keys[i], 180, 0);
        strcat(options, piece);
    }
    strcat(options, ",nothing=1");
    CHECK(strlen(options) > 700);
    o = program_run(&(program_options){.folder = folder}, TRAIN "--no-save --options %s", options);
    program_expect(&o, 2, "nothing");
    program_end(&o);
    /* and the last word of a long --also */
    char also[4096] = "mlp:width=8 --data synthetic:count=64 --batch 16 --steps 2 --no-save";
    while (strlen(also) < 2000) {
        strcat(also, " --seed 3");
    }
    strcat(also, " --nothing 1");
    o = program_run(&(program_options){.folder = folder}, TRAIN "--no-save --also '%s'", also);
    program_expect(&o, 2, "--nothing");
    program_end(&o);
    /* a model's string */
    char model[2000] = "mlp:width=8";
    while (strlen(model) < 1500) {
        strcat(model, "0");
    }
    o = program_run(&(program_options){.folder = folder}, "train %s --data synthetic --no-save",
                    model);
    program_expect(&o, 2, NULL);
    program_end(&o);
}

TEST(f11_12, the_log_level_and_the_log_file_have_names_of_their_own) {
    const char *folder = test_folder();
    program_outcome o = program_run(&(program_options){.folder = folder},
                                    TRAIN "--no-save --log lines.jsonl --log-level info");
    program_expect(&o, 0, NULL);
    program_end(&o);
    char path[600];
    struct stat st;
    snprintf(path, sizeof path, "%s/lines.jsonl", folder);
    CHECK(stat(path, &st) == 0 && st.st_size > 0);
    o = program_run(NULL, "devices --log error"); /* unambiguous there */
    program_expect(&o, 0, NULL);
    program_end(&o);
    o = program_run(NULL, "devices --log-level loud");
    program_expect(&o, 2, "--log-level");
    program_end(&o);
}

TEST(f22_07, each_of_seven_flags_without_effect_is_named) {
    static const row rows[] = {
        {0, "--every 2", "--every has no effect"},
        {0, "--final-rate 0.5 --schedule step --every 1", "--final-rate has no effect"},
        {0, "--momentum 0.9 --optimizer adamw", "--momentum has no effect"},
        {0, "--val-batch 64", "--val-batch has no effect"},
        {2, "--decay -1", "--decay: -1"},
        {2, "--logical-devices 8MiB,8MiB", "--logical-devices: 2 sizes for 1"},
    };
    check_rows(test_folder(), TRAIN "--no-save ", rows, sizeof rows / sizeof rows[0]);
    /* one slice for one model is a limit that holds */
    program_outcome o = program_run(NULL, TRAIN "--no-save --json --logical-devices 8KiB");
    program_expect(&o, 1, NULL);
    program_end(&o);
}
