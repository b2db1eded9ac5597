/* What a convolution reads of an image: runs of numbers at taps of the window, at the places of a grid.
 *
 * Forward and the gradient of the weights read x, the gradient of the input dy.  As packers of gemm.h, and where the depth is
 * that of pixels as lines where they lie, for kernels that need no panels of A. */
#ifndef HRI_OPS_COMMON_CONV_PATCHES_H
#define HRI_OPS_COMMON_CONV_PATCHES_H

#include "ops/common/conv.h"
#include "ops/common/gemm.h"

/* An image whose pixels are asked for by position; outside it is zero. */
typedef struct hri_conv_image {
    hr_type type;
    const void *data;
    int64_t h, w, c; /* c: all channels; a group begins at `group * cg` */
    int64_t cg;
} hri_conv_image;

typedef struct hri_conv_tap {
    int64_t y, x;  /* offset of the pixel from the place of the grid */
    int64_t index; /* of the weights: r * KW + s */
} hri_conv_tap;

typedef struct hri_conv_patches {
    hri_conv_image from;
    int64_t gh, gw; /* the grid of places: rows are (n, gh, gw) */
    int64_t sh, sw; /* pixels between places */
    int64_t depth;  /* numbers a run: run * cg */
    int64_t kw;     /* runs: see tap_of */
    const hri_conv *v;
    int64_t a, b;           /* input: the class of pixels */
    int64_t rows_r, rows_s; /* input: taps of the class, down and across */
    int64_t first_r, first_s, step_r, step_s;
    int input;
} hri_conv_patches;

/* Run number i: where it starts, relative to a place, and which weights it meets. */
static inline hri_conv_tap hri_conv_tap_of(const hri_conv_patches *p, int64_t i) {
    const hri_conv *v = p->v;
    if (p->input) {
        const int64_t r = p->first_r + i / p->rows_s * p->step_r;
        const int64_t s = p->first_s + i % p->rows_s * p->step_s;
        return (hri_conv_tap){(p->a + v->ph - r * v->dh) / v->sh,
                              (p->b + v->pw - s * v->dw) / v->sw, r * v->kw + s};
    }
    const int64_t r = i / p->kw, s = i % p->kw;
    return (hri_conv_tap){r * v->dh - v->ph, s * v->dw - v->pw, r * v->kw + s};
}

hri_conv_patches hri_conv_patches_of(const hri_conv *v, hr_type type, const void *x);

/* Rows are places, the depth is (run, number); turned: rows are (run, number), the depth is places. */
hri_pack_fn hri_pack_patches, hri_pack_patches_t;
hri_gemm_lines_fn hri_lines_patches;

#endif
