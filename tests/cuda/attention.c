/* Parts of attention with a mask: what is mended behind a library, whose own results cannot be had without it, keys that are shown, words
 * of bits, gradients of keys that end inside a tile. */
#include "desk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref.h"

HRI_CU(attention_blind);
HRI_CU(attention_keys);
HRI_CU(attention_words);

enum { T = 6, S = 3, D = 4 };
#define LOW -1e30f

/* As attention_blind.cu has it. */
typedef struct blind {
    int64_t rows, queries, keys, o_batch, o_row, v_batch, v_row, mask_batch, mask_head, mask_row;
    int32_t heads, depth;
    float low;
} blind;

static tensor placed(desk *d, const float *from, int64_t count) {
    tensor t = desk_tensor(d, HR_TYPE_F32, count);
    CHECK_OK(hr_copy(d->queue, t.block.addr, host_addr(from), (uint64_t)count * sizeof *from));
    CHECK_OK(hr_queue_sync(d->queue));
    return t;
}

TEST(attention, rows_that_see_nothing_are_mended_behind_a_library) {
    static const float n = -INFINITY, far = -3e38f;
    static const float mask[T][S] = {{n, 0, 1},      {n, n, n}, {far, far, far},
                                     {n, -2e38f, n}, {0, 0, n}, {-1e29f, -1e29f, -1e29f}};
    static const float lse[T] = {0.5f, LOW, 1.000001f * LOW, LOW, NAN, -1e29f};
    float o[T * D], v[S * D];
    desk d;
    for (int i = 0; i < T * D; i++) {
        o[i] = 7.0f;
    }
    for (int i = 0; i < S * D; i++) {
        v[i] = (float)(i * i);
    }
    desk_open(&d, (hri_gpu_options){.no_cudnn = 1, .no_cublaslt = 1});
    tensor to = placed(&d, o, T * D), stats = placed(&d, lse, T), m = placed(&d, mask[0], T * S);
    tensor values = placed(&d, v, S * D);
    blind k = {.rows = T,
               .queries = T,
               .keys = S,
               .o_row = D,
               .v_row = D,
               .mask_row = S,
               .heads = 1,
               .depth = D,
               .low = LOW};
    hr_addr at[] = {to.block.addr, stats.block.addr, m.block.addr, values.block.addr};
    const hri_gpu_grid grid = {.x = 1, .threads = 128};
    desk_check(&d,
               hri_gpu_launch(d.gpu, &hri_cu_attention_blind,
                              "-DELEM=float -DMELEM=float -DCAUSAL=0", "attention_blind", &grid,
                              HRI_GPU_ARGS(&at[0], &at[1], &at[2], &at[3], &k)),
               "the kernel");
    desk_sync(&d);
    double *is = desk_read(&d, &to), *sums = desk_read(&d, &stats);
    for (int i = 0; i < D; i++) {
        const double mean = (v[i] + v[D + i] + v[2 * D + i]) / 3.0;
        CHECK(is[i] == 7.0 && is[5 * D + i] == 7.0); /* it sees, and weighs large numbers itself */
        CHECK(is[D + i] == 0.0);                     /* nothing */
        CHECK(fabs(is[2 * D + i] - mean) < 1e-4);    /* all the same */
        CHECK(is[3 * D + i] == (double)v[D + i]);    /* one key alone */
        CHECK(isnan(is[4 * D + i]));                 /* what is no number stays none */
    }
    CHECK(sums[0] == 0.5);
    CHECK(isinf(sums[1]) && sums[1] > 0 && isnan(sums[4]));
    /* Of large numbers alone: how large, and how many. */
    CHECK(fabs(sums[2] - 0x1p100 * (1.875 + (log(3.0) - 16.0 * 92) / 2048)) < 0x1p87);
    CHECK(fabs(sums[3] - 0x1p100 * (1.875 - 16.0 * 92 / 2048)) < 0x1p87);
    CHECK(fabs(sums[5] - 0x1p100 * (1.875 + (log(3.0) - 16.0 * (log2(1e29) - 28)) / 2048)) <
          0x1p87);
    free(is), free(sums);
    desk_free(&d, &to), desk_free(&d, &stats), desk_free(&d, &m), desk_free(&d, &values);
    desk_close(&d);
}

/* As attention_keys.cu has it. */
typedef struct picked {
    int64_t samples, queries, keys, mask_batch, k_batch, k_row, v_batch, v_row;
    int32_t pieces, heads;
} picked;

enum { SAMPLES = 3, KEYS = 1100, WIDTH = 8, EDGE = 256 }; /* a row is two pieces of f32 */

static int shows(int b, int j) {
    return b == 0 ? j % 3 != 1 : b == 1 ? j < 700 : 0;
}

TEST(attention, keys_that_are_shown_lie_close_together_and_go_back) {
    static float from[2][SAMPLES * KEYS * WIDTH];
    uint8_t mask[SAMPLES * KEYS];
    desk d;
    for (int i = 0; i < SAMPLES * KEYS * WIDTH; i++) {
        from[0][i] = (float)(i + 1), from[1][i] = (float)(-i - 1);
    }
    for (int i = 0; i < SAMPLES * KEYS; i++) {
        mask[i] = (uint8_t)(shows(i / KEYS, i % KEYS) ? 1 + i % 7 : 0);
    }
    desk_open(&d, (hri_gpu_options){.no_cudnn = 1, .no_cublaslt = 1});
    const int64_t count = SAMPLES * KEYS * WIDTH;
    tensor k = placed(&d, from[0], count), v = placed(&d, from[1], count);
    tensor close_k = desk_tensor(&d, HR_TYPE_F32, count),
           close_v = desk_tensor(&d, HR_TYPE_F32, count);
    tensor bytes = desk_tensor(&d, HR_TYPE_U8, SAMPLES * KEYS);
    tensor lengths = desk_tensor(&d, HR_TYPE_I32, 3 * 64),
           lse = desk_tensor(&d, HR_TYPE_F32, SAMPLES * 4);
    CHECK_OK(hr_copy(d.queue, bytes.block.addr, host_addr(mask), sizeof mask));
    picked p = {.samples = SAMPLES,
                .queries = 2,
                .keys = KEYS,
                .mask_batch = KEYS,
                .pieces = 2,
                .heads = 2};
    p.k_batch = p.v_batch = KEYS * 2, p.k_row = p.v_row = 2;
    hr_addr at[] = {bytes.block.addr,
                    k.block.addr,
                    v.block.addr,
                    close_k.block.addr,
                    close_v.block.addr,
                    lengths.block.addr,
                    lengths.block.addr + 256,
                    lengths.block.addr + 512,
                    lse.block.addr};
    const hri_gpu_grid grid = {.x = SAMPLES * ((KEYS + 31) / 32), .threads = 256};
    desk_check(&d,
               hri_gpu_launch(d.gpu, &hri_cu_attention_keys, "", "attention_gather", &grid,
                              HRI_GPU_ARGS(&at[0], &at[1], &at[2], &at[3], &at[4], &at[5], &at[6],
                                           &at[7], &p)),
               "gather");
    desk_sync(&d);
    double *gk = desk_read(&d, &close_k), *gv = desk_read(&d, &close_v),
           *n = desk_read(&d, &lengths);
    for (int b = 0; b < SAMPLES; b++) {
        int rank = 0;
        for (int j = 0; j < KEYS; j++) {
            for (int w = 0; w < WIDTH && shows(b, j); w++) {
                const int is = (b * KEYS + rank) * WIDTH + w;
                CHECK(gk[is] == (double)((b * KEYS + j) * WIDTH + w + 1) && gv[is] == -gk[is]);
            }
            rank += shows(b, j);
        }
        CHECK(n[b] == 2 && n[64 + b] == (rank ? rank : 1) && n[128 + b] == rank);
        const int edge = ((rank ? rank : 1) + EDGE - 1) / EDGE * EDGE;
        for (int i = rank * WIDTH; i < (edge < KEYS ? edge : KEYS) * WIDTH; i++) {
            CHECK(gk[b * KEYS * WIDTH + i] == 0.0 && gv[b * KEYS * WIDTH + i] == 0.0);
        }
    }
    /* And back, over what was there: hidden ones become 0. */
    desk_check(&d,
               hri_gpu_launch(d.gpu, &hri_cu_attention_keys, "", "attention_scatter", &grid,
                              HRI_GPU_ARGS(&at[0], &at[3], &at[4], &at[1], &at[2], &p)),
               "scatter");
    const hri_gpu_grid rows = {.x = SAMPLES, .threads = 256};
    desk_check(&d,
               hri_gpu_launch(d.gpu, &hri_cu_attention_keys, "", "attention_unseen", &rows,
                              HRI_GPU_ARGS(&at[7], &at[8], &p)),
               "unseen");
    desk_sync(&d);
    double *bk = desk_read(&d, &k), *bv = desk_read(&d, &v), *inf = desk_read(&d, &lse);
    for (int i = 0; i < count; i++) {
        const int seen = shows(i / WIDTH / KEYS, i / WIDTH % KEYS);
        CHECK(bk[i] == (seen ? (double)(i + 1) : 0.0) && bv[i] == (seen ? (double)(-i - 1) : 0.0));
    }
    for (int i = 0; i < 4; i++) {
        CHECK(isinf(inf[8 + i]) && inf[8 + i] > 0);
    }
    free(gk), free(gv), free(n), free(bk), free(bv), free(inf);
    desk_free(&d, &k), desk_free(&d, &v), desk_free(&d, &close_k), desk_free(&d, &close_v);
    desk_free(&d, &bytes), desk_free(&d, &lengths), desk_free(&d, &lse);
    desk_close(&d);
}

enum { ROWS_OF = 20, KEYS_OF = 72, SHOWN = 1, ADDED = 2, HIDDEN = 4, FINITE = 8 };

/* 0, minus infinity, a number that hides, or one that is added from key 64 on. */
static float mask_at(int row, int key) {
    return row >= ROWS_OF || key >= KEYS_OF ? -INFINITY
           : (row * 7 + key) % 5 == 0       ? -INFINITY
           : row == 17 && key % 3 == 0      ? -1e30f
           : key > 64 && row < 16           ? 0.5f
                                            : 0.0f;
}

/* Query and key of a bit, as src/ops/cuda/attention_words.cu says it. */
static float of_bit(int turned, int r0, int c0, int lane, int bit) {
    const int n = bit / 16 * 4 + bit % 8 / 2, i = bit / 8 % 2, half = bit % 2;
    const int row = r0 + lane / 4 + half * 8;
    const int column = c0 + (turned ? n * 8 + lane % 4 * 2 + i : lane % 4 * 16 + n * 2 + i);
    return turned ? mask_at(column, row) : mask_at(row, column);
}

static void check_words(int turned, int whole) {
    const int along = turned ? 5 : 2, across = turned ? 1 : 2, rows = turned ? KEYS_OF : ROWS_OF;
    int64_t tiles = along * across, down = along, right = across, queries = ROWS_OF, keys = KEYS_OF;
    int64_t pitch = (KEYS_OF + 63) / 64 * 64;
    float mask[ROWS_OF * KEYS_OF];
    char defines[96];
    desk d;
    for (int i = 0; i < ROWS_OF * KEYS_OF; i++) {
        mask[i] = mask_at(i / KEYS_OF, i % KEYS_OF);
    }
    desk_open(&d, (hri_gpu_options){.no_cudnn = 1, .no_cublaslt = 1});
    tensor m = placed(&d, mask, ROWS_OF * KEYS_OF);
    tensor words = desk_tensor(&d, HR_TYPE_I32, tiles * 32), seen = desk_tensor(&d, HR_TYPE_U8, 64);
    tensor copy = desk_tensor(&d, HR_TYPE_F32, ROWS_OF * pitch);
    hr_addr at[] = {m.block.addr, words.block.addr, seen.block.addr, copy.block.addr, 0};
    uint32_t none = 0; /* counters */
    const hri_gpu_grid grid = {.x = 1, .threads = 256};
    snprintf(defines, sizeof defines, "-DMELEM=float -DCAUSAL=0 -DWHOLE=%d -DTURNED=%d -DCOPY=1",
             whole, turned);
    desk_check(&d,
               hri_gpu_launch(d.gpu, &hri_cu_attention_words, defines, "attention_words", &grid,
                              HRI_GPU_ARGS(&at[0], &at[1], &at[2], &tiles, &down, &right, &queries,
                                           &queries, &keys, &at[3], &pitch, &at[4], &none)),
               "words");
    desk_sync(&d);
    double *is = desk_read(&d, &words), *flags = desk_read(&d, &seen),
           *again = desk_read(&d, &copy);
    for (int i = 0; i < ROWS_OF * pitch; i++) {
        const int64_t key = i % pitch;
        const float x = key < KEYS_OF ? mask_at(i / (int)pitch, (int)key) : 0.0f;
        CHECK(again[i] == (double)x || (turned && key >= 16 * along));
    }
    for (int tile = 0; tile < tiles; tile++) {
        const int r0 = tile / across * 16, c0 = tile % across * 64;
        int should = 0;
        for (int i = 0; i < 32 * 32; i++) {
            const float x = of_bit(turned, r0, c0, i / 32, i % 32);
            const uint32_t word = (uint32_t)(int32_t)is[tile * 32 + i / 32];
            CHECK((word >> i % 32 & 1u) == (x > -1e30f));
            should |= (x > -1e30f ? SHOWN : HIDDEN) | (x > -1e30f && x != 0.0f ? ADDED : 0) |
                      (x == -1e30f ? FINITE : 0);
        }
        CHECK((int)flags[tile] == should || r0 >= rows);
    }
    free(is), free(flags), free(again);
    desk_free(&d, &m), desk_free(&d, &words), desk_free(&d, &seen), desk_free(&d, &copy);
    desk_close(&d);
}

TEST(attention, words_say_what_a_mask_does) {
    for (int i = 0; i < 4; i++) {
        check_words(i / 2, i % 2);
    }
}

/* Numbers of tiles, those of a thread in the order of its scores.  For gradients (turned) nothing hides but minus infinity. */
static void check_tiles(int turned) {
    const int along = turned ? 5 : 2, across = turned ? 1 : 2;
    int64_t tiles = along * across, down = along, right = across, queries = ROWS_OF, keys = KEYS_OF;
    int64_t pitch = 0;
    float mask[ROWS_OF * KEYS_OF];
    char defines[96];
    desk d;
    for (int i = 0; i < ROWS_OF * KEYS_OF; i++) {
        mask[i] = mask_at(i / KEYS_OF, i % KEYS_OF);
    }
    desk_open(&d, (hri_gpu_options){.no_cudnn = 1, .no_cublaslt = 1});
    tensor m = placed(&d, mask, ROWS_OF * KEYS_OF);
    tensor words = desk_tensor(&d, HR_TYPE_I32, tiles * 32), seen = desk_tensor(&d, HR_TYPE_U8, 64);
    tensor copy = desk_tensor(&d, HR_TYPE_F32, tiles * 1024);
    hr_addr at[] = {m.block.addr, words.block.addr, seen.block.addr, copy.block.addr, 0};
    uint32_t none = 0; /* counters */
    const hri_gpu_grid grid = {.x = 2, .threads = 256};
    snprintf(defines, sizeof defines, "-DMELEM=float -DWHOLE=1 -DTURNED=%d -DTILED=1", turned);
    desk_check(&d,
               hri_gpu_launch(d.gpu, &hri_cu_attention_words, defines, "attention_words", &grid,
                              HRI_GPU_ARGS(&at[0], &at[1], &at[2], &tiles, &down, &right, &queries,
                                           &queries, &keys, &at[3], &pitch, &at[4], &none)),
               "tiles");
    desk_sync(&d);
    double *is = desk_read(&d, &words), *flags = desk_read(&d, &seen),
           *numbers = desk_read(&d, &copy);
    int adding = 0;
    for (int i = 0; i < tiles * 1024; i++) {
        const int tile = i / 1024, lane = i / 4 % 32, n = i / 128 % 8, half = i / 2 % 2;
        const int bit = n / 4 * 16 + i % 2 * 8 + n % 4 * 2 + half;
        const float x = of_bit(turned, tile / across * 16, tile % across * 64, lane, bit);
        const int shown = turned ? x > -INFINITY : x > -1e30f;
        CHECK(((uint32_t)(int32_t)is[tile * 32 + lane] >> bit & 1u) == (uint32_t)shown);
        if ((int)flags[tile] & ADDED) {
            CHECK(numbers[i] == (shown ? (double)x : 0.0));
            adding++;
        }
    }
    CHECK(adding > 0);
    free(is), free(flags), free(numbers);
    desk_free(&d, &m), desk_free(&d, &words), desk_free(&d, &seen), desk_free(&d, &copy);
    desk_close(&d);
}

TEST(attention, numbers_lie_as_threads_have_their_scores) {
    check_tiles(0);
    check_tiles(1);
}

/* ---- keys that end inside a tile ---- */

static tensor same(desk *d, const hr_meta *m, double x) {
    const int64_t count = hr_shape_count(&m->shape);
    tensor t = desk_tensor(d, m->type, count);
    void *host = calloc((size_t)count, hr_type_bytes(m->type));
    CHECK(host != NULL);
    for (int64_t i = 0; i < count; i++) {
        ref_store(m->type, host, i, x);
    }
    CHECK_OK(hr_copy(d->queue, t.block.addr, host_addr(host), hr_meta_bytes(m)));
    CHECK_OK(hr_queue_sync(d->queue));
    free(host);
    return t;
}

/* All weights are alike, and low; do, k and v are 1, o is 8.  What lies behind the last key would weigh much more. */
static void check_behind(int depth, int keys, int bytes) {
    const double fill[] = {1, bytes ? -20.0 / depth : 0.0, 1, 1, 8, 0, bytes ? 1.0 : -20.0};
    char text[256];
    desk d;
    hr_meta in[HRI_IN_MAX], out[HRI_OUT_MAX];
    hri_attr attr;
    tensor from[7], to[3], room;
    hr_addr in_at[7], out_at[3];
    const hr_op *op = hri_op_find("attention_masked_grad");
    snprintf(text, sizeof text,
             "f16[1,3,1,%d] f16[1,3,1,%d] f16[1,%d,1,%d] f16[1,%d,1,%d] f16[1,3,1,%d] f32[1,1,3] "
             "%s[1,1,3,%d]",
             depth, depth, keys, depth, keys, depth, depth, bytes ? "u8" : "f16", keys);
    CHECK_EQ(ref_parse(text, in), 7);
    CHECK_OK(hri_attr_parse(op, "scale=1", &attr, NULL));
    CHECK_OK(op->infer(&(hri_infer){.attr = &attr, .in_count = 7, .in = in, .out = out}));
    const hri_sig sig = {
        .op = op, .attr = &attr, .in_count = 7, .out_count = 3, .in = in, .out = out};
    desk_open(&d, (hri_gpu_options){.no_cudnn = 1, .no_cublaslt = 1});
    for (int i = 0; i < 7; i++) {
        from[i] = same(&d, &in[i], i == 5 ? -20.0 + log(keys) : fill[i]);
        in_at[i] = from[i].block.addr;
    }
    for (int i = 0; i < 3; i++) {
        to[i] = desk_tensor(&d, HR_TYPE_F16, hr_shape_count(&out[i].shape));
        out_at[i] = to[i].block.addr;
    }
    hri_gpu_call c = {.gpu = d.gpu,
                      .kernel = hri_kernel_for(&hri_kernels_cuda, &sig),
                      .sig = &sig,
                      .in = in_at,
                      .out = out_at};
    c.workspace_bytes = hri_kernel_launch_workspace(c.kernel, &sig, d.gpu, 0);
    room = desk_tensor(&d, HR_TYPE_U8, (int64_t)c.workspace_bytes);
    c.workspace = room.block.addr;
    desk_check(&d, hri_op_launch(&c), "attention_masked_grad");
    desk_sync(&d);
    double *dq = desk_read(&d, &to[0]);
    for (int i = 0; i < 3 * depth; i++) {
        CHECK(fabs(dq[i] + 7.0 * depth) < 0.02 * 7.0 * depth); /* depth - 8 depth, once in all */
    }
    free(dq);
    for (int i = 0; i < 10; i++) {
        desk_free(&d, i < 7 ? &from[i] : &to[i - 7]);
    }
    desk_free(&d, &room);
    desk_close(&d);
}

TEST_TIMEOUT(attention, nothing_behind_the_last_key_weighs_anything_backward, 300) {
    check_behind(8, 65, 0);
    check_behind(8, 72, 0);
    check_behind(72, 131, 0);
    check_behind(8, 72, 1);
    check_behind(8, 80, 1);
}
