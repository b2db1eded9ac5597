/* Tiles of attention, for forward and backward: sizes, packing, products. */
#ifndef HRI_OPS_COMMON_ATTENTION_TILES_H
#define HRI_OPS_COMMON_ATTENTION_TILES_H

#include <math.h>
#include "base/random.h"
#include "ops/common/attention.h"
#include "ops/common/blocks.h"
#include "ops/common/gemm.h"

/* Queries and keys of a tile: whole panels both ways, and whole lanes of keys. */
enum { HRI_AT_Q = 64, HRI_AT_K_CAUSAL = 96, HRI_AT_K_MOST = 240, HRI_AT_K_UNIT = 48 };

/* Keys of a tile: as few tiles as there can be, all alike, but small ones where half of a tile is not seen. */
static inline int64_t hri_at_tile(const hri_attention *a) {
    if (a->causal || a->keys <= 0) {
        return HRI_AT_K_CAUSAL;
    }
    const int64_t tiles = (a->keys + HRI_AT_K_MOST - 1) / HRI_AT_K_MOST;
    const int64_t keys = (a->keys + tiles - 1) / tiles;
    return (keys + HRI_AT_K_UNIT - 1) / HRI_AT_K_UNIT * HRI_AT_K_UNIT;
}

/* Columns of a tile as deep as a head, with room for whole panels of B. */
static inline int64_t hri_at_columns(int64_t depth) {
    return (depth + HRI_GEMM_UNIT - 1) / HRI_GEMM_UNIT * HRI_GEMM_UNIT;
}

/* Columns of scores that a product computes: whole panels, but for wide ones, which may end anywhere. */
static inline int64_t hri_at_keys_up(int64_t keys) {
    return HRI_GEMM_NR == HRI_GEMM_UNIT ? hri_at_columns(keys) : keys;
}

/* The first key that no query of [q0, q0 + count) sees. */
static inline int64_t hri_at_keys(const hri_attention *a, int64_t q0, int64_t count) {
    return a->causal ? hri_min64(a->keys, q0 + count) : a->keys;
}

/* How many keys of the tile of `tile` keys at k0 query i sees; may be 0 or less. */
static inline int64_t hri_at_seen(const hri_attention *a, int64_t tile, int64_t i, int64_t k0) {
    return hri_min64(hri_min64(tile, a->keys - k0), a->causal ? i + 1 - k0 : tile);
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

/* Products read rows of this type where they lie, and need no panels of A; those with few columns are faster from panels. */
static inline int hri_at_as_it_lies(hr_type type, int64_t columns) {
#ifdef HRI_GEMM_WIDE
    return type == HR_TYPE_F32 && columns > HRI_GEMM_NR / 2;
#else
    return (void)type, (void)columns, 0;
#endif
}

/* c = or += A times n columns of panels of B: A is `rows` rows of `width` elements at `first`, or those turned (HRI_AT_A_T).
 * It is as it lies or becomes panels in `room`; `packed`: those are there already.  c has whole panels of rows. */
static inline void hri_at_multiply(hri_at_way way, hr_type type, const void *data, int64_t first,
                                   int64_t ld, int64_t rows, int64_t width, float *room, int packed,
                                   int64_t n, const float *b, float *c, int64_t ldc, int fresh) {
    const int64_t m = way == HRI_AT_A ? rows : width, k = way == HRI_AT_A ? width : rows;
#ifdef HRI_GEMM_WIDE
    if (!packed && hri_at_as_it_lies(type, n)) {
        (way == HRI_AT_A ? hri_gemm_tile_rows : hri_gemm_tile_turned)(
            m, n, k, (const float *)data + first, ld, b, c, ldc, fresh);
        return;
    }
#endif
    if (!packed) {
        hri_at_pack(way, type, data, first, ld, rows, width, room);
    }
    hri_gemm_tile((m + HRI_GEMM_MR - 1) / HRI_GEMM_MR * HRI_GEMM_MR, n, k, room, k * HRI_GEMM_MR, b,
                  c, ldc, fresh);
}

/* n numbers of the mask from `at` on; bytes become 0, or minus infinity where they hide. */
static inline const float *hri_at_mask_row(const hri_attention_extra *e, int64_t at, int64_t n,
                                           float *room) {
    if (e->mask_type != HR_TYPE_U8) {
        return hri_block_in(e->mask_type, e->mask, at, n, room);
    }
    const uint8_t *from = (const uint8_t *)e->mask + at;
    for (int64_t k = 0; k < n; k++) {
        room[k] = from[k] ? 0.0f : -INFINITY;
    }
    return room;
}

/* Scores of one row of a tile, times the scale, plus the mask. */
static inline void hri_at_mask(const hri_attention *a, int64_t b, int64_t h, int64_t i, int64_t k0,
                               int64_t n, float *s) {
    const hri_attention_extra *e = &a->extra;
    float room[HRI_BLOCK];
    const float *mask =
        e->mask && n > 0
            ? hri_at_mask_row(e, b * e->mask_batch + h * e->mask_head + i * e->mask_row + k0, n,
                              room)
            : NULL;
    for (int64_t k = 0; k < n; k++) {
        s[k] = s[k] * a->scale + (mask ? mask[k] : 0.0f);
    }
}

/* ---- what forward keeps of a query: lse ----
 *
 * Of one that sees no key but those that a mask hides by large numbers it is not the logarithm of what it weighs in all, which f32 has
 * no place for beside such a number.  src/ops/cuda/attention_stats.cuh has the same, and says what it is then. */

#define HRI_AT_FAR  -0x1p28f
#define HRI_AT_KEPT 0x1p100f

/* How far a score is below HRI_AT_FAR: 16 for each time that it doubles. */
static inline float hri_at_depth(float s) {
    return 16.0f * fminf(log2f(s * (1.0f / HRI_AT_FAR)), 92.0f);
}

/* Of a query whose largest score is `most`, and whose weights relative to that add up to `sum`. */
static inline float hri_at_lse(const hri_attention *a, float most, float sum) {
    const float log_sum = logf(sum), lse = most + log_sum;
    const int adds = a->extra.mask && a->extra.mask_type != HR_TYPE_U8;
    return adds && lse < HRI_AT_FAR
               ? HRI_AT_KEPT * (1.875f + (log_sum - hri_at_depth(most)) * 0x1p-11f)
               : lse;
}

static inline int hri_at_sees_far(float lse) {
    return lse >= HRI_AT_KEPT && lse < 2.0f * HRI_AT_KEPT;
}

/* The logarithm of the probability of a score of such a query. */
static inline float hri_at_far(float s, float lse) {
    return s == -INFINITY ? s
                          : -(hri_at_depth(s) + (lse * (1.0f / HRI_AT_KEPT) - 1.875f) * 0x1p11f);
}

static inline int64_t hri_at_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

/* What each probability of that row is multiplied by: 0, or 1 / (1 - drop).  Four keys side by side share a draw, and rows begin with one. */
static inline void hri_at_kept(const hri_attention *a, int64_t b, int64_t h, int64_t i, int64_t k0,
                               int64_t n, float *out) {
    const hri_attention_extra *e = &a->extra;
    const float by = e->drop < 1.0f ? 1.0f / (1.0f - e->drop) : 0.0f;
    uint32_t draws[HRI_AT_K_MOST];
    if (e->drop > 0.0f && n > 0) {
        hri_random_fill_u32(e->seed, e->step, e->node, e->first_sample + (uint32_t)b,
                            (uint64_t)((h * a->queries + i) * hri_at_up(a->keys, 4) + k0), draws,
                            (size_t)n);
    }
    for (int64_t k = 0; k < n; k++) {
        out[k] = e->drop > 0.0f ? (hri_random_to_float(draws[k]) >= e->drop ? by : 0.0f) : 1.0f;
    }
}

/* Kernels for rows of scores without a mask that a processor has (attention_rows.h); NULL: none.  Chosen by the processor, so that
 * bits are the same at all levels. */
typedef struct hri_at_rows {
    float (*soften)(float *s, int64_t n, float scale, float *most, float *sum);
    void (*differentiate)(float *p, float *ds, int64_t n, float scale, float lse, float delta);
    float (*dot)(const float *x, const float *y, int64_t n);
} hri_at_rows;

hri_at_rows hri_at_rows_pick(void);

/* Asks for a row that is read or written soon: it comes from far away while rows of scores are computed. */
static inline void hri_at_soon(const hri_attention *a, const hri_attention_view *v,
                               const void *data, int64_t b, int64_t h, int64_t row) {
    enum { LINE = 64 };
    const int64_t size = (int64_t)hr_type_bytes(a->type);
    const char *const at = (const char *)data + hri_at_first(a, v, b, h, row) * size;
    for (int64_t i = 0; i < a->depth * size; i += LINE) {
        __builtin_prefetch(at + i, 0, 2);
    }
}

#endif
