/* 11.6: resume compared neither the cut nor ghost norm nor batch x accumulate: 8 x 1 went on as 4 x 2. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "forge.h"
#include "pictures.h"
#include "program.h"
#include "test.h"

#define MODEL  "mlp:size=4,channels=1,width=4,layers=1,classes=2"
#define COMMON "train " MODEL " --data npy:x.npy,y.npy --out run --resume --steps 6 "

static void refused(const char *folder, const char *flags, const char *sentence) {
    program_outcome o = program_run(&(program_options){.folder = folder}, COMMON "%s", flags);
    if (o.code != 2 || !strstr(o.words, sentence)) {
        test_fail(__FILE__, __LINE__, "%s: exit code %d, not 2 with \"%s\": %s", flags, o.code,
                  sentence, o.words);
    }
    program_end(&o);
}

TEST_TIMEOUT(f11_06, what_makes_the_history_is_compared_and_named, 120) {
    const char *folder = test_folder();
    forge_train(folder, "run", "--micro-batches 2");
    refused(folder, "--batch 8 --micro-batches 2",
            "cannot resume: the run used --batch 4, this command has 8");
    refused(folder, "--batch 2 --accumulate 2",
            "cannot resume: the run used --batch 4, this command has 2");
    refused(folder, "--batch 4 --micro-batches 4",
            "the run used --micro-batches 2, this command has 4");
    refused(folder, "--batch 4 --micro-batches off",
            "the run used --micro-batches 2, this command has 1");
    refused(folder, "--batch 4 --seed 3", "the run used --seed 0, this command has 3");
    refused(folder, "--batch 4 --rate 0.5", "the run used --rate 0.01, this command has 0.5");
    refused(folder, "--batch 4 --optimizer adam",
            "the run used --optimizer sgd, this command has adam");
    refused(folder, "--batch 4 --precision bf16",
            "the run used --precision f32, this command has bf16");
    refused(folder, "--batch 4 --options beta2=0.5", "the run used --options beta2 ");
    refused(folder, "--batch 4 --smoothing 0.1",
            "the run used --smoothing 0, this command has 0.1");
    refused(folder, "--batch 4 --augment flip",
            "the run used --augment none, this command has flip");
    refused(folder, "--batch 4 --val-split 0.25", "cannot resume: the run used --val-split 0");
    /* the same training, longer, in another budget, the cut not said: it goes on */
    program_outcome o = program_run(&(program_options){.folder = folder},
                                    COMMON "--batch 4 --budget 128MiB --json");
    program_expect(&o, 0, NULL);
    CHECK(program_number(&o, "micro_batches") == 2);
    program_end(&o);
}

TEST_TIMEOUT(f11_06, accumulated_batches_are_not_one_batch, 60) {
    const char *folder = test_folder();
    forge_train(folder, "run", "--accumulate 2"); /* 4 x 2 */
    refused(folder, "--batch 8", "cannot resume: the run used --batch 4, this command has 8");
    refused(folder, "--batch 8 --micro-batches 2", "the run used --batch 4, this command has 8");
    refused(folder, "--batch 4", "the run used --accumulate 2, this command has 1");
}

TEST_TIMEOUT(f11_06, images_that_were_edited_are_other_data, 60) {
    const char *folder = test_folder();
    char path[512];
    forge_train(folder, "run", "");
    snprintf(path, sizeof path, "%s/x.npy", folder);
    FILE *f = fopen(path, "r+b");
    CHECK(f && fseek(f, 200, SEEK_SET) == 0 && fputc(0, f) == 0 && fclose(f) == 0);
    refused(folder, "--batch 4", "cannot resume: the data differs from the run's");
}

TEST_TIMEOUT(f11_06, another_device_is_said, 60) {
    const char *folder = test_folder();
    char path[512];
    snprintf(path, sizeof path, "%s", forge_train(folder, "run", ""));
    json_t *header = forge_read(path), *text = forge_text(header);
    json_object_set_new(json_object_get(text, "environment"), "device",
                        json_string("NVIDIA X\033[1m"));
    forge_write(path, path, header, text);
    json_decref(text);
    json_decref(header);
    program_outcome o = program_run(&(program_options){.folder = folder}, COMMON "--batch 4");
    program_expect(&o, 0, "the run used the device NVIDIA X\\x1b[1m, this command has host");
    program_end(&o);
}

TEST_TIMEOUT(f11_06, batch_auto_goes_on_with_the_batch_it_had, 60) {
    const char *folder = test_folder();
    forge_train(folder, "run", "");
    program_outcome o =
        program_run(&(program_options){.folder = folder}, COMMON "--batch auto --json");
    program_expect(&o, 0, NULL);
    CHECK(program_number(&o, "batch") == 4);
    program_end(&o);
}
