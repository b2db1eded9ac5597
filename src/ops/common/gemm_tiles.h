/* Products of f32 by matrix units that multiply bf16 (AMX): each number is the sum of three of 8 bits.
 *
 * A number of f32 has 24 bits: h, m and l, each rounded to 8 of what the last one left, are all of it.  Of the nine products
 * six are added, l h, m h, m m, h m, h l and h h; the other three are below the last bit of the result.  A unit adds up 32
 * depths before it rounds into the sums, so that they are no less exact than a chain of multiply-adds.  Tiles are 16 rows of
 * 64 bytes: of C 16 columns, of A 32 depths, of B 16 pairs of depths by 16 columns.  2 x 2 tiles of C stay in registers.
 *
 * Depths are cut as in gemm.h; rows and columns do not change one another's bits.  Infinity is not kept apart from NaN: both
 * give NaN. */
#ifndef HRI_OPS_COMMON_GEMM_TILES_H
#define HRI_OPS_COMMON_GEMM_TILES_H

#include <stdint.h>

enum {
    HRI_TILES_PANEL = 32, /* rows of a panel of A, columns of one of B */
    HRI_TILES_DEPTH = 32, /* of a tile */
    HRI_TILES_PARTS = 3,
    HRI_TILES_MOST = 8 /* steps of packed panels */
};

/* A where it lies, step after step: the first row of a panel is at + off[step], the next ones `row` behind it, parts `part`
 * behind one another, panels `panel`. */
typedef struct hri_tiles_a {
    const uint16_t *at;
    const int64_t *off;
    int64_t row, part, panel;
} hri_tiles_a;

/* A panel is packed step of DEPTH after step, of each the parts h, m, l, of each two tiles; beyond the matrix are zeros. */
typedef struct hri_gemm_tiles {
    /* `count` rows (A) or columns (B) of f32, kc deep; they lie `ld` apart and are dense along the depth, or depths lie
     * `ld` apart and are dense along the panel (straight). */
    void (*pack_a)(const float *a, int64_t ld, int straight, int64_t count, int64_t kc,
                   uint16_t *to);
    void (*pack_b)(const float *b, int64_t ld, int straight, int64_t count, int64_t kc,
                   uint16_t *to);
    /* c (mc, nc), no more and no less, = or += panels of A times panels of B; NULL: the processor has no such unit. */
    void (*multiply)(int64_t mc, int64_t nc, int64_t kc, const uint16_t *a, const uint16_t *b,
                     float *c, int64_t ldc, int first);
    /* `rows` rows of n numbers, `ld` apart, to h, m and l, side by side and each filled up with zeros to whole steps. */
    void (*split)(const float *x, int64_t ld, int64_t rows, int64_t n, uint16_t *to);
    /* As multiply with rows of A where they lie. */
    void (*multiply_steps)(int64_t mc, int64_t nc, int64_t steps, const hri_tiles_a *a,
                           const uint16_t *b, float *c, int64_t ldc, int first);
} hri_gemm_tiles;

hri_gemm_tiles hri_gemm_tiles_pick(void);

/* Numbers of 4 bytes that panels of so many rows or columns take. */
static inline int64_t hri_gemm_tiles_floats(int64_t count, int64_t kc) {
    const int64_t panels = (count + HRI_TILES_PANEL - 1) / HRI_TILES_PANEL;
    const int64_t steps = (kc + HRI_TILES_DEPTH - 1) / HRI_TILES_DEPTH;
    return panels * HRI_TILES_PANEL * steps * HRI_TILES_DEPTH * HRI_TILES_PARTS / 2;
}

#endif
