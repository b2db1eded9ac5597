/* How conv_winograd.h cuts an image: tiles are two outputs side by side, a band is some tiles of a few lines, or those of a few
 * images where one has not enough.  By the shape alone. */
#ifndef HRI_OPS_COMMON_CONV_BANDS_H
#define HRI_OPS_COMMON_CONV_BANDS_H

#include <stdint.h>

enum { HRI_BAND_ACROSS = 32 }; /* tiles side by side, at most */

typedef struct hri_bands {
    int64_t n, lines, wide;                     /* images, lines of one, tiles of a line */
    int64_t across, down, images;               /* tiles of a band in each direction */
    int64_t count_across, count_down, count_of; /* bands, of images last */
} hri_bands;

/* One of them: where it begins, in tiles across, and how much it has. */
typedef struct hri_band {
    int64_t n, y, x, images, lines, across;
} hri_band;

static inline int64_t hri_bands_over(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static inline int64_t hri_bands_up(int64_t a, int64_t b) {
    return hri_bands_over(a, b) * b;
}

static inline int64_t hri_bands_least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Pieces of `most` at most, as few as there can be and all alike; *count: how many. */
static inline int64_t hri_bands_cut(int64_t all, int64_t most, int64_t *count) {
    const int64_t pieces = hri_bands_over(all, most > 1 ? most : 1);
    const int64_t piece = pieces ? hri_bands_over(all, pieces) : 1;
    *count = hri_bands_over(all, piece);
    return piece;
}

/* Of an image of so many lines and columns; `tiles`: of a band, at most. */
static inline hri_bands hri_bands_of(int64_t n, int64_t lines, int64_t columns, int64_t tiles) {
    hri_bands b = {.n = n, .lines = lines, .wide = hri_bands_over(columns, 2)};
    b.across = hri_bands_cut(b.wide, HRI_BAND_ACROSS, &b.count_across);
    b.down = hri_bands_cut(lines, tiles / b.across, &b.count_down);
    const int whole = b.count_across == 1 && b.count_down == 1;
    b.images = hri_bands_cut(n, whole ? tiles / (b.across * b.down) : 1, &b.count_of);
    return b;
}

static inline int64_t hri_bands_count(const hri_bands *b) {
    return b->count_across * b->count_down * b->count_of;
}

/* Tiles of the largest. */
static inline int64_t hri_bands_tiles(const hri_bands *b) {
    return b->images * b->down * b->across;
}

static inline hri_band hri_bands_at(const hri_bands *b, int64_t number) {
    hri_band at;
    at.x = number % b->count_across * b->across;
    number /= b->count_across;
    at.y = number % b->count_down * b->down;
    at.n = number / b->count_down * b->images;
    at.across = hri_bands_least(b->across, b->wide - at.x);
    at.lines = hri_bands_least(b->down, b->lines - at.y);
    at.images = hri_bands_least(b->images, b->n - at.n);
    return at;
}

static inline int64_t hri_band_tiles(const hri_band *b) {
    return b->images * b->lines * b->across;
}

#endif
