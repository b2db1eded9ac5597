/* Pictures: decoding a part of one straight to the size that is wanted.
 *
 * A view says which rectangle of the picture becomes an output of which size.  The decoder does no more than it must:
 * a JPEG is decoded at the smallest scale (1/8, 1/4, 1/2 or 1) that still covers the output, columns beside the
 * rectangle are cut off before colour conversion, rows above are skipped and rows below never read.  Rows go through
 * a resizer as they come (resize.h), so a decoded picture never lies in memory as a whole.
 *
 * All memory, the libraries' included, is charged through the hri_memory that is passed in. */
#ifndef HRI_DATA_IMAGE_H
#define HRI_DATA_IMAGE_H

#include "data/element.h"
#include "data/image/resize.h"

typedef enum hri_image_format { HRI_IMAGE_JPEG, HRI_IMAGE_PNG } hri_image_format;

typedef struct hri_image_info {
    hri_image_format format;
    uint32_t width, height;
    uint64_t
        whole_bytes; /* what must lie in memory as a whole: coefficients of a progressive JPEG, an interlaced PNG */
} hri_image_info;

typedef struct hri_view {
    double x, y, width, height; /* in pixels of the picture */
    uint32_t out_width, out_height;
    uint32_t channels; /* 1: grey, 3: red, green, blue */
    hri_filter filter;
    bool flip; /* mirror left and right */
} hri_view;

/* What the first bytes say.  HR_E_FORMAT: no JPEG or PNG; HR_E_EOF: the header is longer than these bytes.  The reason
 * goes to why. */
HR_MUST_CHECK hr_status hri_image_probe(const void *data, size_t bytes, hri_image_info *out,
                                        hri_prose *why);
/* Decodes the view into out[out_height][out_width][channels].  Failures of the data are HR_E_FORMAT; those of
 * hri_memory_buffer pass through. */
HR_MUST_CHECK hr_status hri_image_decode(const void *data, size_t bytes, const hri_image_info *info,
                                         const hri_view *view, hri_memory *memory, uint8_t *out,
                                         hri_prose *why);
/* The most memory that decoding such a picture takes beside its input and output. */
uint64_t hri_image_scratch_bytes(uint32_t width, uint32_t height, uint64_t whole_bytes,
                                 uint32_t out_width, uint32_t out_height);

/* The two decoders behind the calls above. */
HR_MUST_CHECK hr_status hri_jpeg_probe(const void *data, size_t bytes, hri_image_info *out,
                                       hri_prose *why);
HR_MUST_CHECK hr_status hri_jpeg_decode(const void *data, size_t bytes, const hri_view *view,
                                        hri_memory *memory, uint8_t *out, hri_prose *why);
HR_MUST_CHECK hr_status hri_png_probe(const void *data, size_t bytes, hri_image_info *out,
                                      hri_prose *why);
HR_MUST_CHECK hr_status hri_png_decode(const void *data, size_t bytes, const hri_view *view,
                                       hri_memory *memory, uint8_t *out, hri_prose *why);
/* Pixels as they are stored: nothing is scaled, and a palette stays numbers. */
typedef enum hri_png_kind { HRI_PNG_GREY, HRI_PNG_INDEXED, HRI_PNG_COLOUR } hri_png_kind;

typedef struct hri_png_rows {
    uint32_t width, height;
    hri_png_kind kind;
    uint32_t palette[256]; /* 0xrrggbb; of INDEXED, else the greys */
} hri_png_rows;

/* A row: one byte a pixel, or three of COLOUR. */
typedef hr_status hri_png_row_fn(void *user, const hri_png_rows *of, uint32_t y,
                                 const uint8_t *row);
/* Gives the rows of a PNG in order.  HR_E_FORMAT: no PNG, or one with 16 bits a channel; what fn returns ends it. */
HR_MUST_CHECK hr_status hri_png_each_row(const void *data, size_t bytes, hri_memory *memory,
                                         hri_png_row_fn *fn, void *user, hri_prose *why);

/* Writes a PNG of numbers with a palette (0xrrggbb), row by row: fn fills one row of `width` bytes. */
typedef void hri_png_fill_fn(void *user, uint32_t y, uint8_t *row);
HR_MUST_CHECK hr_status hri_png_write_indexed(const char *path, uint32_t width, uint32_t height,
                                              const uint32_t *palette, uint32_t count,
                                              hri_png_fill_fn *fn, void *user, hri_prose *why);
/* Writes an 8-bit RGB picture as a PNG file. */
HR_MUST_CHECK hr_status hri_png_write(const char *path, const uint8_t *pixels, uint32_t width,
                                      uint32_t height, hri_prose *why);

#endif
