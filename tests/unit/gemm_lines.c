/* Blocks of A where they lie (gemm.h) against the panels that packers make of them: the wide product of both has the same
 * bits.  The kernels are those of AVX-512, written for any processor. */
#define HRI_GEMM_WIDE
#include "ops/common/gemm_wide.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/common/conv_patches.h"
#include "test.h"

enum { COLUMNS = 52 }; /* a whole panel and one that ends in the middle */

static float number(int64_t i) {
    return (float)((i * 7919) % 1009) / 512.0f - 1.0f;
}

static float *numbers(int64_t count) {
    float *p = malloc((size_t)(count > 0 ? count : 1) * sizeof *p);
    CHECK(p != NULL);
    for (int64_t i = 0; i < count; i++) {
        p[i] = number(i);
    }
    return p;
}

/* All blocks of `g`, of which there is no B: how many were taken as they lie. */
static int64_t check(const hri_gemm *g) {
    float *b = numbers(HRI_GEMM_KC * COLUMNS + HRI_GEMM_NR);
    float *panels = numbers(HRI_GEMM_MC * HRI_GEMM_KC), *room = numbers(HRI_GEMM_MC * HRI_GEMM_KC);
    float *c[2] = {numbers(HRI_GEMM_MC * COLUMNS), numbers(HRI_GEMM_MC * COLUMNS)};
    int64_t taken = 0;
    for (int64_t batch = 0; batch < g->batch; batch++) {
        for (int64_t m0 = 0; m0 < g->m; m0 += HRI_GEMM_MC) {
            for (int64_t k0 = 0; k0 < g->k; k0 += HRI_GEMM_KC) {
                const int64_t mc = g->m - m0 < HRI_GEMM_MC ? g->m - m0 : HRI_GEMM_MC;
                const int64_t kc = g->k - k0 < HRI_GEMM_KC ? g->k - k0 : HRI_GEMM_KC;
                hri_gemm_lines lines;
                if (!g->lines(g, batch, m0, mc, k0, kc, room, &lines)) {
                    continue;
                }
                taken++;
                g->pack_a(g, batch, m0, mc, k0, kc, panels);
                for (int first = 0; first < 2; first++) {
                    hri_wide_multiply(mc, COLUMNS, kc, panels, kc * HRI_GEMM_MR, b, c[0], COLUMNS,
                                      first);
                    hri_wide_multiply_lines(mc, COLUMNS, kc, &lines, b, c[1], COLUMNS, first,
                                            g->lines == hri_gemm_lines_a ? g->lda : 0, first);
                    CHECK(memcmp(c[0], c[1], sizeof **c * HRI_GEMM_MC * COLUMNS) == 0);
                }
            }
        }
    }
    free(b);
    free(panels);
    free(room);
    free(c[0]);
    free(c[1]);
    return taken;
}

TEST(gemm_lines, rows_of_a_matrix) {
    static const int64_t sizes[][3] = {{2, 37, 300}, {1, 8, 40}, {1, 130, 33}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t batch = sizes[i][0], m = sizes[i][1], k = sizes[i][2];
        float *a = numbers(batch * m * k);
        hri_gemm g = {.batch = batch, .m = m, .n = COLUMNS, .k = k, .a = a, .a_step = m * k};
        g.lda = k;
        g.pack_a = hri_pack_a;
        g.lines = hri_gemm_lines_a;
        CHECK(check(&g) > 0);
        g.a_type = HR_TYPE_BF16; /* has to become f32 */
        CHECK(check(&g) == 0);
        free(a);
    }
}

/* One tile of `m` by `n`, from panels, from panels that lie apart, from rows and from lines that have the rows side by side: the
 * same bits, and nothing beside it is written. */
static void check_tile(int64_t m, int64_t n, int64_t k, int first) {
    enum { BESIDE = 3 };
    const int64_t up = (m + HRI_GEMM_MR - 1) / HRI_GEMM_MR * HRI_GEMM_MR, ldc = n + BESIDE;
    float *a = numbers(up * k), *turned = numbers(up * k), *panels = numbers(up * k);
    float *b = numbers((n + 3) / 4 * 4 * k + HRI_GEMM_NR), *c[4];
    const float *rows[HRI_GEMM_MC];
    hri_gemm_lines lines;
    for (int64_t i = 0; i < up * k; i++) { /* what is behind the last row is not a number */
        turned[i % k * up + i / k] = a[i] = i / k < m ? a[i] : NAN;
    }
    const int64_t apart = k * HRI_GEMM_MR + 7;
    float *spread = numbers(up / HRI_GEMM_MR * apart);
    for (int i = 0; i < 4; i++) {
        c[i] = numbers((m + 1) * ldc);
    }
    const hri_gemm g = {.a = a, .lda = k};
    hri_pack_a(&g, 0, 0, m, 0, k, panels);
    hri_gemm_lines_rows(a, k, m, k, rows, &lines);
    for (int64_t i = 0; i < up / HRI_GEMM_MR; i++) {
        memcpy(spread + i * apart, panels + i * k * HRI_GEMM_MR,
               (size_t)(k * HRI_GEMM_MR) * sizeof *spread);
    }
    hri_wide_multiply(m, n, k, panels, k * HRI_GEMM_MR, b, c[0], ldc, first);
    hri_wide_multiply(m, n, k, spread, apart, b, c[3], ldc, first);
    hri_wide_multiply_lines(m, n, k, &lines, b, c[1], ldc, first, 0, first);
    hri_wide_multiply_turned(m, n, k, turned, up, b, c[2], ldc, first);
    for (int64_t i = 0; i < (m + 1) * ldc; i++) {
        const int inside = i / ldc < m && i % ldc < n;
        CHECK(inside ? isfinite(c[0][i]) : c[0][i] == number(i));
        CHECK(memcmp(&c[0][i], &c[1][i], sizeof(float)) == 0);
        CHECK(memcmp(&c[0][i], &c[2][i], sizeof(float)) == 0);
        CHECK(memcmp(&c[0][i], &c[3][i], sizeof(float)) == 0);
    }
    free(a);
    free(turned);
    free(panels);
    free(spread);
    free(b);
    for (int i = 0; i < 4; i++) {
        free(c[i]);
    }
}

TEST(gemm_lines, tiles_of_any_size) {
    static const int64_t m[] = {1, 7, 8, 9, 23, HRI_GEMM_MC}, n[] = {1, 15, 16, 17, 31, 33, 52, 63},
                         k[] = {1, 5, 64};
    for (size_t i = 0; i < 6 * 8 * 3; i++) {
        for (int first = 0; first < 2; first++) {
            check_tile(m[i / 24], n[i / 3 % 8], k[i % 3], first);
        }
    }
}

/* Patches are packed as rows and turned: the same numbers, in blocks that begin anywhere. */
static void check_turned(const hri_gemm *g) {
    enum { M = 45, K = 27 };
    float rows[48 * K], turned[32 * M];
    for (int64_t m0 = 0; m0 + M <= g->m; m0 += 31) {
        for (int64_t k0 = 0; k0 + K <= g->k; k0 += 23) {
            hri_pack_patches(g, 0, m0, M, k0, K, rows);
            hri_pack_patches_t(g, 0, k0, K, m0, M, turned);
            for (int64_t i = 0; i < M * 32; i++) {
                const int64_t m = i / 32, k = i % 32;
                const float x = turned[k / 8 * 8 * M + m * 8 + k % 8];
                CHECK(x == (k < K ? rows[m / 8 * 8 * K + k * 8 + m % 8] : 0.0f));
            }
        }
    }
}

/* A convolution of a small image: its patches as rows and turned. */
static void check_patches(hri_conv v) {
    v.oh = (v.h + 2 * v.ph - v.dh * (v.kh - 1) - 1) / v.sh + 1;
    v.ow = (v.w + 2 * v.pw - v.dw * (v.kw - 1) - 1) / v.sw + 1;
    v.cg = v.c / v.groups;
    float *x = numbers(v.n * v.h * v.w * v.c);
    const hri_conv_patches p = hri_conv_patches_of(&v, HR_TYPE_F32, x);
    hri_gemm g = {.batch = v.groups, .n = COLUMNS, .ctx = &p, .pack_a = hri_pack_patches};
    g.m = v.n * v.oh * v.ow;
    g.k = v.kh * v.kw * v.cg;
    g.lines = hri_lines_patches;
    CHECK(check(&g) > 0);
    check_turned(&g);
    free(x);
}

TEST(gemm_lines, patches_of_an_image) {
    const hri_conv plain = {.n = 2,
                            .h = 9,
                            .w = 11,
                            .c = 32,
                            .kh = 3,
                            .kw = 3,
                            .sh = 1,
                            .sw = 1,
                            .ph = 1,
                            .pw = 1,
                            .dh = 1,
                            .dw = 1,
                            .groups = 1};
    hri_conv v = plain;
    check_patches(v);
    v.sh = v.sw = 2;
    check_patches(v);
    v = plain;
    v.dh = v.dw = 2;
    check_patches(v);
    v = plain;
    v.groups = 2;
    check_patches(v);
    v = plain;
    v.kh = v.kw = 5;
    v.ph = v.pw = 2;
    check_patches(v);
    v = plain;
    v.kh = v.kw = 1;
    v.ph = v.pw = 0;
    v.sh = v.sw = 2;
    check_patches(v);
}
