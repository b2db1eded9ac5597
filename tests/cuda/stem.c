/* The gradient of the weights of the first convolution by its own kernel is that of the convolution: the same sums. */
#include "kernel_rig.h"

#include <string.h>

#include "device/cuda/gpu_product.h"
#include "device/cuda/gpu_stem.h"

enum { X = 0, DY = 64 << 10, ONE = 256 << 10, TWO = 384 << 10, WORK = 512 << 10, ALL = ROOM };

typedef struct problem {
    hr_type type, w_type;
    int64_t n, h, w, c, o, kh, kw, stride, before, after; /* the last two: padding */
} problem;

static hri_gpu_conv conv_of(const problem *p) {
    return (hri_gpu_conv){.kind = HRI_GPU_CONV_WEIGHT,
                          .type = p->type,
                          .w_type = p->w_type,
                          .n = p->n,
                          .h = p->h,
                          .w = p->w,
                          .c = p->c,
                          .o = p->o,
                          .p = (p->h + p->before + p->after - p->kh) / p->stride + 1,
                          .q = (p->w + p->before + p->after - p->kw) / p->stride + 1,
                          .kh = p->kh,
                          .kw = p->kw,
                          .stride_h = p->stride,
                          .stride_w = p->stride,
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
    const hr_addr base = b->block.addr;
    const int64_t images = x.n * x.h * x.w * x.c, grads = x.n * x.p * x.q * x.o;
    const size_t weights = (size_t)(x.kh * x.kw * x.c * x.o) * hr_type_bytes(x.w_type);
    uint64_t state = test_seed();
    CHECK(hri_gpu_is_stem(b->gpu, &x));
    CHECK_LE((uint64_t)images * hr_type_bytes(p->type), DY - X);
    CHECK_LE((uint64_t)grads * hr_type_bytes(p->type), ONE - DY);
    CHECK_LE(weights, (size_t)(TWO - ONE));
    CHECK_LE(hri_gpu_stem_bytes(&x), ALL - WORK);
    memset(bytes, 0xff, sizeof bytes);
    put_numbers(bytes + X, p->type, images, &state);
    put_numbers(bytes + DY, p->type, grads, &state);
    bench_put(b, bytes, ALL);
    CHECK_OK(
        hri_gpu_own_conv(b->gpu, &x, base + X, base + DY, base + ONE, base + WORK, ALL - WORK));
    CHECK_OK(hri_gpu_stem_weight(b->gpu, &x, base + X, base + DY, base + TWO, base + WORK));
    bench_get(b, bytes, ALL);
    CHECK(!memcmp(bytes + ONE, bytes + TWO, weights));
    CHECK(bytes[ONE] != 0xff || bytes[ONE + 1] != 0xff);
}

TEST_TIMEOUT(stem, gives_the_gradient_of_the_weights, 300) {
    static const problem problems[] = {
        {HR_TYPE_F32, HR_TYPE_F32, 2, 11, 22, 3, 64, 7, 7, 2, 3, 3},
        {HR_TYPE_BF16, HR_TYPE_BF16, 1, 7, 130, 3, 64, 7, 7, 2, 3, 3}, /* a row in two pieces */
        {HR_TYPE_BF16, HR_TYPE_F32, 2, 9, 8, 2, 64, 8, 8, 2, 2, 2},
        {HR_TYPE_F16, HR_TYPE_F16, 1, 12, 11, 1, 64, 8, 9, 1, 0, 0},
        {HR_TYPE_F32, HR_TYPE_F32, 1, 1, 3, 3, 64, 7, 7, 2, 7, 6}, /* windows of padding alone */
        {HR_TYPE_F32, HR_TYPE_F32, 1, 7, 9, 3, 128, 7, 7, 1, 2, 3},
    };
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        compare(&b, &problems[i]);
    }
    bench_close(&b);
}

TEST(stem, is_the_gradient_of_large_windows_on_few_channels) {
    const problem stem = {HR_TYPE_F32, HR_TYPE_F32, 256, 224, 224, 3, 64, 7, 7, 2, 3, 3};
    const hri_gpu_conv x = conv_of(&stem);
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    CHECK(hri_gpu_is_stem(b.gpu, &x));
    CHECK_LE(hri_gpu_stem_bytes(&x), 16u << 20);
    hri_gpu_conv other = x;
    other.kind = HRI_GPU_CONV_FORWARD;
    CHECK(!hri_gpu_is_stem(b.gpu, &other));
    other = x, other.c = 4; /* 196 rows */
    CHECK(!hri_gpu_is_stem(b.gpu, &other));
    other = x, other.o = 96;
    CHECK(!hri_gpu_is_stem(b.gpu, &other));
    other = x, other.kw = 3;
    CHECK(!hri_gpu_is_stem(b.gpu, &other));
    other = x, other.dilation_w = 2;
    CHECK(!hri_gpu_is_stem(b.gpu, &other));
    other = x, other.groups = 3;
    CHECK(!hri_gpu_is_stem(b.gpu, &other));
    other = x, other.n = 0;
    CHECK(!hri_gpu_is_stem(b.gpu, &other));
    bench_close(&b);
}
