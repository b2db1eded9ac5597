/* 11.19, the data's part: `unet --data synthetic` had no labels of its shape.  Synthetic data fits every model. */
#include <stdio.h>
#include <string.h>

#include "program.h"
#include "test.h"

TEST_TIMEOUT(f11_19, synthetic_data_fits_every_model, 180) {
    static const char *const models[] = {
        "unet:size=16,width=4",     "unet:size=16,width=4,classes=5",
        "mlp:size=4,width=4",       "lenet",
        "resnet18:size=32,width=8", "vit-tiny:size=32,layers=1,classes=7,patch=8",
        "gpt2-nano:layers=1"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        program_outcome o = program_run(
            NULL, "train %s --data synthetic:4 --batch 2 --steps 2 --no-save --json", models[i]);
        program_expect(&o, 0, NULL);
        CHECK_EQ(program_number(&o, "steps"), 2);
        program_end(&o);
    }
}
