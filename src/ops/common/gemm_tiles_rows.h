/* The kernels of gemm_tiles.h.
 *
 * It is included with HRI_TILES_TARGET (which processor), HRI_TILES_BEGIN() and HRI_TILES_END() (around tiles), HRI_TILE_ZERO(T),
 * HRI_TILE_LOAD(T, FROM, BYTES), HRI_TILE_STORE(T, TO, BYTES) (rows so many bytes apart) and HRI_TILE_ADD(C, A, B) defined, by
 * gemm_tiles_kernel.c and by the test, which runs it on any processor. */
#ifndef HRI_OPS_COMMON_GEMM_TILES_ROWS_H
#define HRI_OPS_COMMON_GEMM_TILES_ROWS_H

#include <stdint.h>
#include <string.h>

#include "ops/common/gemm_tiles.h"

typedef float hri_t16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t hri_t16_bits __attribute__((vector_size(64), aligned(4), may_alias));

enum {
    HRI_TILE = 16 * 32,            /* numbers of 2 bytes of a tile */
    HRI_TILES_PART = 2 * HRI_TILE, /* from one part of a step to the next */
    HRI_TILES_STEP = HRI_TILES_PARTS * HRI_TILES_PART
};

/* Vectors go by their address, as in gemm_wide.h. */
#define HRI_TILES_INLINE HRI_TILES_TARGET __attribute__((always_inline)) static inline

/* The upper 16 bits of h, m and l are x, but for what bf16 has no room for. */
HRI_TILES_INLINE void hri_tiles_split(const hri_t16 *x, hri_t16_bits *h, hri_t16_bits *m,
                                      hri_t16_bits *l) {
    *h = ((hri_t16_bits)*x + 0x8000u) & 0xffff0000u;
    const hri_t16 rest = *x - (hri_t16)*h;
    *m = ((hri_t16_bits)rest + 0x8000u) & 0xffff0000u;
    *l = (hri_t16_bits)(rest - (hri_t16)*m);
}

/* ---- 16 x 16 numbers ---- */

#define HRI_TILES_PAIR(TO, FROM, I, J, ...)                                                        \
    {                                                                                              \
        const hri_t16 p = (FROM)[I], q = (FROM)[J];                                                \
        (TO)[I] = __builtin_shufflevector(p, q, HRI_TILES_LOW_##__VA_ARGS__);                      \
        (TO)[J] = __builtin_shufflevector(p, q, HRI_TILES_HIGH_##__VA_ARGS__);                     \
    }
/* Which numbers of two rows change places, by how far apart the rows are. */
#define HRI_TILES_LOW_1  0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HRI_TILES_HIGH_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define HRI_TILES_LOW_2  0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HRI_TILES_HIGH_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define HRI_TILES_LOW_4  0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HRI_TILES_HIGH_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define HRI_TILES_LOW_8  0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HRI_TILES_HIGH_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31

/* Rows become columns, in place. */
HRI_TILES_INLINE void hri_tiles_turn(hri_t16 *x) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += 2) {
        HRI_TILES_PAIR(x, x, i, i + 1, 1)
    }
#pragma GCC unroll 16
    for (int i = 0; i < 8; i++) {
        HRI_TILES_PAIR(x, x, i / 2 * 4 + i % 2, i / 2 * 4 + i % 2 + 2, 2)
    }
#pragma GCC unroll 16
    for (int i = 0; i < 8; i++) {
        HRI_TILES_PAIR(x, x, i / 4 * 8 + i % 4, i / 4 * 8 + i % 4 + 4, 4)
    }
#pragma GCC unroll 16
    for (int i = 0; i < 8; i++) {
        HRI_TILES_PAIR(x, x, i, i + 8, 8)
    }
}

/* 16 rows of 16 numbers, `ld` apart, of which the first `rows` and the first `columns` are there; turned or as they are. */
HRI_TILES_INLINE void hri_tiles_read(const float *from, int64_t ld, int64_t rows, int64_t columns,
                                     int turned, hri_t16 *x) {
    if (rows >= 16 && columns >= 16) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            x[i] = *(const hri_t16 *)(from + i * ld);
        }
    } else {
        float room[16 * 16] = {0};
        for (int64_t i = 0; i < rows && i < 16 && columns > 0; i++) {
            memcpy(room + i * 16, from + i * ld,
                   (size_t)(columns < 16 ? columns : 16) * sizeof *room);
        }
        for (int i = 0; i < 16; i++) {
            x[i] = *(const hri_t16 *)(room + i * 16);
        }
    }
    if (turned) {
        hri_tiles_turn(x);
    }
}

/* ---- panels ---- */

/* Two vectors to 32 numbers of each part, in pairs: number i of x, number i of y.  Where both sides of a product do so, the order of
 * the depths inside a tile does not matter. */
HRI_TILES_INLINE void hri_tiles_put(const hri_t16 *x, const hri_t16 *y, uint16_t *to,
                                    int64_t part) {
    hri_t16_bits xh, xm, xl, yh, ym, yl;
    hri_tiles_split(x, &xh, &xm, &xl);
    hri_tiles_split(y, &yh, &ym, &yl);
    *(hri_t16_bits *)to = xh >> 16 | yh;
    *(hri_t16_bits *)(to + part) = xm >> 16 | ym;
    *(hri_t16_bits *)(to + 2 * part) = xl >> 16 | (yl & 0xffff0000u);
}

/* One tile of A: 16 rows of which `rows` are there, by 32 depths of which `depths` are. */
HRI_TILES_TARGET static void hri_tiles_put_a(const float *a, int64_t ld, int straight, int64_t rows,
                                             int64_t depths, uint16_t *to) {
    hri_t16 x[16], y[16];
    if (!straight && rows >= 16 && depths >= 32) {
        for (int i = 0; i < 16; i++, a += ld, to += 32) {
            hri_tiles_put((const hri_t16 *)a, (const hri_t16 *)(a + 16), to, HRI_TILES_PART);
        }
        return;
    }
    if (straight) {
        hri_tiles_read(a, ld, depths, rows, 1, x);
        hri_tiles_read(a + 16 * ld, ld, depths - 16, rows, 1, y);
    } else {
        hri_tiles_read(a, ld, rows, depths, 0, x);
        hri_tiles_read(a + 16, ld, rows, depths - 16, 0, y);
    }
    for (int i = 0; i < 16; i++, to += 32) {
        hri_tiles_put(&x[i], &y[i], to, HRI_TILES_PART);
    }
}

/* One tile of B: 32 depths by 16 columns. */
HRI_TILES_TARGET static void hri_tiles_put_b(const float *b, int64_t ld, int straight,
                                             int64_t columns, int64_t depths, uint16_t *to) {
    hri_t16 x[16], y[16];
    if (straight && columns >= 16 && depths >= 32) {
        for (int i = 0; i < 16; i++, b += ld, to += 32) {
            hri_tiles_put((const hri_t16 *)b, (const hri_t16 *)(b + 16 * ld), to, HRI_TILES_PART);
        }
        return;
    }
    if (straight) {
        hri_tiles_read(b, ld, depths, columns, 0, x);
        hri_tiles_read(b + 16 * ld, ld, depths - 16, columns, 0, y);
    } else {
        hri_tiles_read(b, ld, columns, depths, 1, x);
        hri_tiles_read(b + 16, ld, columns, depths - 16, 1, y);
    }
    for (int i = 0; i < 16; i++, to += 32) {
        hri_tiles_put(&x[i], &y[i], to, HRI_TILES_PART);
    }
}

HRI_TILES_TARGET static void hri_tiles_pack_a(const float *a, int64_t ld, int straight,
                                              int64_t count, int64_t kc, uint16_t *to) {
    for (int64_t i = 0; i < count; i += HRI_TILES_PANEL) {
        for (int64_t k = 0; k < kc; k += HRI_TILES_DEPTH, to += HRI_TILES_STEP) {
            for (int64_t t = 0; t < 2; t++) {
                const int64_t r = i + 16 * t;
                hri_tiles_put_a(a + (straight ? k * ld + r : r * ld + k), ld, straight, count - r,
                                kc - k, to + t * HRI_TILE);
            }
        }
    }
}

HRI_TILES_TARGET static void hri_tiles_pack_b(const float *b, int64_t ld, int straight,
                                              int64_t count, int64_t kc, uint16_t *to) {
    for (int64_t j = 0; j < count; j += HRI_TILES_PANEL) {
        for (int64_t k = 0; k < kc; k += HRI_TILES_DEPTH, to += HRI_TILES_STEP) {
            for (int64_t t = 0; t < 2; t++) {
                const int64_t q = j + 16 * t;
                hri_tiles_put_b(b + (straight ? k * ld + q : q * ld + k), ld, straight, count - q,
                                kc - k, to + t * HRI_TILE);
            }
        }
    }
}

HRI_TILES_TARGET static void hri_tiles_split_rows(const float *x, int64_t ld, int64_t rows,
                                                  int64_t n, uint16_t *to) {
    const int64_t part = (n + HRI_TILES_DEPTH - 1) / HRI_TILES_DEPTH * HRI_TILES_DEPTH;
    for (int64_t i = 0; i < rows; i++, x += ld, to += HRI_TILES_PARTS * part) {
        int64_t k = 0;
        for (; k + HRI_TILES_DEPTH <= n; k += HRI_TILES_DEPTH) {
            hri_tiles_put((const hri_t16 *)(x + k), (const hri_t16 *)(x + k + 16), to + k, part);
        }
        if (k < n) {
            float room[HRI_TILES_DEPTH] = {0};
            memcpy(room, x + k, (size_t)(n - k) * sizeof *x);
            hri_tiles_put((const hri_t16 *)room, (const hri_t16 *)(room + 16), to + k, part);
        }
    }
}

/* ---- products ---- */

/* Tiles of A are 4 and 5, of B 6 and 7; an assembler reads the numbers. */
#define HRI_TILES_A0(FROM) HRI_TILE_LOAD(4, FROM, row);
#define HRI_TILES_A1(FROM) HRI_TILE_LOAD(5, (FROM) + below, row);
#define HRI_TILES_B0(FROM) HRI_TILE_LOAD(6, FROM, 64);
#define HRI_TILES_B1(FROM) HRI_TILE_LOAD(7, (FROM) + HRI_TILE, 64);
/* Four products, then another A or B: each tile is loaded as soon as it was read, two products before it is needed. */
#define HRI_TILES_THEN_A(FROM)                                                                     \
    HRI_TILE_ADD(0, 4, 6);                                                                         \
    HRI_TILE_ADD(1, 4, 7);                                                                         \
    HRI_TILES_A0(FROM)                                                                             \
    HRI_TILE_ADD(2, 5, 6);                                                                         \
    HRI_TILE_ADD(3, 5, 7);                                                                         \
    HRI_TILES_A1(FROM)
#define HRI_TILES_THEN_B(FROM)                                                                     \
    HRI_TILE_ADD(0, 4, 6);                                                                         \
    HRI_TILE_ADD(2, 5, 6);                                                                         \
    HRI_TILES_B0(FROM)                                                                             \
    HRI_TILE_ADD(1, 4, 7);                                                                         \
    HRI_TILE_ADD(3, 5, 7);                                                                         \
    HRI_TILES_B1(FROM)
#define HRI_TILES_THEN_BOTH(A, B)                                                                  \
    HRI_TILE_ADD(0, 4, 6);                                                                         \
    HRI_TILE_ADD(2, 5, 6);                                                                         \
    HRI_TILES_B0(B)                                                                                \
    HRI_TILE_ADD(1, 4, 7);                                                                         \
    HRI_TILES_A0(A)                                                                                \
    HRI_TILE_ADD(3, 5, 7);                                                                         \
    HRI_TILES_B1(B)                                                                                \
    HRI_TILES_A1(A)

/* 32 rows by 32 columns of c, all of them.  Parts that stay are not loaded again: the small products come first.  `soon`: where the
 * next results go, which is far away, or NULL. */
HRI_TILES_TARGET static void hri_tiles_kernel(int64_t steps, const hri_tiles_a *of,
                                              const uint16_t *a, const uint16_t *b, float *c,
                                              int64_t ldc, int first, const float *soon) {
    const int64_t bytes = ldc * (int64_t)sizeof *c, row = of->row * (int64_t)sizeof *a;
    const int64_t below = 16 * of->row, part = of->part;
    __asm__ volatile("" : : : "memory"); /* loads of tiles do not say that they read */
    if (first) {
        HRI_TILE_ZERO(0);
        HRI_TILE_ZERO(1);
        HRI_TILE_ZERO(2);
        HRI_TILE_ZERO(3);
    } else {
        HRI_TILE_LOAD(0, c, bytes);
        HRI_TILE_LOAD(1, c + 16, bytes);
        HRI_TILE_LOAD(2, c + 16 * ldc, bytes);
        HRI_TILE_LOAD(3, c + 16 * ldc + 16, bytes);
    }
    const uint16_t *h = a + of->off[0];
    HRI_TILES_A0(h + 2 * part)
    HRI_TILES_B0(b)
    HRI_TILES_B1(b)
    HRI_TILES_A1(h + 2 * part)
    for (int64_t k = 0, asked = 0; k < steps; k++) {
        for (; soon && asked < (k + 1) * HRI_TILES_PANEL / steps; asked++, soon += ldc) {
            __builtin_prefetch(soon, 1);
            __builtin_prefetch(soon + 16, 1);
        }
        const uint16_t *const then = k + 1 < steps ? a + of->off[k + 1] : h;
        const uint16_t *const then_b = k + 1 < steps ? b + HRI_TILES_STEP : b;
        HRI_TILES_THEN_A(h + part)                   /* l h */
        HRI_TILES_THEN_B(b + HRI_TILES_PART)         /* m h */
        HRI_TILES_THEN_A(h)                          /* m m */
        HRI_TILES_THEN_B(b + 2 * HRI_TILES_PART)     /* h m */
        HRI_TILES_THEN_B(b)                          /* h l */
        HRI_TILES_THEN_BOTH(then + 2 * part, then_b) /* h h */
        h = then;
        b = then_b;
    }
    HRI_TILE_STORE(0, c, bytes);
    HRI_TILE_STORE(1, c + 16, bytes);
    HRI_TILE_STORE(2, c + 16 * ldc, bytes);
    HRI_TILE_STORE(3, c + 16 * ldc + 16, bytes);
}

/* The same of some rows and columns, by way of a place that has all. */
HRI_TILES_TARGET static void hri_tiles_some(int64_t steps, const hri_tiles_a *of, const uint16_t *a,
                                            const uint16_t *b, float *c, int64_t ldc, int64_t rows,
                                            int64_t columns, int first) {
    float room[HRI_TILES_PANEL * HRI_TILES_PANEL];
    for (int64_t i = 0; i < rows && !first; i++) {
        memcpy(room + i * HRI_TILES_PANEL, c + i * ldc, (size_t)columns * sizeof *c);
    }
    hri_tiles_kernel(steps, of, a, b, room, HRI_TILES_PANEL, first, NULL);
    for (int64_t i = 0; i < rows; i++) {
        memcpy(c + i * ldc, room + i * HRI_TILES_PANEL, (size_t)columns * sizeof *c);
    }
}

HRI_TILES_TARGET static void hri_tiles_multiply_steps(int64_t mc, int64_t nc, int64_t steps,
                                                      const hri_tiles_a *a, const uint16_t *b,
                                                      float *c, int64_t ldc, int first) {
    HRI_TILES_BEGIN();
    for (int64_t j = 0; j < nc; j += HRI_TILES_PANEL, b += steps * HRI_TILES_STEP) {
        const int64_t columns = nc - j < HRI_TILES_PANEL ? nc - j : HRI_TILES_PANEL;
        for (int64_t i = 0; i < mc; i += HRI_TILES_PANEL) {
            const uint16_t *from = a->at + i / HRI_TILES_PANEL * a->panel;
            const int64_t rows = mc - i < HRI_TILES_PANEL ? mc - i : HRI_TILES_PANEL;
            float *to = c + i * ldc + j;
            if (rows == HRI_TILES_PANEL && columns == HRI_TILES_PANEL) {
                hri_tiles_kernel(steps, a, from, b, to, ldc, first,
                                 first ? to : to + HRI_TILES_PANEL * ldc);
            } else {
                hri_tiles_some(steps, a, from, b, to, ldc, rows, columns, first);
            }
        }
    }
    HRI_TILES_END();
}

HRI_TILES_TARGET static void hri_tiles_multiply(int64_t mc, int64_t nc, int64_t kc,
                                                const uint16_t *a, const uint16_t *b, float *c,
                                                int64_t ldc, int first) {
    static const int64_t off[HRI_TILES_MOST] = {
        0,
        HRI_TILES_STEP,
        2 * HRI_TILES_STEP,
        3 * HRI_TILES_STEP,
        4 * HRI_TILES_STEP,
        5 * HRI_TILES_STEP,
        6 * HRI_TILES_STEP,
        7 * HRI_TILES_STEP,
    };
    const int64_t steps = (kc + HRI_TILES_DEPTH - 1) / HRI_TILES_DEPTH;
    const hri_tiles_a of = {a, off, HRI_TILES_DEPTH, HRI_TILES_PART, steps * HRI_TILES_STEP};
    hri_tiles_multiply_steps(mc, nc, steps, &of, b, c, ldc, first);
}

#endif
