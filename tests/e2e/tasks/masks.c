/* From images and masks to predicted masks: trained to a known quality, inside budgets, judged, written, read back; and mistakes
 * of data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../train_rig.h"
#include "data/image/image.h"

#define SHAPES                                                                                     \
    "unet:size=24,width=8,depth=2 --data masks:shapes --val-split 0.2 --batch 8 --seed 3 "
#define RATE "--optimizer adam --rate 0.01 --augment flip "

static program_outcome call(const char *arguments) {
    return program_run(&(program_options){.folder = where()}, arguments);
}

static void make_shapes(const char *name, int count, int seed) {
    char command[1200];
    snprintf(command, sizeof command, "%s --masks %s %d %d >/dev/null", HEADROOM_SHAPES, in(name),
             count, seed);
    CHECK_EQ(system(command), 0);
}

TEST_TIMEOUT(tasks, masks_are_learnt_judged_and_written, 90) {
    begin();
    make_shapes("shapes", 120, 1);
    make_shapes("new", 6, 2);
    program_outcome o = run_well(SHAPES RATE "--epochs 9 --out run");
    CHECK(program_number(&o, "val_accuracy") > 0.8);
    program_end(&o);
    o = call("eval run --data masks:new --json");
    CHECK_EQ(o.code, 0);
    printf("    iou %.3f, dice %.3f on new images\n", program_number(&o, "metrics.iou"),
           program_number(&o, "metrics.f1"));
    CHECK(program_number(&o, "metrics.iou") >
          0.45); /* a mean over four classes; all ground would be 0.2 */
    program_end(&o);
    o = call("eval run --data masks:shapes --split val");
    CHECK(strstr(o.out, "CLASS  PIXELS") && strstr(o.out, "IOU") && strstr(o.out, "DICE"));
    program_end(&o);
    o = call("predict run new/images --out out/a");
    CHECK_EQ(o.code, 0);
    CHECK(!strncmp(o.out, "path,mask,overlay,0,1,2,3\nnew/images/0000.jpg,out/a/0000.png,", 61));
    CHECK(access(in("out/a/0005-overlay.png"), R_OK) == 0);
    program_end(&o);
    o = call("eval run --data masks:images=new/images,masks=out/a --json"); /* its own masks */
    CHECK_EQ(o.code, 0);
    CHECK(program_number(&o, "accuracy") > 0.97); /* but for pixels that resizing moves */
    program_end(&o);
    o = call("predict run new/images/0001.jpg");
    CHECK(o.code == 2 && strstr(o.words, "add --out DIR"));
    program_end(&o);
}

/* Unconstrained, half-way and at the smallest budget that a refusal names. */
TEST_TIMEOUT(tasks, masks_have_the_same_bits_in_every_budget, 90) {
    PROGRAM_NEED_MEMORY();
    static const char command[] =
        "unet:size=32,width=8,depth=2 --data masks:shapes --batch 8 --steps 1 --seed 3 --no-save ";
    char arguments[1024];
    begin();
    make_shapes("shapes", 8, 1);
    program_outcome plain = run_well(command);
    snprintf(arguments, sizeof arguments, "%s--budget 4MiB", command);
    program_outcome no = run(arguments);
    CHECK_EQ(no.code, 1);
    const double most = program_number(&plain, "planned_peak_bytes");
    const double least = program_number(&no, "smallest_bytes") + (1 << 20);
    CHECK(least < most);
    for (int k = 0; k < 2; k++) {
        snprintf(arguments, sizeof arguments, "%s--micro-batches 1 --budget %.0f", command,
                 k ? (least + most) / 2 : least);
        program_outcome o = run_well(arguments);
        CHECK(program_number(&o, "planned_peak_bytes") < most);
        CHECK_STR(program_text(&o, "history"), program_text(&plain, "history"));
        CHECK_STR(program_text(&o, "weights"), program_text(&plain, "weights"));
        program_end(&o);
    }
    program_end(&no);
    program_end(&plain);
}

/* A mask of one colour (0xrrggbb). */
static void write_mask(const char *name, uint32_t size, uint32_t colour) {
    uint8_t pixels[32 * 32 * 3];
    hri_prose why = {{0}};
    for (uint32_t i = 0; i < size * size; i++) {
        pixels[3 * i] = (uint8_t)(colour >> 16);
        pixels[3 * i + 1] = (uint8_t)(colour >> 8);
        pixels[3 * i + 2] = (uint8_t)colour;
    }
    CHECK_OK(hri_png_write(in(name), pixels, size, size, &why));
}

/* One sentence each, which names the file and the place. */
TEST_TIMEOUT(tasks, mistakes_of_masks_are_named_with_file_and_place, 60) {
#define SMALL "unet:size=16,width=4,depth=1 --batch 2 --steps 2 --no-save --data masks:d"
    begin();
    make_shapes("shapes", 3, 1);
    CHECK_EQ(mkdir(in("d"), 0777) | mkdir(in("d/images"), 0777) | mkdir(in("d/masks"), 0777), 0);
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "d/images/%d.png", i);
        write_mask(name, 16, 0x203040);
        snprintf(name, sizeof name, "d/masks/%d.png", i);
        write_mask(name, 16, 0x010101u * (unsigned)i);
    }
    program_outcome o = run_well(SMALL);
    program_end(&o);
    refused(SMALL ",colours=000000+020202", 2,
            "its mask d/masks/1.png: pixel (0, 0) has the colour #010101, which is none of "
            "the 2 classes");
    refused(SMALL ",classes=a+b", 2, "has the value 2, but there are 2 classes (0-1)");
    refused("resnet18:size=32,width=8 --batch 2 --no-save --data masks:d", 2,
            "has a class for every pixel, but the model predicts one per image");
    write_mask("d/masks/2.png", 12, 0x020202);
    refused(SMALL, 2, "its mask d/masks/2.png has 12 x 12 pixels, but the image 16 x 16");
    CHECK_EQ(unlink(in("d/masks/1.png")), 0);
    refused(SMALL, 2, "d/images/1.png has no mask: there is no d/masks/1.png");
    refused(SMALL "/images", 2, "d/images/images: no such file or directory");
    refused("unet --no-save --data masks:images=d/images,masks=nowhere", 2,
            "nowhere: no such directory of masks");
    CHECK_EQ(rename(in("shapes/images/0000.jpg"), in("d/masks/1.png")), 0);
    refused(SMALL, 2, "d/masks/1.png: ");
}
