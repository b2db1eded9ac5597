/* Pictures: a view decoded straight is what a full decode and a plain resize give, within what JPEG's own rounding
 * allows; every kind of file is read or refused, never worse. */
#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include "data/image/resize_lanes.h"
#include "data/image/image.h"
#include "pictures.h"
#include "test.h"

static hri_buffer_pool *pool;
static hri_memory memory;

static void begin(uint64_t budget) {
    CHECK_OK(hri_pool_create(budget, &pool));
    hri_account *account;
    CHECK_OK(hri_ledger_open(hri_pool_ledger(pool), "test", 0, &account));
    hri_ledger_set_user_waiting(hri_pool_ledger(pool), true); /* nobody else will free anything */
    memory = (hri_memory){.pool = pool, .account = account};
}

static void end(void) {
    CHECK_EQ(hri_ledger_look(hri_pool_ledger(pool)).held, 0);
    hri_pool_unref(pool);
}

static hr_status decode(const void *data, size_t bytes, const hri_view *view, uint8_t *out,
                        hri_prose *why) {
    hri_image_info info;
    const hr_status status = hri_image_probe(data, bytes, &info, why);
    return status == HR_OK ? hri_image_decode(data, bytes, &info, view, &memory, out, why) : status;
}

/* The plain way, in double: each output pixel is the mean of what it covers (or the blend around its centre). */
static double plain(const uint8_t *in, int w, int h, int channels, int c, double x0, double x1,
                    double y0, double y1) {
    if (x1 - x0 <= 1 || y1 - y0 <= 1) { /* bilinear, at the centre */
        const double x = (x0 + x1) / 2 - 0.5, y = (y0 + y1) / 2 - 0.5;
        double sum = 0;
        for (int k = 0; k < 4; k++) {
            const double fx = floor(x) + (k & 1), fy = floor(y) + (k >> 1);
            const double wx = 1 - fabs(x - fx), wy = 1 - fabs(y - fy);
            const int px = fx < 0 ? 0 : fx > w - 1 ? w - 1 : (int)fx;
            const int py = fy < 0 ? 0 : fy > h - 1 ? h - 1 : (int)fy;
            sum += wx * wy * in[(py * w + px) * channels + c];
        }
        return sum;
    }
    double sum = 0, area = 0;
    for (int y = (int)floor(y0); y < ceil(y1) && y < h; y++) {
        for (int x = (int)floor(x0); x < ceil(x1) && x < w; x++) {
            const double part = (fmin(x + 1, x1) - fmax(x, x0)) * (fmin(y + 1, y1) - fmax(y, y0));
            sum += part * in[(y * w + x) * channels + c];
            area += part;
        }
    }
    return sum / area;
}

TEST(resize, is_the_mean_of_what_a_pixel_covers) {
    begin(16 << 20);
    enum { W = 61, H = 47 };
    uint8_t in[W * H * 3], out[64 * 64 * 3];
    uint64_t seed = test_seed();
    for (int i = 0; i < W * H * 3; i++) {
        in[i] = (uint8_t)test_random(&seed);
    }
    for (int round = 0; round < 60; round++) {
        const uint32_t ow = 1 + (uint32_t)(test_random(&seed) % 64),
                       oh = 1 + (uint32_t)(test_random(&seed) % 64);
        const double w = 1 + (double)(test_random(&seed) % 600) / 10,
                     h = 1 + (double)(test_random(&seed) % 460) / 10;
        const double x = (W - w) * (double)(test_random(&seed) % 100) / 99;
        const double y = (H - h) * (double)(test_random(&seed) % 100) / 99;
        const bool flip = test_random(&seed) % 2;
        const uint32_t channels = test_random(&seed) % 2 ? 3 : 1;
        /* both directions shrink, or both grow, so that the plain way above is the same rule */
        if ((w / ow > 1) != (h / oh > 1)) {
            continue;
        }
        hri_resizer r;
        CHECK_OK(hri_resizer_init(&r, &memory, x, y, w, h, W, H, ow, oh, channels, HRI_FILTER_AUTO,
                                  flip, out));
        for (uint32_t k = 0; k < H; k++) {
            memcpy(hri_resizer_row(&r), in + k * W * channels, W * channels);
            hri_resizer_done_row(&r);
        }
        CHECK(hri_resizer_is_finished(&r));
        hri_resizer_deinit(&r);
        for (uint32_t i = 0; i < oh; i++) {
            for (uint32_t k = 0; k < ow; k++) {
                for (uint32_t c = 0; c < channels; c++) {
                    const double want =
                        plain(in, W, H, (int)channels, (int)c, x + k * w / ow, x + (k + 1) * w / ow,
                              y + i * h / oh, y + (i + 1) * h / oh);
                    const uint32_t at = flip ? ow - 1 - k : k;
                    const double is = out[(i * ow + at) * channels + c];
                    if (fabs(is - want) > 1.01) {
                        test_fail(__FILE__, __LINE__, "(%u,%u) of %ux%u is %g, not %g", k, i, ow,
                                  oh, is, want);
                    }
                }
            }
        }
    }
    CHECK(true);
    end();
}

/* What the processor's vectors give is what whole numbers give, up to the largest. */
TEST(resize, lanes_are_exact) {
    uint64_t seed = test_seed();
    enum { ROWS = 9, LONG = 64 };
    uint8_t ring[ROWS * LONG], pixel[3];
    uint16_t sums[LONG], weights[ROWS], pixels[3 * ROWS + 1];
    for (uint32_t count = 1; count <= ROWS; count++) {
        for (int round = 0; round < 20; round++) {
            uint32_t left = 1 << 14;
            memset(weights, 0, sizeof weights);
            for (uint32_t k = 0; k < count; k++) {
                const uint32_t some =
                    k + 1 == count ? left : (uint32_t)test_random(&seed) % (left + 1);
                weights[k] = (uint16_t)some;
                left -= some;
            }
            for (uint32_t i = 0; i < sizeof ring; i++) {
                ring[i] = round ? (uint8_t)test_random(&seed) : 255;
            }
            for (uint32_t i = 0; i < 3 * ROWS + 1; i++) {
                pixels[i] = round ? (uint16_t)(test_random(&seed) % 65281) : 65280;
            }
            const uint32_t first = (uint32_t)test_random(&seed) % ROWS;
            const hri_ring r = {ring + first * LONG, ring, ring + sizeof ring, LONG};
            hri_lanes_rows(sums, &r, 16, weights, count);
            for (uint32_t i = 0; i < HRI_LANES; i++) {
                uint32_t want = 32;
                for (uint32_t k = 0; k < count; k++) {
                    want += (uint32_t)weights[k] * ring[(first + k) % ROWS * LONG + 16 + i];
                }
                CHECK_EQ(sums[i], want >> 6);
            }
            hri_lanes_pixel(pixel, pixels, weights, count);
            for (uint32_t c = 0; c < 3; c++) {
                uint32_t want = 1u << 21;
                for (uint32_t k = 0; k < count; k++) {
                    want += (uint32_t)weights[k] * pixels[3 * k + c];
                }
                CHECK_EQ(pixel[c], want >> 22);
            }
            const uint32_t colours = hri_lanes_four(pixels, weights);
            CHECK(count > 4 || !memcmp(&colours, pixel, 3));
        }
    }
}

TEST(resize, a_flat_colour_stays_what_it_is) {
    begin(1 << 20);
    for (unsigned value = 0; value < 256; value += 5) {
        uint8_t out[17 * 13];
        hri_resizer r;
        CHECK_OK(hri_resizer_init(&r, &memory, 0.3, 0.7, 90.4, 70.2, 100, 80, 17, 13, 1,
                                  HRI_FILTER_AREA, false, out));
        for (int y = 0; y < 80; y++) {
            memset(hri_resizer_row(&r), (int)value, 100);
            hri_resizer_done_row(&r);
        }
        hri_resizer_deinit(&r);
        for (int i = 0; i < 17 * 13; i++) {
            CHECK_EQ(out[i], value);
        }
    }
    end();
}

static double mean_difference(const uint8_t *a, const uint8_t *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += fabs((double)a[i] - b[i]);
    }
    return sum / (double)n;
}

/* A view of a JPEG against the pixels it was made from. */
static void check_jpeg(int width, int height, const test_jpeg_options *o, hri_view v,
                       double tolerance) {
    uint8_t *pixels = malloc((size_t)width * (size_t)height * 3);
    test_picture(pixels, width, height, 7);
    size_t bytes;
    unsigned char *file = test_jpeg(pixels, width, height, o, &bytes);
    const size_t n = (size_t)v.out_width * v.out_height * v.channels;
    uint8_t *out = malloc(n), *want = malloc(n);
    hri_prose why = {{0}};
    const hr_status status = decode(file, bytes, &v, out, &why);
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", hr_status_name(status), why.text);
    }
    for (uint32_t y = 0; y < v.out_height; y++) {
        for (uint32_t x = 0; x < v.out_width; x++) {
            const double sx = v.width / v.out_width, sy = v.height / v.out_height;
            double rgb[3];
            for (int c = 0; c < 3; c++) {
                rgb[c] = plain(pixels, width, height, 3, c, v.x + x * sx, v.x + (x + 1) * sx,
                               v.y + y * sy, v.y + (y + 1) * sy);
            }
            uint8_t *to =
                want + (y * v.out_width + (v.flip ? v.out_width - 1 - x : x)) * v.channels;
            if (v.channels == 1) {
                to[0] = (uint8_t)(0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] + 0.5);
            } else {
                for (int c = 0; c < 3; c++) {
                    to[c] = (uint8_t)(rgb[c] + 0.5);
                }
            }
        }
    }
    const double difference = mean_difference(out, want, n);
    if (difference > tolerance) {
        test_fail(__FILE__, __LINE__, "%dx%d view (%g,%g,%g,%g) to %ux%u differs by %g on average",
                  width, height, v.x, v.y, v.width, v.height, v.out_width, v.out_height,
                  difference);
    }
    CHECK(difference <= tolerance);
    free(out);
    free(want);
    free(file);
    free(pixels);
}

TEST(jpeg, a_view_is_what_the_full_picture_would_give) {
    begin(64 << 20);
    const test_jpeg_options fine = {.quality = 98, .no_subsampling = 1}, usual = {.quality = 92};
    const test_jpeg_options progressive = {.quality = 92, .progressive = 1};
    check_jpeg(500, 375, &fine, (hri_view){0, 0, 500, 375, 500, 375, 3, HRI_FILTER_AUTO, false},
               2.5);
    check_jpeg(500, 375, &usual, (hri_view){0, 0, 500, 375, 224, 224, 3, HRI_FILTER_AUTO, false},
               4);
    check_jpeg(500, 375, &usual, (hri_view){101, 53, 230, 240, 224, 224, 3, HRI_FILTER_AUTO, true},
               5);
    check_jpeg(1600, 1200, &usual,
               (hri_view){333, 222, 900, 910, 224, 224, 3, HRI_FILTER_AUTO, false}, 4);
    check_jpeg(1600, 1200, &progressive,
               (hri_view){5, 700, 460, 470, 224, 224, 3, HRI_FILTER_AUTO, false}, 4);
    check_jpeg(2001, 1501, &usual,
               (hri_view){1200, 900, 800, 600, 64, 48, 3, HRI_FILTER_AUTO, true}, 4);
    check_jpeg(333, 77, &usual, (hri_view){100, 20, 40, 30, 96, 96, 3, HRI_FILTER_AUTO, false}, 5);
    check_jpeg(640, 480, &usual, (hri_view){0, 0, 640, 480, 224, 224, 1, HRI_FILTER_AUTO, false},
               3);
    check_jpeg(640, 480, &(test_jpeg_options){.quality = 95, .cmyk = 1},
               (hri_view){0, 0, 640, 480, 160, 120, 3, HRI_FILTER_AUTO, false}, 5);
    end();
}

TEST(jpeg, a_grey_one_becomes_three_equal_channels) {
    begin(16 << 20);
    size_t bytes;
    unsigned char *file = test_jpeg_of(320, 240, 3, &(test_jpeg_options){.grey = 1}, &bytes);
    uint8_t out[64 * 64 * 3];
    CHECK_OK(decode(file, bytes, &(hri_view){0, 0, 320, 240, 64, 64, 3, HRI_FILTER_AUTO, false},
                    out, NULL));
    for (int i = 0; i < 64 * 64; i++) {
        CHECK(out[3 * i] == out[3 * i + 1] && out[3 * i] == out[3 * i + 2]);
    }
    free(file);
    end();
}

TEST(jpeg, cut_anywhere_it_is_refused_or_the_view_was_whole) {
    begin(32 << 20);
    const hri_view v = {0, 0, 200, 150, 64, 64, 3, HRI_FILTER_AUTO, false};
    uint8_t whole[64 * 64 * 3], out[64 * 64 * 3];
    for (int progressive = 0; progressive < 2; progressive++) {
        size_t bytes;
        unsigned char *file =
            test_jpeg_of(200, 150, 5, &(test_jpeg_options){.progressive = progressive}, &bytes);
        CHECK_OK(decode(file, bytes, &v, whole, NULL));
        int refused = 0;
        for (size_t cut = 0; cut < bytes; cut += 1 + bytes / 97) {
            hri_prose why = {{0}};
            const hr_status status = decode(file, cut, &v, out, &why);
            refused += status != HR_OK;
            if (status == HR_OK) {
                CHECK(memcmp(out, whole, sizeof out) == 0);
            } else {
                CHECK(status == HR_E_FORMAT || status == HR_E_EOF);
            }
        }
        CHECK_LE(90, refused);
        free(file);
    }
    end();
}

TEST(jpeg, damaged_anywhere_nothing_worse_than_an_error_happens) {
    begin(32 << 20);
    uint8_t out[64 * 64 * 3];
    uint64_t seed = test_seed();
    int refused = 0;
    for (int round = 0; round < 400; round++) {
        size_t bytes;
        unsigned char *file =
            test_jpeg_of(160, 120, 5, &(test_jpeg_options){.progressive = round & 1}, &bytes);
        for (uint64_t k = 0; k < 1 + test_random(&seed) % 8; k++) {
            file[test_random(&seed) % bytes] = (unsigned char)test_random(&seed);
        }
        hri_image_info info;
        if (hri_image_probe(file, bytes, &info, NULL) == HR_OK) {
            const hri_view v = {0, 0, info.width, info.height, 64, 64, 3, HRI_FILTER_AUTO, false};
            refused += hri_image_decode(file, bytes, &info, &v, &memory, out, NULL) != HR_OK;
        } else {
            refused++;
        }
        CHECK_LE(hri_ledger_look(hri_pool_ledger(pool)).held, 0);
        free(file);
    }
    CHECK_LE(1, refused);
    end();
}

TEST(jpeg, a_progressive_one_larger_than_the_budget_is_refused) {
    begin(8 << 20);
    size_t bytes;
    unsigned char *file =
        test_jpeg_of(3000, 2000, 5, &(test_jpeg_options){.progressive = 1}, &bytes);
    uint8_t out[64 * 64 * 3];
    CHECK_STATUS(decode(file, bytes,
                        &(hri_view){0, 0, 3000, 2000, 64, 64, 3, HRI_FILTER_AUTO, false}, out,
                        NULL),
                 HR_E_RANGE);
    free(file);
    file = test_jpeg_of(3000, 2000, 5, NULL, &bytes); /* the ordinary kind needs only some rows */
    CHECK_OK(decode(file, bytes, &(hri_view){0, 0, 3000, 2000, 64, 64, 3, HRI_FILTER_AUTO, false},
                    out, NULL));
    free(file);
    CHECK_LE(hri_ledger_look(hri_pool_ledger(pool)).peak, 8 << 20);
    end();
}

static void check_png(int depth, int colour, int interlaced, const char *what) {
    enum { W = 90, H = 70 };
    static uint8_t rows[W * H * 8];
    uint64_t seed = 3;
    for (size_t i = 0; i < sizeof rows; i++) {
        rows[i] = (uint8_t)test_random(&seed);
    }
    size_t bytes;
    unsigned char *file = test_png(rows, W, H, depth, colour, interlaced, &bytes);
    static uint8_t out[W * H * 3];
    hri_prose why = {{0}};
    const hr_status status =
        decode(file, bytes, &(hri_view){0, 0, W, H, W, H, 3, HRI_FILTER_AUTO, false}, out, &why);
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", what, why.text);
    }
    if (depth == 8 && colour == PNG_COLOR_TYPE_RGB) {
        CHECK(memcmp(out, rows, sizeof out) == 0);
    }
    if (depth == 8 && colour == PNG_COLOR_TYPE_GRAY) {
        for (int i = 0; i < W * H; i++) {
            CHECK(out[3 * i] == rows[i] && out[3 * i + 2] == rows[i]);
        }
    }
    if (depth == 16 && colour == PNG_COLOR_TYPE_RGB) {
        for (int i = 0; i < W * H * 3; i++) {
            const double want = (rows[2 * i] * 256 + rows[2 * i + 1]) / 257.0;
            CHECK(fabs(out[i] - want) <= 0.51);
        }
    }
    if (depth == 8 && colour == PNG_COLOR_TYPE_RGB_ALPHA) {
        for (int i = 0; i < W * H; i++) {
            CHECK(memcmp(out + 3 * i, rows + 4 * i, 3) == 0);
        }
    }
    uint8_t small[16 * 16];
    CHECK_OK(decode(file, bytes, &(hri_view){10, 20, 30, 30, 16, 16, 1, HRI_FILTER_AREA, true},
                    small, &why));
    for (size_t cut = 0; cut < bytes - 20; cut += 1 + bytes / 31) {
        const hr_status cut_status =
            decode(file, cut, &(hri_view){0, 0, W, H, W, H, 3, HRI_FILTER_AUTO, false}, out, &why);
        CHECK(cut_status == HR_E_FORMAT || cut_status == HR_E_EOF);
    }
    free(file);
}

TEST(png, every_kind_is_read) {
    begin(16 << 20);
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        check_png(8, PNG_COLOR_TYPE_RGB, interlaced, "rgb");
        check_png(16, PNG_COLOR_TYPE_RGB, interlaced, "rgb of 16 bits");
        check_png(8, PNG_COLOR_TYPE_GRAY, interlaced, "grey");
        check_png(1, PNG_COLOR_TYPE_GRAY, interlaced, "black and white");
        check_png(4, PNG_COLOR_TYPE_PALETTE, interlaced, "palette");
        check_png(8, PNG_COLOR_TYPE_RGB_ALPHA, interlaced, "with transparency");
        check_png(16, PNG_COLOR_TYPE_GRAY_ALPHA, interlaced, "grey of 16 bits with transparency");
    }
    end();
}
