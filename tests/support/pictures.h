/* Pictures and files for the tests of input pipelines. */
#ifndef HR_TEST_PICTURES_H
#define HR_TEST_PICTURES_H

#include <stddef.h>
#include <stdint.h>

typedef struct test_jpeg_options {
    int quality;     /* 0: 90 */
    int progressive; /* 1: with several scans */
    int grey;
    int cmyk; /* as Adobe writes it: inverted, with its marker */
    int no_subsampling;
} test_jpeg_options;

/* A smooth picture with some detail, (height, width, 3): what it is depends on the seed. */
void test_picture(uint8_t *to, int width, int height, uint64_t seed);
/* Encodes (height, width, 3) pixels; free() the result. */
unsigned char *test_jpeg(const uint8_t *pixels, int width, int height,
                         const test_jpeg_options *options, size_t *bytes);
/* The same from test_picture. */
unsigned char *test_jpeg_of(int width, int height, uint64_t seed, const test_jpeg_options *options,
                            size_t *bytes);
/* A PNG of bytes (height, width, channels of the colour type); free() the result. */
unsigned char *test_png(const uint8_t *rows, int width, int height, int depth, int colour_type,
                        int interlaced, size_t *bytes);

/* A new folder that is removed, with what is in it, when the case ends.  Static storage. */
const char *test_folder(void);
/* Writes FOLDER/name, making folders in the name. */
void test_write(const char *folder, const char *name, const void *data, size_t bytes);

#endif
