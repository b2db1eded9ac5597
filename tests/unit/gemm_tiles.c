/* Products by tiles of bf16 (gemm_tiles_rows.h) against double, on any processor: the unit is written out here. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HRI_TILES_TARGET
#define HRI_TILES_BEGIN()          memset(tiles, 0x5a, sizeof tiles)
#define HRI_TILES_END()            (void)0
#define HRI_TILE_ZERO(T)           memset(tiles[T], 0, sizeof tiles[T])
#define HRI_TILE_LOAD(T, FROM, BY) load_tile(T, FROM, BY)
#define HRI_TILE_STORE(T, TO, BY)  store_tile(T, TO, BY)
#define HRI_TILE_ADD(C, A, B)      add_tile(C, A, B)

static _Thread_local char tiles[8][16][64];

static void load_tile(int t, const void *from, long bytes) {
    for (int i = 0; i < 16; i++) {
        memcpy(tiles[t][i], (const char *)from + i * bytes, 64);
    }
}

static void store_tile(int t, void *to, long bytes) {
    for (int i = 0; i < 16; i++) {
        memcpy((char *)to + i * bytes, tiles[t][i], 64);
    }
}

/* Number i of a row of bf16; what is subnormal is 0 to the unit. */
static float tile_number(const char *row, int i) {
    unsigned short half;
    memcpy(&half, row + 2 * i, 2);
    const unsigned bits = (unsigned)half << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x != 0.0f && fabsf(x) < 0x1p-126f ? 0.0f : x;
}

/* Even and odd depths are added up apart, then to what is there. */
static void add_tile(int c, int a, int b) {
    float x[16][32], y[32][16];
    for (int i = 0; i < 16 * 32; i++) {
        x[i / 32][i % 32] = tile_number(tiles[a][i / 32], i % 32);
        y[i / 32 * 2 + i % 2][i % 32 / 2] = tile_number(tiles[b][i / 32], i % 32);
    }
    for (int i = 0; i < 16; i++) {
        float sum[2][16] = {{0}}, was[16];
        for (int k = 0; k < 32; k++) {
            for (int j = 0; j < 16; j++) {
                sum[k % 2][j] = fmaf(x[i][k], y[k][j], sum[k % 2][j]);
            }
        }
        memcpy(was, tiles[c][i], sizeof was);
        for (int j = 0; j < 16; j++) {
            was[j] += sum[0][j] + sum[1][j];
        }
        memcpy(tiles[c][i], was, sizeof was);
    }
}

#include "ops/common/conv_winograd.h"
#include "ops/common/gemm.h"
#include "ops/common/gemm_tiles_rows.h"
#include "test.h"

enum { M = 70, N = 75, K = 150, LD = 160 };

/* Between -1 and 1, with all 24 bits. */
static float number(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)((double)(*state >> 7) / 0x1p24 - 1.0);
}

static void fill(float *x, int n, uint32_t seed) {
    for (int i = 0; i < n; i++) {
        x[i] = number(&seed);
    }
}

typedef struct sides {
    float a[LD * LD], b[LD * LD], c[M * N], want[M * N];
    uint16_t panels_a[3 * 96 * 160], panels_b[3 * 96 * 160];
} sides;

static float side(const float *x, int straight, int i, int k) {
    return straight ? x[k * LD + i] : x[i * LD + k];
}

/* m x n x k into c; `before`: it is added. */
static void multiply(sides *s, int a_straight, int b_straight, int m, int n, int k, int first) {
    hri_tiles_pack_a(s->a, LD, a_straight, m, k, s->panels_a);
    hri_tiles_pack_b(s->b, LD, b_straight, n, k, s->panels_b);
    hri_tiles_multiply(m, n, k, s->panels_a, s->panels_b, s->c, N, first);
}

static void check(sides *s, int a_straight, int b_straight, int m, int n, int k, int first) {
    fill(s->c, M * N, 3);
    memcpy(s->want, s->c, sizeof s->c);
    multiply(s, a_straight, b_straight, m, n, k, first);
    double worst = 0.0, chain = 0.0;
    for (int i = 0; i < M * N; i++) {
        const int row = i / N, column = i % N;
        if (row >= m || column >= n) {
            CHECK(s->c[i] == s->want[i]); /* no more than was asked for */
            continue;
        }
        double sum = first ? 0.0 : (double)s->want[i], size = 1.0;
        float fused = first ? 0.0f : s->want[i];
        for (int d = 0; d < k; d++) {
            const float x = side(s->a, a_straight, row, d), y = side(s->b, b_straight, column, d);
            sum += (double)x * (double)y;
            size += fabs((double)x * (double)y);
            fused = fmaf(x, y, fused);
        }
        worst = fmax(worst, fabs((double)s->c[i] - sum) / size);
        chain = fmax(chain, fabs((double)fused - sum) / size);
    }
    CHECK(worst <= 0x1p-23);
    CHECK(k < K || worst <= 1.5 * chain); /* no less exact than f32 */
}

TEST(gemm_tiles, all_sizes_and_orders_are_as_exact_as_f32) {
    static const int sizes[][3] = {{1, 1, 1},    {16, 16, 32},  {32, 32, 64}, {33, 31, 33},
                                   {64, 64, 96}, {70, 75, 150}, {5, 40, 47},  {48, 17, 16}};
    sides *s = calloc(1, sizeof *s);
    CHECK(s);
    fill(s->a, LD * LD, 1);
    fill(s->b, LD * LD, 2);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int way = 0; way < 8; way++) {
            check(s, way & 1, way >> 1 & 1, sizes[i][0], sizes[i][1], sizes[i][2], way >> 2);
        }
    }
    free(s);
}

TEST(gemm_tiles, a_row_has_the_same_bits_among_others) {
    sides *s = calloc(1, sizeof *s);
    float row[N];
    CHECK(s);
    fill(s->a, LD * LD, 1);
    fill(s->b, LD * LD, 2);
    multiply(s, 0, 0, M, N, K, 1);
    memcpy(row, s->c + 37 * N, sizeof row);
    memmove(s->a, s->a + 37 * LD, LD * sizeof *s->a);
    multiply(s, 0, 0, 1, N, K, 1);
    CHECK(!memcmp(row, s->c, sizeof row));
    free(s);
}

/* Where number k of a row is among pairs whose numbers lie 16 apart. */
static int pair_place(int k) {
    return k / 32 * 32 + k % 16 * 2 + k % 32 / 16;
}

TEST(gemm_tiles, parts_of_a_number_are_all_of_it) {
    enum { COUNT = 77, ROWS = 3, STEP = 96 };
    float x[ROWS * COUNT];
    uint16_t parts[ROWS * 3 * STEP];
    fill(x, ROWS * COUNT, 5);
    hri_tiles_split_rows(x, COUNT, ROWS, COUNT, parts);
    for (int i = 0; i < ROWS * STEP; i++) {
        const uint16_t *at = parts + i / STEP * 3 * STEP + pair_place(i % STEP);
        float sum = 0.0f;
        for (int q = 2; q >= 0; q--) {
            sum += tile_number((const char *)(at + q * STEP), 0);
        }
        CHECK(sum == (i % STEP < COUNT ? x[i / STEP * COUNT + i % STEP] : 0.0f));
    }
}

TEST(gemm_tiles, numbers_of_every_size) {
    sides *s = calloc(1, sizeof *s);
    CHECK(s);
    for (int e = -60; e <= 60; e++) { /* exact: one product */
        s->a[0] = ldexpf(0x1.fffffep0f, e);
        s->b[0] = ldexpf(-1.0f, -e / 2);
        multiply(s, 0, 0, 1, 1, 1, 1);
        CHECK(s->c[0] == s->a[0] * s->b[0]);
    }
    s->a[1] = NAN;
    s->b[1] = 1.0f;
    multiply(s, 0, 0, 1, 1, 2, 1);
    CHECK(isnan(s->c[0]));
    const uint32_t bits = 0xffffffffu;
    memcpy(s->a + 1, &bits, sizeof bits);
    multiply(s, 0, 0, 1, 1, 2, 1);
    CHECK(isnan(s->c[0]));
    s->a[1] = INFINITY;
    multiply(s, 0, 0, 1, 1, 2, 1);
    CHECK(!isfinite(s->c[0]));
    free(s);
}

/* ---- those who use it ---- */

static const hri_gemm_tiles unit = {hri_tiles_pack_a, hri_tiles_pack_b, hri_tiles_multiply,
                                    hri_tiles_split_rows, hri_tiles_multiply_steps};
static const hri_gemm_tiles none;

static float *numbers(int64_t count, uint32_t seed) {
    float *x = malloc((size_t)(count + 1) * sizeof *x);
    CHECK(x);
    fill(x, (int)count, seed);
    return x;
}

static void run_gemm(hri_gemm g, uint32_t threads, float *c) {
    hri_threads *pool;
    CHECK(hri_threads_create(threads, &pool) == HR_OK);
    const uint64_t bytes = hri_gemm_workspace(g.batch, g.m, g.n, g.k, threads);
    float *workspace = malloc((size_t)bytes + 64);
    CHECK(workspace);
    workspace[bytes / sizeof *workspace] = 7.0f;
    g.c = c;
    hri_gemm_run(&g, pool, workspace);
    CHECK(workspace[bytes / sizeof *workspace] == 7.0f);
    free(workspace);
    hri_threads_destroy(pool);
}

static void check_gemm(int64_t batch, int64_t m, int64_t n, int64_t k, int ta, int tb, int biased) {
    float *a = numbers(batch * m * k, 1), *b = numbers(batch * k * n, 2), *bias = numbers(n, 3);
    float *c = numbers(batch * m * n, 4), *d = numbers(batch * m * n, 5);
    const hri_gemm g = {.batch = batch,
                        .m = m,
                        .n = n,
                        .k = k,
                        .pack_a = ta ? hri_pack_a_t : hri_pack_a,
                        .pack_b = tb ? hri_pack_b_t : hri_pack_b,
                        .c_type = HR_TYPE_F32,
                        .bias = biased ? bias : NULL,
                        .bias_type = HR_TYPE_F32,
                        .a = a,
                        .b = b,
                        .a_type = HR_TYPE_F32,
                        .b_type = HR_TYPE_F32,
                        .lda = ta ? m : k,
                        .ldb = tb ? k : n,
                        .a_step = m * k,
                        .b_step = k * n,
                        .tiles = &unit};
    run_gemm(g, 1, c);
    run_gemm(g, 3, d);
    CHECK(!memcmp(c, d, (size_t)(batch * m * n) * sizeof *c));
    for (int64_t i = 0; i < batch * m * n; i++) {
        const int64_t z = i / (m * n), row = i / n % m, column = i % n;
        double sum = biased ? (double)bias[column] : 0.0;
        for (int64_t q = 0; q < k; q++) {
            sum += (double)a[z * m * k + (ta ? q * m + row : row * k + q)] *
                   (double)b[z * k * n + (tb ? column * k + q : q * n + column)];
        }
        CHECK(fabs(sum - (double)c[i]) <= 2e-7 * sqrt((double)k) * 4.0);
    }
    free(a);
    free(b);
    free(bias);
    free(c);
    free(d);
}

TEST(gemm_tiles, products_of_every_order) {
    for (int way = 0; way < 4; way++) {
        check_gemm(1, 75, 72, 90, way & 1, way >> 1, 1);
        check_gemm(2, 33, 40, 300, way & 1, way >> 1, 0);
    }
    check_gemm(1, 20, 400, 225, 0, 0, 1); /* two tiles of columns, the least room */
    check_gemm(1, 40, 36, 2100, 1, 0, 1); /* parts of the depth */
}

typedef struct conv_sides {
    hri_conv v;
    float *x, *w, *dy, *bias;
} conv_sides;

enum { FORWARD, INPUT };

/* The result of one of the two. */
static float *run_conv(const conv_sides *s, int which, const hri_gemm_tiles *of, uint32_t threads) {
    hri_conv v = s->v;
    v.tiles = of;
    const int64_t count = which == FORWARD ? v.n * v.oh * v.ow * v.o : v.n * v.h * v.w * v.c;
    float *out = numbers(count, 9);
    const hr_meta meta[3] = {{.type = HR_TYPE_F32}, {.type = HR_TYPE_F32}, {.type = HR_TYPE_F32}};
    const hri_sig sig = {
        .in_count = which == FORWARD ? 3 : 2, .out_count = 1, .in = meta, .out = meta};
    const void *in[3] = {which == INPUT ? s->dy : s->x, s->w, s->bias};
    void *to[1] = {out};
    const uint64_t bytes = which == FORWARD ? hri_winograd_forward_workspace(&v, threads)
                                            : hri_winograd_input_workspace(&v, threads);
    hri_call c = {.sig = &sig, .in = in, .out = to, .workspace = malloc((size_t)bytes + 64)};
    CHECK(c.workspace && hri_threads_create(threads, &c.threads) == HR_OK);
    float *const end = (float *)c.workspace + bytes / sizeof(float);
    *end = 7.0f;
    (which == FORWARD ? hri_winograd_forward : hri_winograd_input)(&v, &c);
    CHECK(*end == 7.0f);
    hri_threads_destroy(c.threads);
    free(c.workspace);
    return out;
}

/* By tiles and by Winograd's products, which have bits of their own; parts of a batch have the same bits. */
static void check_conv(int64_t n, int64_t h, int64_t w, int64_t c, int64_t o, int64_t ph,
                       int64_t pw, int used) {
    conv_sides s = {.v = {.n = n,
                          .h = h,
                          .w = w,
                          .c = c,
                          .o = o,
                          .kh = 3,
                          .kw = 3,
                          .sh = 1,
                          .sw = 1,
                          .ph = ph,
                          .pw = pw,
                          .dh = 1,
                          .dw = 1,
                          .groups = 1,
                          .cg = c,
                          .og = o,
                          .ph_after = ph,
                          .pw_after = pw}};
    s.v.oh = h + 2 * ph - 2;
    s.v.ow = w + 2 * pw - 2;
    s.x = numbers(n * h * w * c, 1);
    s.w = numbers(9 * c * o, 2);
    s.dy = numbers(n * s.v.oh * s.v.ow * o, 3);
    s.bias = numbers(o, 4);
    const int64_t counts[] = {s.v.oh * s.v.ow * o, h * w * c};
    const int64_t depths[] = {9 * c, 9 * o};
    for (int which = FORWARD; which <= INPUT; which++) {
        float *is = run_conv(&s, which, &unit, 1), *was = run_conv(&s, which, &none, 1);
        float *again = run_conv(&s, which, &unit, 3);
        const int64_t all = counts[which] * n;
        int same = 1;
        for (int64_t i = 0; i < all; i++) {
            const double bound = 4e-6 * sqrt((double)depths[which]);
            CHECK(fabs((double)is[i] - (double)was[i]) <= bound);
            same = same && is[i] == was[i];
        }
        CHECK(same == !used); /* whether units had room */
        CHECK(!memcmp(is, again, (size_t)all * sizeof *is));
        if (n > 1) { /* the last image by itself */
            conv_sides last = s;
            last.v.n = 1;
            last.x += (n - 1) * h * w * c;
            last.dy += (n - 1) * s.v.oh * s.v.ow * o;
            float *alone = run_conv(&last, which, &unit, 1);
            CHECK(!memcmp(alone, is + (n - 1) * counts[which], (size_t)counts[which] * sizeof *is));
            free(alone);
        }
        free(is);
        free(was);
        free(again);
    }
    free(s.x);
    free(s.w);
    free(s.dy);
    free(s.bias);
}

/* A sanitizer makes minutes of the larger ones where the unit is emulated. */
TEST(gemm_tiles, convolutions_of_every_shape) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    check_conv(1, 7, 7, 64, 64, 1, 1, 1);
#else
    check_conv(3, 7, 7, 64, 64, 1, 1, 1);  /* several images in a band */
    check_conv(1, 4, 70, 64, 64, 1, 1, 1); /* two bands across */
    check_conv(2, 10, 9, 96, 96, 0, 2, 1); /* blocks of channels */
#endif
    check_conv(2, 9, 8, 40, 72, 1, 1, 0); /* channels that fill no step: no room */
    check_conv(1, 3, 3, 32, 32, 0, 0, 0); /* one output */
}
