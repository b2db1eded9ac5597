/* Pictures and files for the tests of input pipelines: see pictures.h. */
#include "pictures.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <jpeglib.h>
#include <png.h>
#include "test.h"

void test_picture(uint8_t *to, int width, int height, uint64_t seed) {
    const double a = (double)(test_random(&seed) % 100) / 100,
                 b = (double)(test_random(&seed) % 100) / 100;
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++, to += 3) {
            const double u = (double)x / width * 6.28, v = (double)y / height * 6.28;
            to[0] = (uint8_t)(127 + 100 * sin(u * (1 + 2 * a) + v));
            to[1] = (uint8_t)(127 + 100 * cos(v * (1 + 2 * b) - u));
            to[2] = (uint8_t)(((x / 8 + y / 8) & 1) * 40 + 60 * a + 60);
        }
    }
}

unsigned char *test_jpeg(const uint8_t *pixels, int width, int height,
                         const test_jpeg_options *options, size_t *bytes) {
    const test_jpeg_options none = {0};
    const test_jpeg_options *o = options ? options : &none;
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    unsigned char *out = NULL;
    unsigned long size = 0;
    jpeg_mem_dest(&c, &out, &size);
    c.image_width = (JDIMENSION)width;
    c.image_height = (JDIMENSION)height;
    c.input_components = o->cmyk ? 4 : 3;
    c.in_color_space = o->cmyk ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(&c);
    if (o->grey) {
        jpeg_set_colorspace(&c, JCS_GRAYSCALE);
    }
    if (o->no_subsampling && !o->grey) {
        c.comp_info[0].h_samp_factor = c.comp_info[0].v_samp_factor = 1;
    }
    jpeg_set_quality(&c, o->quality ? o->quality : 90, TRUE);
    if (o->progressive) {
        jpeg_simple_progression(&c);
    }
    c.write_Adobe_marker = o->cmyk ? TRUE : c.write_Adobe_marker;
    jpeg_start_compress(&c, TRUE);
    unsigned char *row = malloc((size_t)width * 4);
    for (int y = 0; y < height; y++) {
        const uint8_t *from = pixels + (size_t)y * (size_t)width * 3;
        if (o->cmyk) {
            for (int x = 0; x < width; x++) { /* inverted inks without black: c = red */
                memcpy(row + 4 * x, from + 3 * x, 3);
                row[4 * x + 3] = 255;
            }
        } else {
            memcpy(row, from, (size_t)width * 3);
        }
        JSAMPROW rows[1] = {row};
        jpeg_write_scanlines(&c, rows, 1);
    }
    free(row);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    *bytes = size;
    return out;
}

unsigned char *test_jpeg_of(int width, int height, uint64_t seed, const test_jpeg_options *options,
                            size_t *bytes) {
    uint8_t *pixels = malloc((size_t)width * (size_t)height * 3);
    test_picture(pixels, width, height, seed);
    unsigned char *out = test_jpeg(pixels, width, height, options, bytes);
    free(pixels);
    return out;
}

typedef struct sink {
    unsigned char *data;
    size_t bytes;
} sink;

static void on_write(png_structp png, png_bytep data, size_t bytes) {
    sink *s = png_get_io_ptr(png);
    s->data = realloc(s->data, s->bytes + bytes);
    memcpy(s->data + s->bytes, data, bytes);
    s->bytes += bytes;
}

static void on_flush(png_structp png) {
    (void)png;
}

unsigned char *test_png(const uint8_t *rows, int width, int height, int depth, int colour_type,
                        int interlaced, size_t *bytes) {
    sink s = {0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &s, on_write, on_flush);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, depth, colour_type,
                 interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (colour_type == PNG_COLOR_TYPE_PALETTE) {
        png_color palette[256];
        for (int i = 0; i < 256; i++) {
            palette[i] = (png_color){(png_byte)i, (png_byte)(255 - i), (png_byte)(i / 2)};
        }
        png_set_PLTE(png, info, palette, 1 << depth);
    }
    png_write_info(png, info);
    const size_t row = png_get_rowbytes(png, info);
    png_bytep *all = malloc((size_t)height * sizeof *all);
    for (int y = 0; y < height; y++) {
        all[y] = (png_bytep)(uintptr_t)rows + (size_t)y * row;
    }
    png_write_image(png, all);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(all);
    *bytes = s.bytes;
    return s.data;
}

/* ---- files ---- */

static char folder[64];

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void remove_folder(void) {
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *test_folder(void) {
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/headroom-test-XXXXXX");
        if (!mkdtemp(folder)) {
            test_fail(__FILE__, __LINE__, "no folder could be made");
        }
        atexit(remove_folder);
    }
    return folder;
}

void test_write(const char *in, const char *name, const void *data, size_t bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", in, name);
    for (char *p = path + strlen(in) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(path, 0777);
    }
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0) {
        test_fail(__FILE__, __LINE__, "%s could not be written", path);
    }
}
