/* The plain packers of gemm.h.
 *
 * A block is either dense along the panel (A transposed, B) and copied, or dense along the depth (A, B transposed)
 * and turned over four by four, or eight by eight where vectors are that long. */
#include "ops/common/gemm.h"

#include <string.h>

#include "ops/common/blocks.h"

typedef float v4 __attribute__((vector_size(16)));
typedef float v4_any __attribute__((vector_size(16), aligned(4), may_alias));

static inline v4 load4(const float *p) {
    return *(const v4_any *)p;
}

static inline void store4(float *p, v4 v) {
    *(v4_any *)p = v;
}

/* Four rows become columns: to[k * width + 0..3]. */
static inline void turn4(const float *x0, const float *x1, const float *x2, const float *x3,
                         int64_t kc, float *to, int64_t width) {
    int64_t k = 0;
    for (; k + 4 <= kc; k += 4) {
        const v4 r0 = load4(x0 + k), r1 = load4(x1 + k), r2 = load4(x2 + k), r3 = load4(x3 + k);
        const v4 t0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
        const v4 t1 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
        const v4 t2 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
        const v4 t3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
        const v4 o0 = __builtin_shufflevector(t0, t2, 0, 1, 4, 5);
        const v4 o1 = __builtin_shufflevector(t0, t2, 2, 3, 6, 7);
        const v4 o2 = __builtin_shufflevector(t1, t3, 0, 1, 4, 5);
        const v4 o3 = __builtin_shufflevector(t1, t3, 2, 3, 6, 7);
        store4(to + k * width, o0);
        store4(to + (k + 1) * width, o1);
        store4(to + (k + 2) * width, o2);
        store4(to + (k + 3) * width, o3);
    }
    for (; k < kc; k++) {
        to[k * width] = x0[k];
        to[k * width + 1] = x1[k];
        to[k * width + 2] = x2[k];
        to[k * width + 3] = x3[k];
    }
}

#ifdef __AVX__
typedef float v8 __attribute__((vector_size(32)));
typedef float v8_any __attribute__((vector_size(32), aligned(4), may_alias));
#define LOAD8(R) const v8 r##R = *(const v8_any *)(x[R] + k)
#define PAIR(I, A, B)                                                                              \
    const v8 s##I = __builtin_shufflevector(r##A, r##B, 0, 8, 1, 9, 4, 12, 5, 13),                 \
             t##I = __builtin_shufflevector(r##A, r##B, 2, 10, 3, 11, 6, 14, 7, 15)
#define FOUR(I, A, B)                                                                              \
    const v8 u##I##0 = __builtin_shufflevector(s##A, s##B, 0, 1, 8, 9, 4, 5, 12, 13),              \
             u##I##1 = __builtin_shufflevector(s##A, s##B, 2, 3, 10, 11, 6, 7, 14, 15),            \
             u##I##2 = __builtin_shufflevector(t##A, t##B, 0, 1, 8, 9, 4, 5, 12, 13),              \
             u##I##3 = __builtin_shufflevector(t##A, t##B, 2, 3, 10, 11, 6, 7, 14, 15)
#define LOW(K)  __builtin_shufflevector(u0##K, u1##K, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH(K) __builtin_shufflevector(u0##K, u1##K, 4, 5, 6, 7, 12, 13, 14, 15)

static inline void store8(float *p, v8 v) {
    *(v8_any *)p = v;
}

enum { LINE = 16 /* numbers of a line of the cache */ };

/* Eight rows become columns: to[k * width + 0..7].  Those that are next lie `soon` behind them and are asked for: rows come from far
 * away, in pieces too short for the processor to see them coming.  0: none. */
static inline void turn8(const float *const x[8], int64_t kc, float *to, int64_t width,
                         int64_t soon) {
    int64_t k = 0;
    for (; k + 8 <= kc; k += 8) {
        float *at = to + k * width;
        for (int r = 0; r < 8 && soon && k % LINE == 0; r++) {
            __builtin_prefetch(x[r] + soon + k);
        }
        LOAD8(0);
        LOAD8(1);
        LOAD8(2);
        LOAD8(3);
        LOAD8(4);
        LOAD8(5);
        LOAD8(6);
        LOAD8(7);
        PAIR(0, 0, 1);
        PAIR(1, 2, 3);
        PAIR(2, 4, 5);
        PAIR(3, 6, 7);
        FOUR(0, 0, 1);
        FOUR(1, 2, 3);
        store8(at, LOW(0));
        store8(at + width, LOW(1));
        store8(at + 2 * width, LOW(2));
        store8(at + 3 * width, LOW(3));
        store8(at + 4 * width, HIGH(0));
        store8(at + 5 * width, HIGH(1));
        store8(at + 6 * width, HIGH(2));
        store8(at + 7 * width, HIGH(3));
    }
    turn4(x[0] + k, x[1] + k, x[2] + k, x[3] + k, kc - k, to + k * width, width);
    turn4(x[4] + k, x[5] + k, x[6] + k, x[7] + k, kc - k, to + k * width + 4, width);
}
#else
static inline void turn8(const float *const x[8], int64_t kc, float *to, int64_t width,
                         int64_t soon) {
    (void)soon;
    turn4(x[0], x[1], x[2], x[3], kc, to, width);
    turn4(x[4], x[5], x[6], x[7], kc, to + 4, width);
}
#endif

void hri_pack_turn8(const float *const rows[HRI_GEMM_MR], int64_t kc, float *to) {
    turn8(rows, kc, to, HRI_GEMM_MR, 0);
}

/* One panel; `next`: as many rows follow, at least. */
static void turn(hr_type type, const void *p, int64_t at, int64_t ld, int64_t rows, int64_t kc,
                 int64_t width, float *to, int next) {
    int64_t r = 0;
    for (; type == HR_TYPE_F32 && r + 8 <= rows; r += 8) {
        const float *x = (const float *)p + at + r * ld;
        const float *const eight[8] = {x,          x + ld,     x + 2 * ld, x + 3 * ld,
                                       x + 4 * ld, x + 5 * ld, x + 6 * ld, x + 7 * ld};
        const int asks = HRI_GEMM_NR > HRI_GEMM_UNIT && (r + 16 <= rows || next);
        turn8(eight, kc, to + r, width, asks ? 8 * ld : 0);
    }
    for (; type == HR_TYPE_F32 && r + 4 <= rows; r += 4) {
        const float *x = (const float *)p + at + r * ld;
        turn4(x, x + ld, x + 2 * ld, x + 3 * ld, kc, to + r, width);
    }
    for (; r < width; r++) {
        for (int64_t k = 0; k < kc; k++) {
            to[k * width + r] = r < rows ? hri_real_at(type, p, at + r * ld + k) : 0.0f;
        }
    }
}

void hri_pack_turn(hr_type type, const void *p, int64_t at, int64_t ld, int64_t rows, int64_t kc,
                   int64_t width, float *to) {
    turn(type, p, at, ld, rows, kc, width, to, 0);
}

static inline int64_t panel_width(int64_t width, int64_t left) {
    return width == HRI_GEMM_NR ? hri_gemm_width(left) : width;
}

/* Source rows are dense along the depth: (count rows, ld). */
static void pack_turned(hr_type type, const void *p, int64_t at, int64_t ld, int64_t count,
                        int64_t kc, int64_t width, float *to) {
    for (int64_t i = 0; i < count; i += width, to += kc * width) {
        const int64_t rows = count - i < width ? count - i : width;
        turn(type, p, at + i * ld, ld, rows, kc, panel_width(width, rows), to,
             i + width + 8 <= count);
    }
}

/* `panels` whole panels of f32 side by side: each line of the source is read once for all of them. */
static inline void copy_panels(const float *x, int64_t ld, int64_t panels, int64_t kc,
                               int64_t width, float *to) {
    for (int64_t k = 0; k < kc; k++, x += ld, to += width) {
        for (int64_t i = 0; i < panels; i++) {
#ifdef HRI_GEMM_WIDE
            memcpy(to + i * kc * width, x + i * width, (size_t)width * sizeof *x);
#else
            for (int64_t q = 0; q < width; q += 4) {
                store4(to + i * kc * width + q, load4(x + i * width + q));
            }
#endif
        }
    }
}

/* Source rows are dense along the panel: (kc rows, ld). */
static inline void pack_straight(hr_type type, const void *p, int64_t at, int64_t ld, int64_t count,
                                 int64_t kc, int64_t width, float *to) {
    enum { TOGETHER = 4 };
    int64_t i = 0;
    for (; type == HR_TYPE_F32 && i + TOGETHER * width <= count; i += TOGETHER * width) {
        copy_panels((const float *)p + at + i, ld, TOGETHER, kc, width, to + i * kc);
    }
    for (; type == HR_TYPE_F32 && i + width <= count; i += width) {
        copy_panels((const float *)p + at + i, ld, 1, kc, width, to + i * kc);
    }
    for (to += i * kc; i < count; i += width) {
        const int64_t n = count - i < width ? count - i : width, wide = panel_width(width, n);
        for (int64_t k = 0; k < kc; k++, to += wide) {
            for (int64_t q = 0; q < wide; q++) {
                to[q] = q < n ? hri_real_at(type, p, at + k * ld + i + q) : 0.0f;
            }
        }
    }
}

void hri_pack_a(const hri_gemm *g, int64_t batch, int64_t first, int64_t count, int64_t k0,
                int64_t kc, float *to) {
    pack_turned(g->a_type, g->a, batch * g->a_step + first * g->lda + k0, g->lda, count, kc,
                HRI_GEMM_MR, to);
}

void hri_pack_a_t(const hri_gemm *g, int64_t batch, int64_t first, int64_t count, int64_t k0,
                  int64_t kc, float *to) {
    pack_straight(g->a_type, g->a, batch * g->a_step + k0 * g->lda + first, g->lda, count, kc,
                  HRI_GEMM_MR, to);
}

void hri_pack_b(const hri_gemm *g, int64_t batch, int64_t first, int64_t count, int64_t k0,
                int64_t kc, float *to) {
    pack_straight(g->b_type, g->b, batch * g->b_step + k0 * g->ldb + first, g->ldb, count, kc,
                  HRI_GEMM_NR, to);
}

void hri_pack_b_t(const hri_gemm *g, int64_t batch, int64_t first, int64_t count, int64_t k0,
                  int64_t kc, float *to) {
    pack_turned(g->b_type, g->b, batch * g->b_step + first * g->ldb + k0, g->ldb, count, kc,
                HRI_GEMM_NR, to);
}

/* ---- A as it lies ---- */

/* Rows a whole number of pages apart share a few lines of the cache and push one another out. */
static int is_crowded(int64_t step) {
    return step * (int64_t)sizeof(float) % 4096 == 0;
}

void hri_gemm_lines_rows(const float *a, int64_t lda, int64_t count, int64_t kc, const float **at,
                         hri_gemm_lines *out) {
    out->pieces = 1;
    out->length[0] = kc;
    for (int64_t i = 0; i < count; i += HRI_GEMM_MR, at += HRI_GEMM_MR) {
        out->panel[i / HRI_GEMM_MR].at = at;
        for (int64_t r = 0; r < HRI_GEMM_MR; r++) {
            at[r] = a + (i + r < count ? i + r : count - 1) * lda;
        }
    }
}

int hri_gemm_lines_a(const hri_gemm *g, int64_t batch, int64_t first, int64_t count, int64_t k0,
                     int64_t kc, float *room, hri_gemm_lines *out) {
    const float *a = (const float *)g->a + batch * g->a_step + first * g->lda + k0;
    if (g->a_type != HR_TYPE_F32 || is_crowded(g->lda) || kc < 4 * HRI_GEMM_MR || g->n <= 16) {
        return 0;
    }
    hri_gemm_lines_rows(a, g->lda, count, kc, (const float **)(void *)room, out);
    return 1;
}
