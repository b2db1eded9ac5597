/* Resizing by rows: source rows go in one after the other, output rows come out as soon as they can.
 *
 * Each output pixel is a weighted sum of source pixels, separately in both directions:
 *   nearest   the pixel under the centre
 *   bilinear  the two around the centre, by distance
 *   area      all that the output pixel covers, by how much of each it covers
 *   auto      area where the picture gets smaller, bilinear where it gets larger
 * Weights are whole numbers that add up to exactly 2^14, so a flat colour stays what it is, and results are the same on
 * every machine. */
#ifndef HRI_DATA_RESIZE_H
#define HRI_DATA_RESIZE_H

#include "data/element.h"

typedef enum hri_filter {
    HRI_FILTER_AUTO,
    HRI_FILTER_NEAREST,
    HRI_FILTER_BILINEAR,
    HRI_FILTER_AREA
} hri_filter;

typedef struct hri_resize_window {
    uint32_t first, count; /* source pixels */
    uint32_t weights;      /* index of its first weight */
} hri_resize_window;

typedef struct hri_resizer {
    hri_buffer *memory;
    hri_resize_window *columns, *rows; /* one an output column, one an output row */
    uint16_t *weights;
    uint16_t *sums;       /* one row, source columns x channels */
    uint32_t column_taps; /* the most weights of a column */
    uint8_t *ring;        /* ring_rows source rows */
    uint8_t *out;
    uint32_t in_width, in_height, out_width, out_height, channels;
    uint32_t ring_rows, in_row, out_row;
    bool flip;
} hri_resizer;

/* The output is the rectangle (x, y, width, height), in fractions of pixels, of a source of in_width x in_height
 * pixels, of which all rows will be put in. */
HR_MUST_CHECK hr_status hri_resizer_init(hri_resizer *r, hri_memory *memory, double x, double y,
                                         double width, double height, uint32_t in_width,
                                         uint32_t in_height, uint32_t out_width,
                                         uint32_t out_height, uint32_t channels, hri_filter filter,
                                         bool flip, uint8_t *out);
void hri_resizer_deinit(hri_resizer *r);
/* Where the next source row is to be written; then say so. */
uint8_t *hri_resizer_row(hri_resizer *r);
void hri_resizer_done_row(hri_resizer *r);
/* All output rows are written. */
bool hri_resizer_is_finished(const hri_resizer *r);
uint64_t hri_resizer_bytes(uint32_t in_width, uint32_t in_height, uint32_t out_width,
                           uint32_t out_height);

#endif
