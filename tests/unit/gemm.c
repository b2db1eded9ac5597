/* The products of gemm.h against a loop: every kind of edge, in place and by way of scratch, for any number of threads. */
#include "ops/common/gemm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

static float number(int64_t i) {
    return (float)((i * 7919) % 1009) / 512.0f - 1.0f;
}

static void *must(size_t bytes) {
    void *p = malloc(bytes);
    CHECK(p != NULL);
    return p;
}

/* The product by `threads` threads to c. */
static void run(hri_gemm g, uint32_t threads, float *c) {
    hri_threads *pool;
    CHECK(hri_threads_create(threads, &pool) == HR_OK);
    void *workspace = must(hri_gemm_workspace(g.batch, g.m, g.n, g.k, threads) + 64);
    g.c = c;
    hri_gemm_run(&g, pool, workspace);
    free(workspace);
    hri_threads_destroy(pool);
}

/* Where row i begins, as gemm.h has it by itself: with it, tiles go by way of scratch. */
static int64_t row(const hri_gemm *g, int64_t batch, int64_t i) {
    return (batch * g->m + i) * g->n;
}

static void check(int64_t batch, int64_t m, int64_t n, int64_t k, int biased) {
    const size_t count = (size_t)(batch * m * n), guard = 64;
    float *a = must((size_t)(batch * m * k + 1) * sizeof *a),
          *bias = must((size_t)n * sizeof *bias);
    float *b = must((size_t)(batch * k * n + 1) * sizeof *b);
    float *c[3];
    for (int64_t i = 0; i < batch * m * k; i++) {
        a[i] = number(i);
    }
    for (int64_t i = 0; i < batch * k * n; i++) {
        b[i] = number(i + 31);
    }
    for (int64_t i = 0; i < n; i++) {
        bias[i] = number(i + 5);
    }
    hri_gemm g = {.batch = batch,
                  .m = m,
                  .n = n,
                  .k = k,
                  .pack_a = hri_pack_a,
                  .pack_b = hri_pack_b,
                  .c_type = HR_TYPE_F32,
                  .bias = biased ? bias : NULL,
                  .bias_type = HR_TYPE_F32,
                  .a = a,
                  .b = b,
                  .a_type = HR_TYPE_F32,
                  .b_type = HR_TYPE_F32,
                  .lda = k,
                  .ldb = n,
                  .a_step = m * k,
                  .b_step = k * n};
    for (int i = 0; i < 3; i++) {
        c[i] = must((count + guard) * sizeof **c);
        for (size_t j = 0; j < count + guard; j++) {
            c[i][j] = 77.0f;
        }
        g.row = i == 2 ? row : NULL;
        run(g, i == 1 ? 3 : 1, c[i]);
    }
    double most = 0.0;
    for (int64_t z = 0; z < batch; z++) {
        for (int64_t i = 0; i < m; i++) {
            for (int64_t j = 0; j < n; j++) {
                double sum = biased ? (double)bias[j] : 0.0;
                for (int64_t q = 0; q < k; q++) {
                    sum += (double)a[(z * m + i) * k + q] * (double)b[(z * k + q) * n + j];
                }
                const double error = fabs(sum - (double)c[0][(z * m + i) * n + j]);
                most = error > most ? error : most;
            }
        }
    }
    CHECK(most <= 1e-6 * (double)(k + 1));
    CHECK(memcmp(c[0], c[1], count * sizeof **c) == 0); /* other threads */
    CHECK(memcmp(c[0], c[2], count * sizeof **c) == 0); /* not in place */
    for (size_t j = count; j < count + guard; j++) {
        CHECK(c[0][j] == 77.0f && c[1][j] == 77.0f);
    }
    for (int i = 0; i < 3; i++) {
        free(c[i]);
    }
    free(a);
    free(b);
    free(bias);
}

TEST(gemm, edges_are_those_of_a_loop) {
    static const int64_t sizes[] = {1, 3, 8, 12, 15, 17, 31, 33, 40};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            check(1, sizes[i], sizes[j], 5, (int)(i + j) % 2);
        }
    }
    check(1, 9, 13, 0, 1);
    check(3, 11, 20, 7, 1);
}

TEST(gemm, groups_of_tiles_and_blocks_of_the_depth_are_those_of_a_loop) {
    check(1, 1100, 40, 20, 1);
    check(1, 700, 28, 300, 0);
    check(1, 135, 400, 260, 1);
    check(20, 130, 14, 33, 1);
    check(1, 9, 14, 2100, 1);
    check(1, 300, 20, 2100, 1); /* groups of tiles in each part of the depth */
}
