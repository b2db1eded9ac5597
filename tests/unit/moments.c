/* Optimizer state in bf16 and 8 bit: codes, rounding at random, and what a training step makes of it. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "graph/graph.h"
#include "graph/half.h"
#include "ops/common/codes.h"
#include "test.h"

static int rising(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

TEST(moments, both_maps_have_256_numbers_with_0_and_1_among_them) {
    for (int positive = 0; positive < 2; positive++) {
        hri_codes c;
        float sorted[256];
        int zeros = 0, ones = 0;
        hri_codes_init(&c, positive);
        memcpy(sorted, c.value, sizeof sorted);
        qsort(sorted, 256, sizeof sorted[0], rising);
        for (int i = 0; i < 256; i++) {
            CHECK(i == 0 || sorted[i] > sorted[i - 1]);
            zeros += sorted[i] == 0.0f;
            ones += sorted[i] == 1.0f;
        }
        CHECK(zeros == 1 && ones == 1 && c.value[0] == 0.0f);
        CHECK(positive ? sorted[0] == 0.0f : sorted[0] > -1.0f);
        /* the smallest middle there is: of one part of [0.1, 1], or of two */
        const double least = positive ? 3.25e-7 : 5.5e-7;
        CHECK(fabs((double)sorted[positive ? 1 : 128] - least) < 1e-13);
    }
}

TEST(moments, a_code_is_coded_as_itself) {
    for (int positive = 0; positive < 2; positive++) {
        hri_codes c;
        unsigned char block[HRI_CODES_BLOCK_BYTES];
        uint32_t draws[256];
        hri_codes_init(&c, positive);
        for (int round = 0; round < 2; round++) {
            hri_random_fill_u32(1, 2, 3, 4, 0, draws, 256);
            hri_codes_encode(&c, c.value, 256, round ? draws : NULL, 0, block);
            for (int i = 0; i < 256; i++) {
                CHECK_EQ(block[4 + i], i);
            }
        }
    }
}

/* The neighbours that a search over all codes finds, at every code, just under it and just over it, and in between. */
TEST(moments, the_nearest_code_is_that_of_a_search_over_all) {
    for (int positive = 0; positive < 2; positive++) {
        hri_codes c;
        unsigned char block[HRI_CODES_BLOCK_BYTES];
        hri_codes_init(&c, positive);
        for (int i = 0; i < 4 * (positive ? 256 : 129); i++) {
            const float m = c.magnitude[i / 4], next = c.magnitude[i / 4 + 1];
            const float x[2] = {1.0f, i % 4 == 0   ? m
                                      : i % 4 == 1 ? nextafterf(m, 0)
                                      : i % 4 == 2 ? nextafterf(m, 1)
                                                   : m + (isinf(next) ? 0 : (next - m) * 0.3f)};
            float best = INFINITY;
            int code = 0;
            hri_codes_encode(&c, x, 2, NULL, 0, block);
            for (int k = 0; k < (positive ? 256 : 129); k++) {
                const float far = fabsf(x[1] - c.magnitude[k]);
                code = far < best ? k : code;
                best = far < best ? far : best;
            }
            code += positive && code == 0 && x[1] > 0;
            CHECK_EQ(block[5], code);
        }
    }
}

/* Numbers over many magnitudes, as moments are: exp of a normal number. */
static void heavy(float *out, uint64_t n, int positive) {
    hri_random r = hri_random_at(test_seed(), 0, 1, 0);
    for (uint64_t i = 0; i < n; i++) {
        const float x = expf(2.0f * hri_random_normal(&r));
        out[i] = !positive && hri_random_u32(&r) & 1u ? -x : x;
    }
}

TEST(moments, the_median_error_is_a_few_percent) {
    enum { N = 64 * 256 + 100 };
    static float x[N], y[N], error[N];
    unsigned char *blocks = malloc((size_t)hri_codes_bytes(N));
    CHECK(blocks != NULL);
    for (int positive = 0; positive < 2; positive++) {
        hri_codes c;
        hri_codes_init(&c, positive);
        heavy(x, N, positive);
        hri_codes_encode(&c, x, N, NULL, 0, blocks);
        hri_codes_decode(&c, blocks, N, y);
        for (int i = 0; i < N; i++) {
            error[i] = fabsf(y[i] - x[i]) / fabsf(x[i]);
        }
        qsort(error, N, sizeof error[0], rising);
        CHECK_LE((double)error[N / 2], 0.035);
    }
    free(blocks);
}

/* The mean over draws is the number itself, within 4 standard errors; and only its neighbours are drawn. */
static void check_mean(double sum, double squares, double n, double want) {
    const double mean = sum / n, spread = sqrt(fmax(squares / n - mean * mean, 0) / n);
    if (!(fabs(mean - want) <= 4 * spread + 1e-7 * fabs(want))) {
        test_fail(__FILE__, __LINE__, "the mean of %.9g is %.9g, one error %.3g", want, mean,
                  spread);
    }
}

TEST(moments, rounding_at_random_is_right_on_average) {
    enum { DRAWS = 1 << 18, PIECE = 1024 };
    static const float numbers[] = {1.0f, 1.001f, -0.3f, 3e-5f, 1e-39f, 255.9f, -1e30f, 0.9999f};
    uint32_t draws[PIECE];
    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
        double sum = 0, squares = 0;
        float low = INFINITY, high = -INFINITY;
        for (uint64_t at = 0; at < DRAWS; at += PIECE) {
            hri_random_fill_u32(5, (uint32_t)k, 7, 0xffffffffu, at, draws, PIECE);
            for (int i = 0; i < PIECE; i++) {
                const float y = hri_from_bf16(hri_to_bf16_drawn(numbers[k], draws[i]));
                const double z = (double)y / (double)numbers[k];
                sum += z;
                squares += z * z;
                low = fminf(low, y);
                high = fmaxf(high, y);
            }
        }
        CHECK(low <= numbers[k] && high >= numbers[k]);
        CHECK_LE((double)(high - low), ldexp(fabs((double)numbers[k]), -7) + 1e-40);
        check_mean(sum, squares, DRAWS, 1.0);
    }
    static const float kept[] = {0.0f, -0.0f, INFINITY, -INFINITY, 1.5f};
    for (uint32_t draw = 0; draw < 65536; draw += 4369) {
        for (size_t k = 0; k < sizeof kept / sizeof kept[0]; k++) {
            const float y = hri_from_bf16(hri_to_bf16_drawn(kept[k], draw));
            CHECK(y == kept[k] && !signbit(y) == !signbit(kept[k]));
        }
        CHECK(isnan(hri_from_bf16(hri_to_bf16_drawn(NAN, draw))));
    }
}

TEST(moments, codes_drawn_are_right_on_average) {
    enum { ROUNDS = 4096 };
    float x[256], y[256];
    static double sum[256], squares[256];
    unsigned char block[HRI_CODES_BLOCK_BYTES];
    uint32_t draws[256];
    hri_codes c;
    hri_codes_init(&c, 0);
    heavy(x, 256, 0);
    x[0] = 100.0f; /* the largest, so that -1 is not asked for */
    for (uint32_t r = 0; r < ROUNDS; r++) {
        hri_random_fill_u32(5, r, 7, 0xffffffffu, 0, draws, 256);
        hri_codes_encode(&c, x, 256, draws, 16, block);
        hri_codes_decode(&c, block, 256, y);
        for (int i = 0; i < 256; i++) {
            sum[i] += (double)y[i] / (double)x[i];
            squares[i] += (double)y[i] / (double)x[i] * (double)y[i] / (double)x[i];
        }
    }
    double all = 0;
    for (int i = 0; i < 256; i++) {
        const double mean = sum[i] / ROUNDS,
                     spread = sqrt(fmax(squares[i] / ROUNDS - mean * mean, 0) / ROUNDS);
        CHECK_LE(fabs(mean - 1), 5 * spread + 1e-5);
        all += mean / 256;
    }
    CHECK_LE(fabs(all - 1), 1e-3);
}

TEST(moments, zeros_and_what_is_not_finite_stay) {
    hri_codes c;
    unsigned char blocks[2 * HRI_CODES_BLOCK_BYTES];
    float x[300] = {0}, y[300];
    hri_codes_init(&c, 0);
    memset(blocks, 0xff, sizeof blocks);
    x[280] = INFINITY;
    hri_codes_encode(&c, x, 300, NULL, 0, blocks);
    for (int i = 0; i < HRI_CODES_BLOCK_BYTES; i++) {
        CHECK_EQ(blocks[i], 0); /* memory of zeros is state of zeros */
    }
    hri_codes_decode(&c, blocks, 300, y);
    CHECK(y[7] == 0.0f && isinf(y[280]));
    x[281] = NAN;
    hri_codes_encode(&c, x, 300, NULL, 0, blocks);
    hri_codes_decode(&c, blocks, 300, y);
    CHECK(isnan(y[281]) && y[7] == 0.0f);
}

/* It is divided by: too large is a small step, 0 is one without bound. */
TEST(moments, a_second_moment_never_becomes_0) {
    hri_codes c;
    unsigned char block[HRI_CODES_BLOCK_BYTES];
    float x[3] = {1.0f, 1e-20f, 0.0f}, y[3];
    hri_codes_init(&c, 1);
    hri_codes_encode(&c, x, 3, NULL, 0, block);
    hri_codes_decode(&c, block, 3, y);
    CHECK(y[0] == 1.0f && y[1] > 0.0f && y[2] == 0.0f);
}

/* A second moment that falls by a thousandth a step, far less than half a step of bf16. */
TEST(moments, a_second_moment_falls_as_it_does_in_f32) {
    enum { N = 512, STEPS = 8000 };
    static hri_bf16 v[N];
    static uint32_t draws[N];
    double want = 1.0, mean = 0;
    for (int i = 0; i < N; i++) {
        v[i] = hri_to_bf16(1.0f);
    }
    for (uint32_t t = 0; t < STEPS; t++) {
        hri_random_fill_u32(5, t, 7, 0xffffffffu, 0, draws, N);
        want = 0.999 * want + 0.001 * 1e-4;
        for (int i = 0; i < N; i++) {
            v[i] = hri_to_bf16_drawn(0.999f * hri_from_bf16(v[i]) + 0.001f * 1e-4f, draws[i]);
        }
    }
    for (int i = 0; i < N; i++) {
        mean += (double)hri_from_bf16(v[i]) / N;
    }
    CHECK_LE(fabs(mean / want - 1), 0.03);
    CHECK(hri_from_bf16(hri_to_bf16(0.999f)) == 1.0f); /* what rounding to the nearest does */
}

/* ---- the graph of a step ---- */

static hr_graph *step_of(const char *options, hr_step_kind kind) {
    hr_train_options o = {.size = sizeof o};
    hr_model *model;
    hr_graph *g;
    hr_error why = {0};
    CHECK_OK(hr_train_options_parse(options, &o, &why));
    CHECK_OK(hr_model_open("mlp:size=8,width=96,classes=10", &model, &why));
    CHECK_OK(hr_step_build(&o, hr_model_build, model, kind, 4, &g, &why));
    hr_model_close(model);
    return g;
}

static hr_meta meta_of(const hr_graph *g, const char *name) {
    const hr_value v = hr_graph_find(g, name);
    CHECK(v != HR_NONE);
    return g->values[v].meta;
}

TEST(moments, large_tensors_have_codes_and_small_ones_f32) {
    hr_graph *g = step_of("optimizer=adamw,moments=8bit", HR_STEP_WHOLE);
    const hr_meta w = meta_of(g, "layers.0.weight"), first = meta_of(g, "layers.0.weight.first");
    CHECK(first.type == HR_TYPE_U8 && first.shape.rank == 1);
    CHECK_EQ(first.shape.dim[0], hri_codes_bytes(hr_shape_count(&w.shape)));
    CHECK_EQ(meta_of(g, "layers.0.bias.second").type, HR_TYPE_F32);
    hr_graph_destroy(g);
    g = step_of("optimizer=adamw,moments=bf16", HR_STEP_WHOLE);
    CHECK_EQ(meta_of(g, "layers.0.weight.second").type, HR_TYPE_BF16);
    CHECK_EQ(meta_of(g, "layers.0.bias.second").type, HR_TYPE_BF16);
    hr_graph_destroy(g);
}

/* A small velocity would round with every piece: parts are summed up in f32 instead. */
TEST(moments, small_velocities_take_no_gradients_in_pieces) {
    hr_graph *g = step_of("optimizer=sgd,moments=bf16", HR_STEP_PART);
    CHECK(hr_graph_find(g, "layers.0.weight.sum") != HR_NONE);
    CHECK(hr_graph_find(g, "layers.0.weight.velocity") == HR_NONE);
    hr_graph_destroy(g);
    g = step_of("optimizer=sgd", HR_STEP_PART);
    CHECK(hr_graph_find(g, "layers.0.weight.sum") == HR_NONE);
    hr_graph_destroy(g);
}
