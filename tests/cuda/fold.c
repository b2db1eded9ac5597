/* A convolution over what is folded is the convolution: the same sums, by our own kernels. */
#include "kernel_rig.h"

#include <string.h>

#include "device/cuda/gpu_fold.h"
#include "device/cuda/gpu_product.h"

enum { X = 0, W = 128 << 10, ONE = 256 << 10, TWO = 384 << 10, WORK = 512 << 10, ALL = ROOM };

typedef struct problem {
    hr_type type;
    int64_t n, h, w, c, o, kh, kw, before, after; /* the last two: padding */
} problem;

static hri_gpu_conv conv_of(const problem *p) {
    return (hri_gpu_conv){.kind = HRI_GPU_CONV_FORWARD,
                          .type = p->type,
                          .w_type = p->type,
                          .n = p->n,
                          .h = p->h,
                          .w = p->w,
                          .c = p->c,
                          .o = p->o,
                          .p = (p->h + p->before + p->after - p->kh) / 2 + 1,
                          .q = (p->w + p->before + p->after - p->kw) / 2 + 1,
                          .kh = p->kh,
                          .kw = p->kw,
                          .stride_h = 2,
                          .stride_w = 2,
                          .pad_top = p->before,
                          .pad_left = p->before,
                          .pad_bottom = p->after,
                          .pad_right = p->after,
                          .dilation_h = 1,
                          .dilation_w = 1,
                          .groups = 1};
}

static void compare(bench *b, const problem *p) {
    static unsigned char bytes[ALL];
    const hri_gpu_conv x = conv_of(p);
    hri_gpu_conv y;
    uint64_t state = test_seed();
    hr_addr at[2];
    const hr_addr base = b->block.addr;
    const int64_t images = x.n * x.h * x.w * x.c, results = x.n * x.p * x.q * x.o;
    memset(bytes, 0xff, sizeof bytes);
    put_numbers(bytes + X, p->type, images, &state);
    put_numbers(bytes + W, p->type, x.kh * x.kw * x.c * x.o, &state);
    CHECK(hri_gpu_folds(&x, &y));
    CHECK_LE(hri_gpu_fold_bytes(&y), (uint64_t)(ALL - WORK) / 2);
    bench_put(b, bytes, ALL);
    CHECK_OK(hri_gpu_own_conv(b->gpu, &x, base + X, base + W, base + ONE, base + WORK, ALL - WORK));
    CHECK_OK(hri_gpu_fold(b->gpu, &x, &y, base + X, base + W, base + WORK, at));
    const uint64_t used = hri_gpu_fold_bytes(&y);
    CHECK_OK(hri_gpu_own_conv(b->gpu, &y, at[0], at[1], base + TWO, base + WORK + used,
                              ALL - WORK - used));
    bench_get(b, bytes, ALL);
    CHECK(!memcmp(bytes + ONE, bytes + TWO, (size_t)results * hr_type_bytes(p->type)));
    CHECK(results > 0);
    if (!hri_gpu_folded_is_ours(b->gpu, &y)) {
        return;
    }
    memset(bytes + TWO, 0xff, WORK - TWO);
    bench_put(b, bytes, ALL);
    CHECK_OK(hri_gpu_fold(b->gpu, &x, &y, base + X, base + W, base + WORK, at));
    CHECK_OK(hri_gpu_folded_conv(b->gpu, &y, at[0], at[1], base + TWO));
    bench_get(b, bytes, ALL);
    CHECK(!memcmp(bytes + ONE, bytes + TWO, (size_t)results * hr_type_bytes(p->type)));
    CHECK(bytes[TWO + (size_t)results * hr_type_bytes(p->type)] == 0xff);
}

TEST_TIMEOUT(fold, gives_the_sums_of_the_convolution, 300) {
    static const problem problems[] = {
        {HR_TYPE_BF16, 2, 17, 20, 3, 64, 7, 7, 3, 3},
        {HR_TYPE_BF16, 1, 9, 8, 4, 64, 8, 8, 2, 2},
        {HR_TYPE_BF16, 3, 12, 11, 3, 64, 7, 7, 0, 0},
        {HR_TYPE_BF16, 2, 13, 10, 3, 64, 7, 9, 2, 3}, /* as TensorFlow's "same" */
        {HR_TYPE_BF16, 1, 1, 3, 4, 64, 7, 8, 7, 6},   /* windows of padding alone */
        {HR_TYPE_BF16, 1, 10, 9, 4, 128, 8, 7, 5, 0},
        {HR_TYPE_BF16, 1, 9, 241, 3, 64, 7, 7, 3, 3}, /* two pieces across, three down */
        {HR_TYPE_F32, 1, 17, 20, 3, 64, 7, 7, 3, 3},
        {HR_TYPE_F32, 1, 10, 9, 4, 64, 8, 7, 5, 0},
    };
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        compare(&b, &problems[i]);
    }
    bench_close(&b);
}

TEST(fold, is_for_few_channels_and_stride_2) {
    const problem stem = {HR_TYPE_BF16, 256, 224, 224, 3, 64, 7, 7, 3, 3};
    hri_gpu_conv x = conv_of(&stem), y;
    CHECK(hri_gpu_folds(&x, &y));
    CHECK(y.h == 115 && y.w == 115 && y.c == 16 && y.kh == 4 && y.stride_h == 1 && !y.pad_top);
    hri_gpu_conv other = x;
    other.c = 5;
    CHECK(!hri_gpu_folds(&other, &y));
    other = x, other.kw = 3;
    CHECK(!hri_gpu_folds(&other, &y));
    other = x, other.stride_w = 1;
    CHECK(!hri_gpu_folds(&other, &y));
    other = x, other.kind = HRI_GPU_CONV_WEIGHT;
    CHECK(!hri_gpu_folds(&other, &y));
    other = x, other.type = HR_TYPE_F32;
    CHECK(hri_gpu_folds(&other, &y) && y.c == 12);
    other = x, other.type = HR_TYPE_F16;
    CHECK(!hri_gpu_folds(&other, &y));
    other = x, other.dilation_h = 2;
    CHECK(!hri_gpu_folds(&other, &y));
    other = x, other.groups = 3;
    CHECK(!hri_gpu_folds(&other, &y));
    other = x, other.n = 0;
    CHECK(!hri_gpu_folds(&other, &y));
}
