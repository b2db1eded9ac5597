/* BMP, WebP, TIFF and AVIF: the pixels of the PNG of the same picture, every kind or a refusal, inside a budget.
 *
 * The files were written by Pillow 11 and avifenc 0.11 (16 bits, 32 bits from above and OS/2's header by hand); tests/fuzz/image.c begins with
 * them too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "data/image/image.h"
#include "test.h"

enum { W = 13, H = 9, BYTES = W * H * 3 };

static hri_buffer_pool *pool;
static hri_memory memory;

static void begin(uint64_t budget) {
    hri_account *account;
    CHECK_OK(hri_pool_create(budget, &pool));
    CHECK_OK(hri_ledger_open(hri_pool_ledger(pool), "test", 0, &account));
    hri_ledger_set_user_waiting(hri_pool_ledger(pool), true); /* nobody else will free anything */
    memory = (hri_memory){.pool = pool, .account = account};
}

static void end(void) {
    CHECK_EQ(hri_ledger_look(hri_pool_ledger(pool)).held, 0);
    hri_pool_unref(pool);
}

static hr_status decode(const char *name, uint32_t channels, hri_view v, uint8_t *out,
                        hri_prose *why) {
    char path[512], *bytes = NULL;
    size_t count = 0;
    hri_image_info info;
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/image/%s", HEADROOM_SOURCE_DIR, name);
    CHECK_OK(hri_file_read(path, 1 << 20, &bytes, &count, NULL));
    v.channels = channels;
    CHECK(hri_image_is(bytes, 16) && hri_image_is_name(name));
    hr_status status = hri_image_probe(bytes, count, &info, why);
    if (status == HR_OK) {
        status = hri_image_decode(bytes, count, &info, &v, &memory, out, why);
    }
    hri_free(bytes);
    return status;
}

static const hri_view whole = {.width = W, .height = H, .out_width = W, .out_height = H};

static bool has_webp(void) {
    return hri_webp_version() != 0;
}

static bool has_tiff(void) {
    char text[32];
    return hri_tiff_version(text, sizeof text);
}

static bool has_avif(void) {
    char text[32];
    return hri_avif_version(text, sizeof text);
}

/* Of a picture of this name. */
static bool is_missing(const char *name) {
    return (strstr(name, ".webp") && !has_webp()) || (strstr(name, ".tiff") && !has_tiff()) ||
           (strstr(name, ".avif") && !has_avif());
}

static void same(const char *name, const char *png, int far) {
    static const hri_view part = {
        .x = 2.5, .y = 1, .width = 9, .height = 7, .out_width = 5, .out_height = 4, .flip = true};
    uint8_t is[BYTES], wanted[BYTES];
    hri_prose why = {""};
    for (int k = 0; k < 4; k++) {
        const uint32_t channels = k & 1 ? 1 : 3;
        const hri_view v = k < 2 ? whole : part;
        const size_t count = (size_t)v.out_width * v.out_height * channels;
        CHECK_OK(decode(png, channels, v, wanted, &why));
        CHECK_OK(decode(name, channels, v, is, &why));
        for (size_t i = 0; i < count; i++) {
            if (abs(is[i] - wanted[i]) > far + (channels == 1)) {
                test_fail(__FILE__, __LINE__, "%s: byte %zu is %d, not %d", name, i, is[i],
                          wanted[i]);
            }
        }
    }
}

TEST(image_kinds, a_bmp_has_the_pixels_of_its_png) {
    begin(1 << 20);
    same("rgb.bmp", "small.png", 0);
    same("above.bmp", "small.png", 0);
    same("old.bmp", "small.png", 0);
    same("narrow.bmp", "small.png", 7);
    same("palette.bmp", "quantized.png", 0);
    same("bit.bmp", "bits.png", 0);
    end();
}

TEST(image_kinds, a_webp_has_the_pixels_of_its_png) {
    if (!has_webp()) {
        test_skip("libwebp is not installed");
    }
    begin(2 << 20);
    same("lossless.webp", "small.png", 0);
    same("alpha.webp", "small.png", 0);
    same("lossy.webp", "small.png", 120); /* chroma of every second pixel */
    end();
}

TEST(image_kinds, a_tiff_has_the_pixels_of_its_png) {
    if (!has_tiff()) {
        test_skip("libtiff 4.5 or later is not installed");
    }
    begin(2 << 20);
    same("plain.tiff", "small.png", 0);
    same("lzw.tiff", "small.png", 0);
    same("deflate.tiff", "small.png", 0);
    same("alpha.tiff", "small.png", 0);     /* its transparency changes no colour */
    same("other_end.tiff", "small.png", 0); /* written by hand */
    end();
}

TEST(image_kinds, an_avif_has_the_pixels_of_its_png) {
    if (!has_avif()) {
        test_skip("libavif with dav1d is not installed");
    }
    begin(4 << 20);
    same("lossless.avif", "small.png", 0);
    same("alpha.avif", "small.png", 0);
    same("ten.avif", "small.png", 2);
    same("lossy.avif", "small.png", 120); /* chroma of every second pixel */
    end();
}

TEST(image_kinds, the_size_of_an_avif_is_known_without_the_library) {
    char path[512], *bytes = NULL;
    size_t count = 0;
    hri_image_info info;
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/image/alpha.avif", HEADROOM_SOURCE_DIR);
    CHECK_OK(hri_file_read(path, 1 << 20, &bytes, &count, NULL));
    for (size_t n = 12; n < 300; n++) { /* whatever is cut off: more bytes are wanted */
        CHECK_STATUS(hri_image_probe(bytes, n, &info, NULL), HR_E_EOF);
    }
    CHECK_OK(hri_image_probe(bytes, count, &info, NULL));
    CHECK(info.format == HRI_IMAGE_AVIF && info.width == W && info.height == H);
    CHECK(info.whole_bytes > (uint64_t)W * H * 3 && info.whole_bytes < 4 << 20);
    hri_free(bytes);
}

TEST(image_kinds, the_directory_of_a_tiff_is_found_wherever_it_is) {
    char path[512], *bytes = NULL;
    size_t count = 0;
    uint64_t at = 0;
    hri_image_info info;
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/image/other_end.tiff", HEADROOM_SOURCE_DIR);
    CHECK_OK(hri_file_read(path, 1 << 20, &bytes, &count, NULL));
    CHECK_STATUS(hri_image_probe(bytes, 100, &info, NULL), HR_E_EOF);
    CHECK(hri_tiff_directory(bytes, 16, &at) && at > 100 && at < count);
    CHECK_OK(hri_tiff_probe_at(bytes, bytes + at, count - (size_t)at, &info, NULL));
    CHECK(info.width == W && info.height == H);
    hri_free(bytes);
}

TEST(image_kinds, what_cannot_be_read_is_refused_with_the_reason) {
    static const struct {
        const char *name, *part;
        hr_status status;
    } all[] = {{"rle.bmp", "compressed", HR_E_FORMAT},
               {"cut.bmp", "truncated", HR_E_FORMAT},
               {"huge.bmp", "truncated", HR_E_FORMAT},
               {"moving.webp", "animations", HR_E_FORMAT},
               {"cut.webp", "truncated", HR_E_FORMAT},
               {"huge.webp", "", HR_E_RANGE},
               {"cut.tiff", "", HR_E_EOF},
               {"tall.tiff", "truncated", HR_E_FORMAT},
               {"huge.tiff", "", HR_E_RANGE},
               {"moving.avif", "animations", HR_E_FORMAT},
               {"grid.avif", "grids", HR_E_FORMAT},
               {"other.avif", "another way than AV1", HR_E_FORMAT},
               {"cut.avif", "truncated", HR_E_FORMAT},
               {"lying.avif", "damaged", HR_E_FORMAT}, /* the frame is larger than the file says */
               {"huge.avif", "", HR_E_RANGE}};
    uint8_t out[BYTES];
    begin(4 << 20);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        hri_prose why = {""};
        if (is_missing(all[i].name)) {
            continue;
        }
        CHECK_STATUS(decode(all[i].name, 3, whole, out, &why), all[i].status);
        CHECK(strstr(why.text, all[i].part));
    }
    end();
}

#ifdef HEADROOM_FAULTS
TEST(image_kinds, whatever_is_refused_on_the_way_is_a_status) {
    static const char *const names[] = {"rgb.bmp", "lossless.webp", "lzw.tiff", "lossless.avif"};
    uint8_t out[BYTES];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (uint64_t nth = 1;; nth++) {
            CHECK(nth < 100);
            begin(4 << 20);
            hri_prose why = {""};
            char path[512], *bytes = NULL;
            size_t count = 0;
            hri_image_info info;
            snprintf(path, sizeof path, "%s/tests/fuzz/corpus/image/%s", HEADROOM_SOURCE_DIR,
                     names[i]);
            CHECK_OK(hri_file_read(path, 1 << 20, &bytes, &count, NULL));
            CHECK_OK(hri_image_probe(bytes, count, &info, &why));
            hri_view v = whole;
            v.channels = 3;
            hri_fault_set(HRI_FAULT_ANY, nth, 0);
            const hr_status status = hri_image_decode(bytes, count, &info, &v, &memory, out, &why);
            const uint64_t delivered = hri_fault_delivered();
            hri_fault_set(HRI_FAULT_ANY, 0, 0);
            hri_free(bytes);
            end();
            if (!delivered) {
                CHECK(status == HR_OK || is_missing(names[i]));
                break;
            }
            CHECK(status == HR_E_NOMEM_HOST || status == HR_E_UNSUPPORTED);
        }
    }
}
#endif
