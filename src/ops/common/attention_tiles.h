/* Tiles of attention, for forward and backward: sizes, packing, products. */
#ifndef HRI_OPS_COMMON_ATTENTION_TILES_H
#define HRI_OPS_COMMON_ATTENTION_TILES_H

#include "ops/common/attention.h"
#include "ops/common/blocks.h"
#include "ops/common/gemm.h"

enum { HRI_AT_Q = 64, HRI_AT_K = 96 }; /* queries and keys of a tile: whole panels both ways */

/* Columns of a tile as deep as a head, in whole panels of B. */
static inline int64_t hri_at_columns(int64_t depth) {
    return (depth + HRI_GEMM_NR - 1) / HRI_GEMM_NR * HRI_GEMM_NR;
}

/* The first key that no query of [q0, q0 + count) sees. */
static inline int64_t hri_at_keys(const hri_attention *a, int64_t q0, int64_t count) {
    return a->causal ? hri_min64(a->keys, q0 + count) : a->keys;
}

/* How many keys of the tile at k0 query i sees; may be 0 or less. */
static inline int64_t hri_at_seen(const hri_attention *a, int64_t i, int64_t k0) {
    return hri_min64(hri_min64(HRI_AT_K, a->keys - k0), a->causal ? i + 1 - k0 : HRI_AT_K);
}

static inline int64_t hri_at_first(const hri_attention *a, const hri_attention_view *v, int64_t b,
                                   int64_t h, int64_t row) {
    return v->first + b * v->batch + row * v->row + h * a->depth;
}

/* Which way a tile of rows becomes panels: as rows of A, rows of A by depth (turned), and the same for B. */
typedef enum hri_at_way { HRI_AT_A, HRI_AT_A_T, HRI_AT_B, HRI_AT_B_T } hri_at_way;

/* Packs `rows` rows of `width` elements at `first`; panels are as many as there are rows (A, B_T) or columns (A_T, B). */
static inline void hri_at_pack(hri_at_way way, hr_type type, const void *data, int64_t first,
                               int64_t ld, int64_t rows, int64_t width, float *to) {
    hri_gemm g = {.a_type = type, .b_type = type, .lda = ld, .ldb = ld};
    g.a = g.b = (const char *)data + (size_t)first * hr_type_bytes(type);
    switch (way) {
    case HRI_AT_A:
        hri_pack_a(&g, 0, 0, rows, 0, width, to);
        break;
    case HRI_AT_A_T:
        hri_pack_a_t(&g, 0, 0, width, 0, rows, to);
        break;
    case HRI_AT_B:
        hri_pack_b(&g, 0, 0, width, 0, rows, to);
        break;
    case HRI_AT_B_T:
        hri_pack_b_t(&g, 0, 0, rows, 0, width, to);
        break;
    }
}

/* c (m, n) = or += panels of A times panels of B, m and n whole panels. */
static inline void hri_at_product(int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                                  float *c, int64_t ldc, int first) {
    for (int64_t j = 0; j < n; j += HRI_GEMM_NR) {
        for (int64_t i = 0; i < m; i += HRI_GEMM_MR) {
            hri_gemm_kernel(k, a + i * k, b + j * k, c + i * ldc + j, ldc, first);
        }
    }
}

static inline int64_t hri_at_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

#endif
