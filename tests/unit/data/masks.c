/* Masks: what is a class, what is none, and that a mask goes wherever its image goes. */
#include <headroom/data.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "data/image/mask.h"
#include "pictures.h"
#include "test.h"

enum { GREY = 0, RGB = 2 }; /* PNG's numbers of colour types */
enum { W = 24, H = 18 };

static void write_png(const char *name, const uint8_t *rows, int w, int h, int colour) {
    size_t bytes;
    unsigned char *file = test_png(rows, w, h, 8, colour, 0, &bytes);
    test_write(test_folder(), name, file, bytes);
    free(file);
}

/* Image i and its mask: the red of an image's pixel is its class times 40. */
static void write_pair(int i, int classes) {
    uint8_t image[H * W * 3], mask[H * W];
    char name[64];
    uint64_t seed = (uint64_t)i + 7;
    for (int k = 0; k < H * W; k++) {
        mask[k] = (uint8_t)(test_random(&seed) % (uint64_t)classes);
        image[3 * k] = (uint8_t)(40 * mask[k]);
        image[3 * k + 1] = image[3 * k + 2] = 9;
    }
    snprintf(name, sizeof name, "d/images/a/%d.png", i);
    write_png(name, image, W, H, RGB);
    snprintf(name, sizeof name, "d/masks/a/%d.png", i);
    write_png(name, mask, W, H, GREY);
}

static hr_pipeline *open_text(const char *stages, hr_error *error) {
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 32 << 20, .workers = 2};
    char text[700];
    hr_pipeline *p = NULL;
    snprintf(text, sizeof text, "masks:%s/d%s", test_folder(), stages);
    return hr_pipeline_open(&o, text, error, &p) == HR_OK ? p : NULL;
}

/* Where a pixel's image is class times 40, its label is the class; outside (black, blue 0) it is ignored. */
static void check_moved(const char *stages, int64_t height, int64_t width) {
    hr_error error = {0};
    hr_pipeline *p = open_text(stages, &error);
    hr_element *e;
    int seen = 0, outside = 0;
    CHECK(p);
    while (hr_pipeline_next(p, &e) == HR_OK) {
        const hr_field *image = hr_element_find(e, "image"), *label = hr_element_find(e, "label");
        CHECK(label->meta.type == HR_TYPE_I32 && label->meta.shape.rank == 2);
        CHECK_EQ(label->meta.shape.dim[0], height);
        CHECK_EQ(label->meta.shape.dim[1], width);
        CHECK_EQ(image->meta.shape.dim[0], height);
        for (int64_t k = 0; k < height * width; k++) {
            const uint8_t *pixel = (const uint8_t *)image->data + 3 * k;
            const int32_t is = ((const int32_t *)label->data)[k];
            if (pixel[1] == 9) {
                CHECK_EQ(is, pixel[0] / 40);
                seen++;
            } else {
                CHECK_EQ(is, -1);
                outside++;
            }
        }
        hr_element_unref(e);
    }
    CHECK(seen > height * width);
    CHECK((strstr(stages, "pad") != NULL) == (outside > 0));
    hr_pipeline_destroy(p);
}

TEST(masks, a_mask_goes_where_its_image_goes) {
    for (int i = 0; i < 6; i++) {
        write_pair(i, 3);
    }
    check_moved(" | decode", H, W);
    check_moved(" | decode(12x10,fit=stretch,filter=nearest)", 12, 10);
    check_moved(" | decode(30,random_crop=on,flip=on,filter=nearest)", 30, 30);
    check_moved(" | decode | crop(10x14,random=on)", 10, 14);
    check_moved(" | decode | crop(22,pad=4,random=on)", 22, 22);
    check_moved(" | decode | flip | flip(vertical=on)", H, W);
    check_moved(" | decode | resize(9x33,filter=nearest)", 9, 33);
    check_moved(" | decode | rotate(180,random=off)", H, W);
}

static hri_buffer_pool *pool;
static hri_memory memory;

static void begin(void) {
    hri_account *account;
    CHECK_OK(hri_pool_create(1 << 20, &pool));
    CHECK_OK(hri_ledger_open(hri_pool_ledger(pool), "test", 0, &account));
    hri_ledger_set_user_waiting(hri_pool_ledger(pool), true);
    memory = (hri_memory){.pool = pool, .account = account};
}

/* The classes that 2 x 2 pixels make. */
static hr_status settle(const uint8_t *rows, int colour, const char *names, const char *ignore,
                        hri_mask_classes *out, hri_prose *why) {
    size_t bytes;
    static hri_mask_seen seen;
    unsigned char *file = test_png(rows, 2, 2, 8, colour, 0, &bytes);
    seen = (hri_mask_seen){.colour_count = 0};
    hr_status status = hri_mask_look(file, bytes, &memory, &seen, why);
    if (status == HR_OK) {
        status = hri_mask_classes_settle(names, NULL, ignore, &seen, out, why);
    }
    free(file);
    return status;
}

TEST(masks, classes_are_values_or_colours) {
    static hri_mask_classes c;
    hri_prose why = {{0}};
    begin();
    CHECK_OK(settle((const uint8_t[]){0, 2, 255, 2}, GREY, NULL, NULL, &c, &why));
    CHECK(c.count == 3 && !c.has_colours && c.ignore == 255);
    CHECK_STR(c.texts[2], "2");
    CHECK_OK(settle((const uint8_t[]){0, 255, 255, 0}, GREY, NULL, NULL, &c, &why));
    CHECK(c.count == 2 && c.has_colours && c.ignore == -1); /* black and white */
    CHECK_STR(c.texts[1], "#ffffff");
    const uint8_t colours[] = {255, 0, 0, 0, 0, 0, 0, 0, 0, 16, 32, 48};
    CHECK_OK(settle(colours, RGB, NULL, NULL, &c, &why));
    CHECK(c.count == 3 && c.has_colours);
    CHECK_STR(c.texts[0], "#000000");
    CHECK_STR(c.texts[1], "#102030");
    CHECK_OK(settle(colours, RGB, "sky+car", "102030", &c, &why));
    CHECK(c.count == 2 && c.ignore == 0x102030);
    CHECK_STR(c.texts[1], "car #ff0000");
    CHECK_STATUS(settle(colours, RGB, "sky+car", NULL, &c, &why), HR_E_INVALID);
    CHECK_STR(why.text, "classes: 2 names for 3 colours; say which is which with colours=");
    CHECK_STATUS(settle(colours, RGB, "a+b+a", NULL, &c, &why),
                 HR_OK); /* colours tell them apart */
    CHECK_STATUS(settle((const uint8_t[]){0, 1, 0, 1}, GREY, "a+a", NULL, &c, &why), HR_E_INVALID);
    CHECK_STATUS(settle((const uint8_t[]){0, 1, 0, 1}, GREY, NULL, "256", &c, &why), HR_E_INVALID);
    CHECK_STATUS(hri_mask_classes_settle(NULL, "ff0000+0000zz", NULL, NULL, &c, &why),
                 HR_E_INVALID);
    CHECK_STATUS(hri_mask_classes_settle(NULL, "ff0000+FF0000", NULL, NULL, &c, &why),
                 HR_E_INVALID);
    hri_pool_unref(pool);
}

TEST(masks, texts_of_classes_are_enough_to_read_other_masks) {
    static hri_mask_classes c;
    static const char *const texts[] = {"sky #000000", "#ff0000"}, *const ids[] = {"a", "b"};
    const uint8_t red[] = {255, 0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0}, plain[] = {0, 1, 255, 1};
    uint8_t out[4];
    size_t bytes;
    hri_prose why = {{0}};
    begin();
    CHECK_OK(hri_mask_classes_take(texts, 2, NULL, &c, &why));
    unsigned char *file = test_png(red, 2, 2, 8, RGB, 0, &bytes);
    CHECK_OK(hri_mask_decode(file, bytes, &c, &memory, out, &why));
    CHECK(!memcmp(out, (const uint8_t[]){1, 0, 0, 1}, 4));
    CHECK_OK(hri_mask_classes_take(ids, 2, NULL, &c, &why));
    CHECK_STATUS(hri_mask_decode(file, bytes, &c, &memory, out, &why), HR_E_FORMAT);
    CHECK_STR(why.text, "pixel (0, 0) has the colour #ff0000, which is none of the 2 classes");
    free(file);
    file = test_png(plain, 2, 2, 8, GREY, 1, &bytes); /* interlaced */
    CHECK_OK(hri_mask_decode(file, bytes, &c, &memory, out, &why));
    CHECK(!memcmp(out, (const uint8_t[]){0, 1, 255, 1}, 4));
    CHECK_OK(hri_mask_classes_take(ids, 1, "none", &c, &why));
    CHECK_STATUS(hri_mask_decode(file, bytes, &c, &memory, out, &why), HR_E_FORMAT);
    CHECK_STR(why.text, "pixel (1, 0) has the value 1, but there are 1 classes (0-0)");
    CHECK_STATUS(hri_mask_decode(file, bytes - 20, &c, &memory, out, &why), HR_E_FORMAT);
    free(file);
    CHECK_EQ(hri_ledger_look(hri_pool_ledger(pool)).held, 0);
    hri_pool_unref(pool);
}

static void fill(void *user, uint32_t y, uint8_t *row) {
    (void)user;
    row[0] = (uint8_t)y;
    row[1] = (uint8_t)(1 - y);
}

TEST(masks, an_index_of_a_palette_is_a_class_unless_classes_have_colours) {
    static hri_mask_classes c;
    static const char *const colours[] = {"#000000", "#ffffff"}, *const ids[] = {"0", "1"};
    const uint32_t palette[] = {0xffffff, 0x000000};
    char path[600];
    uint8_t file[1024], out[4];
    hri_prose why = {{0}};
    begin();
    snprintf(path, sizeof path, "%s/p.png", test_folder());
    CHECK_OK(hri_png_write_indexed(path, 2, 2, palette, 2, fill, NULL, &why));
    FILE *f = fopen(path, "rb");
    const size_t bytes = fread(file, 1, sizeof file, f);
    fclose(f);
    CHECK_OK(hri_mask_classes_take(ids, 2, NULL, &c, &why));
    CHECK_OK(hri_mask_decode(file, bytes, &c, &memory, out, &why));
    CHECK(!memcmp(out, (const uint8_t[]){0, 1, 1, 0}, 4));
    CHECK_OK(hri_mask_classes_take(colours, 2, NULL, &c, &why));
    CHECK_OK(hri_mask_decode(file, bytes, &c, &memory, out, &why));
    CHECK(!memcmp(out, (const uint8_t[]){1, 0, 0, 1}, 4));
    hri_pool_unref(pool);
}

/* A BMP of 8 bits with a palette of greys, or of 24 bits, from below. */
static void write_bmp(const char *name, const uint8_t *values, int bits) {
    enum { PALETTE = 256 * 4 };
    const size_t stride = ((size_t)W * (size_t)bits / 8 + 3) / 4 * 4;
    const size_t head = 54 + (bits == 8 ? PALETTE : 0), bytes = head + stride * H;
    uint8_t *file = calloc(1, bytes);
    CHECK(file);
    memcpy(file, "BM", 2);
    const struct {
        size_t at;
        size_t value;
    } words[] = {{2, bytes}, {10, head}, {14, 40}, {18, W}, {22, H}, {26, 1u | (size_t)bits << 16}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        for (int k = 0; k < 4; k++) {
            file[words[i].at + (size_t)k] = (uint8_t)(words[i].value >> 8 * k);
        }
    }
    for (int i = 0; bits == 8 && i < 256; i++) {
        memset(file + 54 + 4 * i, i, 3);
    }
    for (int y = 0; y < H; y++) {
        uint8_t *row = file + head + (size_t)(H - 1 - y) * stride;
        for (int x = 0; x < W; x++) {
            memset(row + (bits == 8 ? x : 3 * x), values[y * W + x], bits == 8 ? 1 : 3);
        }
    }
    test_write(test_folder(), name, file, bytes);
    free(file);
}

TEST(masks, a_bmp_is_a_mask_and_a_jpeg_is_refused) {
    uint8_t mask[H * W], image[H * W * 3];
    hr_error error = {0};
    for (int i = 0; i < 2; i++) {
        char name[64];
        for (int k = 0; k < H * W; k++) {
            mask[k] = (uint8_t)((k / 5 + i) % 3);
            image[3 * k] = (uint8_t)(40 * mask[k]);
            image[3 * k + 1] = image[3 * k + 2] = 9;
        }
        snprintf(name, sizeof name, "d/images/a/%d.png", i);
        write_png(name, image, W, H, RGB);
        snprintf(name, sizeof name, "d/masks/a/%d.bmp", i);
        write_bmp(name, mask, i ? 24 : 8);
    }
    check_moved(" | decode(size=18x24,fit=stretch)", H, W);
    write_png("d/images/a/2.png", image, W, H, RGB);
    test_write(test_folder(), "d/masks/a/2.jpg", "x", 1);
    CHECK(!open_text("", &error));
    CHECK(strstr(error.message, "a/2.jpg: a JPEG cannot be a mask, since its compression changes"));
}

/* ---- files of the corpus ---- */

static char *read_corpus(const char *name, size_t *bytes) {
    char path[512], *data = NULL;
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/mask/%s", HEADROOM_SOURCE_DIR, name);
    CHECK_OK(hri_file_read(path, 1 << 20, &data, bytes, NULL));
    return data;
}

static bool is_missing(const char *name) {
    char text[32];
    return (strstr(name, ".tiff") && !hri_tiff_version(text, sizeof text)) ||
           (strstr(name, ".webp") && !hri_webp_version());
}

enum { CORPUS_W = 37, CORPUS_H = 21, CORPUS_PIXELS = CORPUS_W * CORPUS_H };

/* The mask as classes that a look at it gives, inside 4 MiB; with the nth call refused, if not 0. */
static hr_status decode_with(const char *name, const char *colours, uint64_t nth, uint8_t *out,
                             size_t *classes, hri_prose *why) {
    hri_buffer_pool *small;
    hri_account *account;
    hri_mask_seen seen = {.colour_count = 0};
    static hri_mask_classes c;
    size_t bytes;
    char *data = read_corpus(name, &bytes);
    CHECK_OK(hri_pool_create(4 << 20, &small));
    CHECK_OK(hri_ledger_open(hri_pool_ledger(small), "test", 0, &account));
    hri_ledger_set_user_waiting(hri_pool_ledger(small), true);
    hri_memory inside = {.pool = small, .account = account};
#ifdef HEADROOM_FAULTS
    hri_fault_set(HRI_FAULT_ANY, nth, 0);
#else
    CHECK_EQ(nth, 0);
#endif
    hr_status status = hri_mask_look(data, bytes, &inside, &seen, why);
    if (status == HR_OK) {
        CHECK_OK(hri_mask_classes_settle(NULL, colours, NULL, &seen, &c, why));
        status = hri_mask_decode(data, bytes, &c, &inside, out, why);
        *classes = c.count;
    }
    CHECK_EQ(hri_ledger_look(hri_pool_ledger(small)).held, 0);
    hri_pool_unref(small);
    hri_free(data);
    return status;
}

static hr_status decode_corpus(const char *name, uint8_t *out, size_t *classes, hri_prose *why) {
    return decode_with(name, NULL, 0, out, classes, why);
}

TEST(masks, a_tiff_and_a_lossless_webp_have_the_classes_of_their_png) {
    static const struct {
        const char *name, *png;
    } all[] = {{"ids.tiff", "ids.png"},   {"tiled.tiff", "ids.png"},
               {"white.tiff", "ids.png"}, {"other_end.tiff", "ids.png"},
               {"bit.tiff", "bits.png"},  {"colours.tiff", "colours.png"},
               {"ids.webp", "ids.png"},   {"colours.webp", "colours.png"}};
    uint8_t is[CORPUS_PIXELS], wanted[CORPUS_PIXELS];
    if (is_missing(".tiff") && is_missing(".webp")) {
        test_skip("neither libtiff 4.5 nor libwebp is installed");
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        hri_prose why = {""};
        size_t classes = 0, wanted_classes = 0;
        if (is_missing(all[i].name)) {
            continue;
        }
        CHECK_OK(decode_corpus(all[i].png, wanted, &wanted_classes, &why));
        CHECK_OK(decode_corpus(all[i].name, is, &classes, &why));
        CHECK_EQ(classes, wanted_classes);
        CHECK(!memcmp(is, wanted, sizeof is));
    }
}

TEST(masks, an_index_of_the_palette_of_a_tiff_is_a_class_or_has_its_colour) {
    uint8_t is[CORPUS_PIXELS], wanted[CORPUS_PIXELS];
    size_t classes = 0;
    hri_prose why = {""};
    if (is_missing("indexed.tiff")) {
        test_skip("libtiff 4.5 or later is not installed");
    }
    CHECK_OK(decode_corpus("colours.png", wanted, &classes, &why)); /* black, green, red */
    CHECK_OK(decode_corpus("indexed.tiff", is, &classes, &why));
    CHECK_EQ(classes, 3);
    for (int i = 0; i < CORPUS_PIXELS; i++) { /* in the palette: black, red, green */
        CHECK_EQ(is[i], wanted[i] ? 3 - wanted[i] : 0);
    }
    CHECK_OK(decode_with("indexed.tiff", "ff0000+000000+008040", 0, wanted, &classes, &why));
    for (int i = 0; i < CORPUS_PIXELS; i++) {
        CHECK_EQ(wanted[i], is[i] < 2 ? 1 - is[i] : 2);
    }
}

TEST(masks, formats_that_change_values_are_refused_with_the_reason) {
    static const struct {
        const char *name, *part;
        hr_status status;
    } all[] = {
        {"lossy.webp", "a lossy WebP cannot be a mask, since its compression changes", HR_E_FORMAT},
        {"jpeg.tiff", "compression 7 may change values", HR_E_FORMAT},
        {"sixteen.tiff", "16 bits per channel; a mask has at most 8", HR_E_FORMAT},
        {"two.tiff", "2 channels; a mask has one (values) or three", HR_E_FORMAT},
        {"vast_tile.tiff", "", HR_E_RANGE},
        {"../image/rgb.jpg", "not a PNG, BMP, TIFF or lossless WebP file", HR_E_FORMAT},
        {"../image/lossless.avif", "not a PNG, BMP, TIFF or lossless WebP file", HR_E_FORMAT}};
    uint8_t out[CORPUS_PIXELS];
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        hri_prose why = {""};
        size_t classes = 0;
        if (strcmp(all[i].name, "lossy.webp") != 0 && is_missing(all[i].name)) {
            continue;
        }
        CHECK_STATUS(decode_corpus(all[i].name, out, &classes, &why), all[i].status);
        if (!strstr(why.text, all[i].part)) {
            test_fail(__FILE__, __LINE__, "%s: \"%s\"", all[i].name, why.text);
        }
    }
}

TEST(masks, tiff_and_webp_files_are_found_beside_images) {
    static const char *const files[] = {"ids.tiff", "ids.webp", "tiled.tiff"};
    static const char *const names[] = {"0.tif", "1.webp", "2.tiff"};
    hr_error error = {0};
    hr_element *e;
    uint8_t image[CORPUS_PIXELS * 3] = {0}, wanted[CORPUS_PIXELS];
    size_t bytes, classes;
    hri_prose why = {""};
    if (is_missing(".tiff") || is_missing(".webp")) {
        test_skip("libtiff 4.5 or libwebp is not installed");
    }
    CHECK_OK(decode_corpus("ids.png", wanted, &classes, &why));
    for (int i = 0; i < 3; i++) {
        char name[64], *data = read_corpus(files[i], &bytes);
        snprintf(name, sizeof name, "d/images/%d.png", i);
        write_png(name, image, CORPUS_W, CORPUS_H, RGB);
        snprintf(name, sizeof name, "d/masks/%s", names[i]);
        test_write(test_folder(), name, data, bytes);
        hri_free(data);
    }
    hr_pipeline *p = open_text("", &error);
    CHECK(p);
    int seen = 0;
    for (; hr_pipeline_next(p, &e) == HR_OK; seen++) {
        const hr_field *label = hr_element_find(e, "label");
        CHECK(label->bytes == sizeof wanted && !memcmp(label->data, wanted, sizeof wanted));
        hr_element_unref(e);
    }
    CHECK_EQ(seen, 3);
    hr_pipeline_destroy(p);
    test_write(test_folder(), "d/masks/1.avif", "x", 1);
    snprintf(why.text, sizeof why.text, "%s/d/masks/1.webp", test_folder());
    CHECK_EQ(unlink(why.text), 0);
    CHECK(!open_text("", &error));
    CHECK(strstr(error.message, "1.avif: an AVIF cannot be a mask, since its compression changes"));
}

#ifdef HEADROOM_FAULTS
TEST(masks, whatever_is_refused_while_a_file_is_read_is_a_status) {
    static const char *const names[] = {"tiled.tiff", "ids.tiff", "colours.tiff", "ids.webp"};
    uint8_t out[CORPUS_PIXELS];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (uint64_t nth = 1;; nth++) {
            hri_prose why = {""};
            size_t classes;
            CHECK(nth < 100);
            const hr_status status = decode_with(names[i], NULL, nth, out, &classes, &why);
            const uint64_t delivered = hri_fault_delivered();
            hri_fault_set(HRI_FAULT_ANY, 0, 0);
            if (!delivered) {
                CHECK(status == HR_OK || is_missing(names[i]));
                break;
            }
            CHECK(status == HR_E_NOMEM_HOST || status == HR_E_UNSUPPORTED);
        }
    }
}
#endif
