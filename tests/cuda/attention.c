/* What is mended behind a library's attention with a mask, whose own results cannot be had without it: the kernel alone. */
#include "desk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

HRI_CU(attention_blind);

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
    CHECK(sums[0] == 0.5 && sums[5] == (double)-1e29f);
    CHECK(isinf(sums[1]) && sums[1] > 0 && isnan(sums[4]));
    CHECK(sums[2] == (double)LOW && sums[3] == (double)LOW);
    free(is), free(sums);
    desk_free(&d, &to), desk_free(&d, &stats), desk_free(&d, &m), desk_free(&d, &values);
    desk_close(&d);
}
