/* Eighteen mistakes that people make with data: one sentence each, which names the file and the place, and exit code 2. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../train_rig.h"
#include "data/image/image.h"

static void write_bytes(const char *name, const void *data, size_t bytes) {
    FILE *f = fopen(in(name), "wb");
    CHECK(f && fwrite(data, 1, bytes, f) == bytes && fclose(f) == 0);
}

static void write_text(const char *name, const char *text) {
    write_bytes(name, text, strlen(text));
}

/* A .npy file of 4-byte numbers. */
static void write_npy(const char *name, const char *type, const char *shape, const void *data,
                      size_t count) {
    char file[2048] = "\x93NUMPY\x01";
    const int used = snprintf(file + 10, 118,
                              "{'descr': '%s', 'fortran_order': False, 'shape': %s}", type, shape);
    memset(file + 10 + used, ' ', (size_t)(118 - used));
    file[127] = '\n';
    file[8] = 118;
    memcpy(file + 128, data, 4 * count);
    write_bytes(name, file, 128 + 4 * count);
}

static void write_grey(const char *name, uint32_t size, uint8_t value) {
    uint8_t pixels[16 * 16 * 3];
    hri_prose why = {{0}};
    memset(pixels, value, sizeof pixels);
    CHECK_OK(hri_png_write(in(name), pixels, size, size, &why));
}

static void make_masks(const char *folder) {
    char name[96];
    CHECK_EQ(mkdir(in(folder), 0777), 0);
    for (int k = 0; k < 2; k++) {
        snprintf(name, sizeof name, "%s/%s", folder, k ? "masks" : "images");
        CHECK_EQ(mkdir(in(name), 0777), 0);
        for (int i = 0; i < 2; i++) {
            snprintf(name, sizeof name, "%s/%s/%d.png", folder, k ? "masks" : "images", i);
            write_grey(name, 16, (uint8_t)(k ? i : 99));
        }
    }
}

static void make_all(void) {
    float numbers[32];
    int32_t labels[8] = {0, 1, 2, 0, 1, 2, 0, 7};
    uint16_t tokens[200];
    char file[4096];
    for (int i = 0; i < 32; i++) {
        numbers[i] = (float)i;
    }
    for (int i = 0; i < 200; i++) {
        tokens[i] = (uint16_t)i;
    }
    write_npy("x.npy", "<f4", "(8, 4)", numbers, 32);
    write_npy("y.npy", "<i4", "(8,)", labels, 8);
    write_npy("short.npy", "<i4", "(6,)", labels, 6);
    write_bytes("tokens.bin", tokens, sizeof tokens);
    write_text("book.txt", "too short");
    write_text("typing.csv", "a,b\n1,2\n2,2\n3,2\n4,2\n5,2\n6,2\n7,2\n8,2\n9,2\n1O,4\n2,2\n");
    write_text("inf.csv", "a,b\n1,2\ninf,4\n");
    write_text("ragged.csv", "a,b\n1,2\n3\n");
    write_text("weights.csv", "a,b,w\n1,2,1\n3,4,-1\n");
    write_text("empty.csv", "");
    write_npy("complex.npy", "<c8", "(4, 4)", numbers, 32);
    CHECK_EQ(mkdir(in("cut"), 0777) | mkdir(in("cut/a"), 0777), 0);
    write_bytes("cut/a/1.jpg", "\xff\xd8\xff\xe0\0\20JFIF\0\1\1\0\0", 15);
    CHECK_EQ(mkdir(in("flat"), 0777) | mkdir(in("bad"), 0777) | mkdir(in("bad/a"), 0777), 0);
    write_grey("flat/1.png", 16, 9);
    write_grey("bad/a/1.png", 16, 9);
    FILE *f = fopen(in("bad/a/1.png"), "rb");
    const size_t bytes = fread(file, 1, sizeof file, f);
    fclose(f);
    write_bytes("bad/a/1.png", file, bytes / 2);
    make_masks("gone");
    CHECK_EQ(unlink(in("gone/masks/1.png")), 0);
    make_masks("size");
    write_grey("size/masks/1.png", 12, 1);
    make_masks("value");
}

TEST_TIMEOUT(tasks, nineteen_mistakes_of_data_are_named_with_file_and_place, 60) {
#define PICTURES "resnet18:size=32,width=8 --batch 1 --steps 2 --data "
#define PIXELS   "unet:size=16,width=4,depth=1 --batch 2 --steps 2 --data "
    static const struct {
        const char *arguments, *sentence;
    } mistakes[] = {
        {PICTURES "images:nowhere", "nowhere: no such file or directory"},
        {PICTURES "images:flat", "flat contains no class folders (it has 1 image;"},
        {PICTURES "images:bad", "a/1.png: decode: PNG: "},
        {"mlp --data npy:x.npy,short.npy", "short.npy has 6 elements, but x.npy has 8"},
        {"mlp:classes=3 --data npy:x.npy,y.npy", "npy:x.npy,y.npy has labels up to 7, but the "
                                                 "model has 3 classes (0-2); add classes=8 to the "
                                                 "model string"},
        {"'net:dense(8)|relu|dense(3)' --data npy:x.npy,y.npy",
         "the model has 3 classes (0-2); a model with 8 classes is needed"},
        {"mlp --data csv:inf.csv,x=a,y=b",
         "inf.csv, record 2: \"inf\" in column \"a\" is not finite"},
        {"mlp --data csv:typing.csv,x=a,y=b",
         "typing.csv, record 10: \"1O\" in column \"a\" is not a number"},
        {"mlp --data csv:ragged.csv,x=a,y=b", "ragged.csv, record 2: fewer than 2 values"},
        {"mlp --data csv:ragged.csv,x=a+c,y=b", "ragged.csv has no column \"c\"; it has a, b"},
        {"mlp --data csv:weights.csv,x=a,y=b,weight=w",
         "weights.csv, record 2: the weight \"-1\" is negative"},
        {"mlp --data csv:empty.csv,x=a,y=b", "empty.csv: the file is empty"},
        {PICTURES "images:cut", "a/1.jpg: decode: JPEG"},
        {"mlp --data npy:complex.npy,y.npy", "complex.npy"},
        {"gpt2-nano --data text:book.txt", "book.txt: fewer than 32 + 1 bytes"},
        {"gpt2-nano:context=150 --batch 1 --data tokens:tokens.bin",
         "tokens:tokens.bin,length=150: token 128, number 128 of a sample, is out of range: the "
         "model has 128 tokens (0-127)"},
        {PIXELS "masks:gone", "gone/images/1.png has no mask: there is no gone/masks/1.png"},
        {PIXELS "masks:size",
         "its mask size/masks/1.png has 12 x 12 pixels, but the image 16 x 16"},
        {PIXELS "masks:value,classes=only",
         "its mask value/masks/1.png: pixel (0, 0) has the value 1"},
    };
    begin();
    make_all();
    CHECK_EQ(sizeof mistakes / sizeof mistakes[0], 19);
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "%s --no-save", mistakes[i].arguments);
        refused(arguments, 2, mistakes[i].sentence);
    }
}

/* An empty class ends nothing, but it is said. */
TEST_TIMEOUT(tasks, an_empty_class_is_named, 30) {
    begin();
    CHECK_EQ(mkdir(in("pics/zebra"), 0777), 0);
    program_outcome o = run_well(RESNET " --steps 1 --no-save");
    CHECK(strstr(o.words, "class zebra has no images: its folder is empty"));
    program_end(&o);
}
