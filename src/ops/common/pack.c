/* The plain packers of gemm.h.
 *
 * A block is either dense along the panel (A transposed, B) and copied, or dense along the depth (A, B transposed)
 * and turned over four by four. */
#include "ops/common/gemm.h"

#include <string.h>

#include "graph/half.h"

typedef float v4 __attribute__((vector_size(16)));

static inline v4 load4(const float *p) {
    v4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static float load_real(hr_type type, const void *p, int64_t i) {
    return type == HR_TYPE_F32    ? ((const float *)p)[i]
           : type == HR_TYPE_BF16 ? hri_from_bf16(((const hri_bf16 *)p)[i])
                                  : hri_from_f16(((const hri_f16 *)p)[i]);
}

/* Four rows of the source become columns: to[k * width + 0..3]. */
static void turn4(const float *from, int64_t ld, int64_t kc, float *to, int64_t width) {
    int64_t k = 0;
    for (; k + 4 <= kc; k += 4) {
        const v4 r0 = load4(from + k), r1 = load4(from + ld + k), r2 = load4(from + 2 * ld + k),
                 r3 = load4(from + 3 * ld + k);
        const v4 t0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
        const v4 t1 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
        const v4 t2 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
        const v4 t3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
        const v4 o0 = __builtin_shufflevector(t0, t2, 0, 1, 4, 5);
        const v4 o1 = __builtin_shufflevector(t0, t2, 2, 3, 6, 7);
        const v4 o2 = __builtin_shufflevector(t1, t3, 0, 1, 4, 5);
        const v4 o3 = __builtin_shufflevector(t1, t3, 2, 3, 6, 7);
        memcpy(to + k * width, &o0, sizeof o0);
        memcpy(to + (k + 1) * width, &o1, sizeof o1);
        memcpy(to + (k + 2) * width, &o2, sizeof o2);
        memcpy(to + (k + 3) * width, &o3, sizeof o3);
    }
    for (; k < kc; k++) {
        for (int64_t i = 0; i < 4; i++) {
            to[k * width + i] = from[i * ld + k];
        }
    }
}

/* Source rows are dense along the depth: (count rows, ld), panel rows are `width` wide. */
static void pack_turned(hr_type type, const void *p, int64_t at, int64_t ld, int64_t count,
                        int64_t kc, int64_t width, float *to) {
    for (int64_t i = 0; i < count; i += width, to += kc * width) {
        const int64_t rows = count - i < width ? count - i : width;
        const int64_t base = at + i * ld;
        int64_t r = 0;
        for (; type == HR_TYPE_F32 && r + 4 <= rows; r += 4) {
            turn4((const float *)p + base + r * ld, ld, kc, to + r, width);
        }
        for (; r < width; r++) {
            for (int64_t k = 0; k < kc; k++) {
                to[k * width + r] = r < rows ? load_real(type, p, base + r * ld + k) : 0.0f;
            }
        }
    }
}

/* Source rows are dense along the panel: (kc rows, ld). */
static void pack_straight(hr_type type, const void *p, int64_t at, int64_t ld, int64_t count,
                          int64_t kc, int64_t width, float *to) {
    for (int64_t i = 0; i < count; i += width) {
        const int64_t n = count - i < width ? count - i : width;
        for (int64_t k = 0; k < kc; k++, to += width) {
            const int64_t from = at + k * ld + i;
            if (type == HR_TYPE_F32 && n == width) {
                const float *x = (const float *)p + from;
                for (int64_t q = 0; q < width; q += 4) {
                    const v4 v = load4(x + q);
                    memcpy(to + q, &v, sizeof v);
                }
                continue;
            }
            for (int64_t q = 0; q < width; q++) {
                to[q] = q < n ? load_real(type, p, from + q) : 0.0f;
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
