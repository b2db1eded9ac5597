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

typedef enum hri_image_format {
    HRI_IMAGE_JPEG,
    HRI_IMAGE_PNG,
    HRI_IMAGE_BMP,
    HRI_IMAGE_WEBP,
    HRI_IMAGE_TIFF,
    HRI_IMAGE_AVIF
} hri_image_format;

typedef struct hri_image_info {
    hri_image_format format;
    uint32_t width, height;
    uint64_t
        whole_bytes; /* what must lie in memory as a whole: coefficients of a progressive JPEG, an interlaced PNG, a WebP, a TIFF, an AVIF */
} hri_image_info;

typedef struct hri_view {
    double x, y, width, height; /* in pixels of the picture */
    uint32_t out_width, out_height;
    uint32_t channels; /* 1: grey, 3: red, green, blue */
    hri_filter filter;
    bool flip; /* mirror left and right */
} hri_view;

/* A file name that ends like a picture's. */
bool hri_image_is_name(const char *name);
#define HRI_IMAGE_NAMES ".jpg, .jpeg, .png, .bmp, .webp, .tif, .tiff or .avif"
/* The first bytes (16 will do) are those of a picture. */
bool hri_image_is(const void *data, size_t bytes);
/* What the first bytes say.  HR_E_FORMAT: no picture that is known; HR_E_EOF: the header is longer than these bytes.  The reason
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

/* The rows or columns that a view touches, with one to spare on each side. */
void hri_image_touched(double from, double size, uint32_t whole, uint32_t *first, uint32_t *count);
/* Gives the rows of a picture of which every row can be had in any order to the view: fn writes `width` pixels of row y from column
 * `left` on, three bytes each; grey is made of them. */
typedef void hri_image_row_fn(void *user, uint32_t y, uint32_t left, uint32_t width, uint8_t *rgb);
HR_MUST_CHECK hr_status hri_image_feed(uint32_t width, uint32_t height, const hri_view *view,
                                       hri_memory *memory, uint8_t *out, hri_image_row_fn *fn,
                                       void *user);
/* Of libwebp: 0x010204; 0: it is not installed. */
int hri_webp_version(void);
/* Of libtiff, as text; false: it is not installed, or too old. */
bool hri_tiff_version(char *text, size_t size);
/* Of libavif, as text; false: it is not installed, or has no dav1d. */
bool hri_avif_version(char *text, size_t size);
/* Where the directory of a TIFF is, which need not be at its beginning; false: it is no TIFF. */
bool hri_tiff_directory(const void *head, size_t bytes, uint64_t *at);
/* As hri_image_probe, of the first 16 bytes and those from the directory on. */
HR_MUST_CHECK hr_status hri_tiff_probe_at(const void *head, const void *directory, size_t bytes,
                                          hri_image_info *out, hri_prose *why);

/* The decoders behind the calls above. */
HR_MUST_CHECK hr_status hri_bmp_probe(const void *data, size_t bytes, hri_image_info *out,
                                      hri_prose *why);
HR_MUST_CHECK hr_status hri_bmp_decode(const void *data, size_t bytes, const hri_view *view,
                                       hri_memory *memory, uint8_t *out, hri_prose *why);
HR_MUST_CHECK hr_status hri_webp_probe(const void *data, size_t bytes, hri_image_info *out,
                                       hri_prose *why);
HR_MUST_CHECK hr_status hri_webp_decode(const void *data, size_t bytes, const hri_view *view,
                                        hri_memory *memory, uint8_t *out, hri_prose *why);
HR_MUST_CHECK hr_status hri_tiff_probe(const void *data, size_t bytes, hri_image_info *out,
                                       hri_prose *why);
HR_MUST_CHECK hr_status hri_tiff_decode(const void *data, size_t bytes, const hri_view *view,
                                        hri_memory *memory, uint8_t *out, hri_prose *why);
HR_MUST_CHECK hr_status hri_avif_probe(const void *data, size_t bytes, hri_image_info *out,
                                       hri_prose *why);
HR_MUST_CHECK hr_status hri_avif_decode(const void *data, size_t bytes, const hri_view *view,
                                        hri_memory *memory, uint8_t *out, hri_prose *why);
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

/* The same of a BMP: numbers of its palette where it has one, else colours. */
HR_MUST_CHECK hr_status hri_bmp_each_row(const void *data, size_t bytes, hri_memory *memory,
                                         hri_png_row_fn *fn, void *user, hri_prose *why);

/* The same of a TIFF: of one channel, numbers, with its palette where it has one; of three, colours. */
HR_MUST_CHECK hr_status hri_tiff_each_row(const void *data, size_t bytes, hri_memory *memory,
                                          hri_png_row_fn *fn, void *user, hri_prose *why);
/* The same of a lossless WebP: colours.  A lossy one is refused. */
HR_MUST_CHECK hr_status hri_webp_each_row(const void *data, size_t bytes, hri_memory *memory,
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
