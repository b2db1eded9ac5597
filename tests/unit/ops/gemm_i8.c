/* Products of bytes: every kernel that runs on this machine against a loop over i32, to the last bit. */
#include "ops/common/gemm_i8.h"

#include <stdlib.h>
#include <string.h>

#include "ops/common/requantize.h"
#include "test.h"

enum { M_MAX = 40, N_MAX = 70, K_MAX = 4608 };

typedef struct product {
    int64_t m, n, k;
    uint8_t a[M_MAX * K_MAX];
    int8_t b[N_MAX * K_MAX];
    float scale[N_MAX], bias[N_MAX];
    uint8_t c[M_MAX * N_MAX];
    float real[M_MAX * N_MAX];
} product;

static product p;

static void fill(int64_t m, int64_t n, int64_t k, int extreme) {
    uint64_t state = test_seed() ^ (uint64_t)(m * 7919 + n * 131 + k);
    p.m = m;
    p.n = n;
    p.k = k;
    for (int64_t i = 0; i < m * k; i++) {
        p.a[i] = (uint8_t)(extreme ? 255 : test_random(&state) >> 13);
    }
    for (int64_t i = 0; i < n * k; i++) {
        p.b[i] = (int8_t)(extreme ? -128 : (int)(test_random(&state) >> 13 & 255) - 128);
    }
    for (int64_t j = 0; j < n; j++) {
        p.scale[j] = 0.001f + (float)(test_random(&state) % 1000) * 1e-5f;
        p.bias[j] = (float)(test_random(&state) % 2000) * 0.01f - 10.0f;
    }
}

static int32_t sum_of(int64_t i, int64_t j, int turned, int32_t zero) {
    int32_t sum = 0;
    for (int64_t k = 0; k < p.k; k++) {
        sum += (p.a[i * p.k + k] - zero) * p.b[turned ? j * p.k + k : k * p.n + j];
    }
    return sum;
}

/* One product with every kernel, as bytes and as f32. */
static void check(int turned, int32_t zero, int32_t c_zero, int relu, uint32_t threads) {
    hri_threads *pool = NULL;
    CHECK_OK(hri_threads_create(threads, &pool));
    void *room = malloc(hri_gemm_i8_workspace(p.m, p.n, p.k, 0, threads));
    const float by = 0.02f, c_scale = 0.05f * (float)p.k;
    for (size_t kernel = 0; hri_i8_kernel_at(kernel); kernel++) {
        hri_gemm_i8 g = {.m = p.m,
                         .n = p.n,
                         .k = p.k,
                         .a = p.a,
                         .b = p.b,
                         .b_turned = turned,
                         .scale = p.scale,
                         .bias = p.bias,
                         .a_scale = by,
                         .a_zero = zero,
                         .c_scale = c_scale,
                         .c_zero = c_zero,
                         .relu = relu,
                         .c = p.c};
        hri_gemm_i8_with(&g, hri_i8_kernel_at(kernel), pool, room);
        g.c = NULL;
        g.real = p.real;
        hri_gemm_i8_with(&g, hri_i8_kernel_at(kernel), pool, room);
        for (int64_t i = 0; i < p.m; i++) {
            for (int64_t j = 0; j < p.n; j++) {
                const float unit = by * p.scale[j];
                const int32_t sum = sum_of(i, j, turned, zero);
                const int32_t whole = sum + hri_quantize_bias(p.bias[j], unit);
                const uint8_t byte =
                    hri_requantize(whole, unit / c_scale, relu ? 0.0f : -(float)c_zero, c_zero);
                const float by_unit = (float)((double)(float)sum * (double)unit);
                const float y = (float)((double)by_unit + (double)p.bias[j]);
                test_count_check();
                if (p.c[i * p.n + j] != byte ||
                    p.real[i * p.n + j] != (relu && !(y > 0.0f) ? 0.0f : y)) {
                    test_fail(__FILE__, __LINE__, "%s: (%lld, %lld) of %lld x %lld x %lld",
                              hri_i8_kernel_at(kernel)->name, (long long)i, (long long)j,
                              (long long)p.m, (long long)p.n, (long long)p.k);
                }
            }
        }
    }
    free(room);
    hri_threads_destroy(pool);
}

TEST(gemm_i8, every_depth_gives_the_sums_of_a_loop) {
    for (int64_t k = 1; k <= 70; k++) {
        fill(1 + k % 29, 1 + k * 3 % 67, k, 0);
        check((int)(k % 2), (int32_t)(k * 37 % 256), (int32_t)(k * 91 % 256), (int)(k / 2 % 2),
              1 + (uint32_t)(k % 3));
    }
}

TEST(gemm_i8, deep_and_extreme_sums_do_not_overflow) {
    fill(13, 33, K_MAX, 0);
    check(0, 0, 128, 0, 2);
    fill(13, 33, K_MAX, 1);
    check(1, 255, 0, 0, 2);
    check(1, 0, 255, 0, 1);
}

TEST(gemm_i8, all_numbers_of_rows_and_columns) {
    for (int64_t m = 1; m <= 26; m++) {
        fill(m, 1 + m * 5 % 66, 12, 0);
        check(0, 7, 200, 0, 2);
    }
}

TEST(gemm_i8, rounding_is_to_the_nearest_even_and_held) {
    CHECK_EQ(hri_requantize(1, 0.5f, -10.0f, 10), 10); /* 0.5 */
    CHECK_EQ(hri_requantize(3, 0.5f, -10.0f, 10), 12); /* 1.5 */
    CHECK_EQ(hri_requantize(-1, 0.5f, -10.0f, 10), 10);
    CHECK_EQ(hri_requantize(-1000, 1.0f, -10.0f, 10), 0);
    CHECK_EQ(hri_requantize(-1000, 1.0f, 0.0f, 10), 10); /* relu */
    CHECK_EQ(hri_requantize(1000, 1.0f, -10.0f, 10), 255);
    CHECK_EQ(hri_quantize(2.5f, 1.0f, 0), 2);
    CHECK_EQ(hri_quantize(-1.0f, 1.0f, 0), 0);
    CHECK_EQ(hri_quantize(1e30f, 1.0f, 0), 255);
}
