/* A convolution whose windows lie side by side is a product of sorted patches: the same sums, and its gradients likewise. */
#include "kernel_rig.h"

#include <string.h>

#include "device/cuda/gpu_patches.h"
#include "device/cuda/gpu_product.h"

enum { A = 0, B = 128 << 10, ONE = 384 << 10, TWO = 512 << 10, WORK = 640 << 10, ALL = ROOM };

typedef struct problem {
    hr_type type, w_type;
    int64_t n, p, q, c, o, kh, kw;
} problem;

static hri_gpu_conv conv_of(const problem *p, hri_gpu_conv_kind kind) {
    return (hri_gpu_conv){.kind = (uint8_t)kind,
                          .type = p->type,
                          .w_type = kind == HRI_GPU_CONV_WEIGHT ? p->w_type : p->type,
                          .n = p->n,
                          .h = p->p * p->kh,
                          .w = p->q * p->kw,
                          .c = p->c,
                          .o = p->o,
                          .p = p->p,
                          .q = p->q,
                          .kh = p->kh,
                          .kw = p->kw,
                          .stride_h = p->kh,
                          .stride_w = p->kw,
                          .dilation_h = 1,
                          .dilation_w = 1,
                          .groups = 1};
}

/* Operands and result of a kind, in elements. */
static void sizes_of(const hri_gpu_conv *x, int64_t out[3]) {
    const int64_t images = x->n * x->h * x->w * x->c, results = x->n * x->p * x->q * x->o;
    const int64_t weights = x->kh * x->kw * x->c * x->o;
    const int weight = x->kind == HRI_GPU_CONV_WEIGHT, input = x->kind == HRI_GPU_CONV_INPUT;
    out[0] = input ? results : images;
    out[1] = weight ? results : weights;
    out[2] = weight ? weights : input ? images : results;
}

static void compare(bench *b, const problem *p, hri_gpu_conv_kind kind) {
    static unsigned char bytes[ALL];
    const hri_gpu_conv x = conv_of(p, kind);
    const hr_addr base = b->block.addr;
    const size_t size = hr_type_bytes(p->type);
    int64_t count[3];
    uint64_t state = test_seed();
    sizes_of(&x, count);
    const size_t result = (size_t)count[2] * hr_type_bytes(x.w_type);
    CHECK(hri_gpu_is_patches(&x));
    CHECK_LE((size_t)count[0] * size, (size_t)(B - A));
    CHECK_LE((size_t)count[1] * size, (size_t)(ONE - B));
    CHECK_LE(result, (size_t)(TWO - ONE - 1));
    const uint64_t need = hri_gpu_patches_bytes(b->gpu, &x, hri_gpu_conv_limit(&x));
    CHECK_LE(need, (uint64_t)(ALL - WORK));
    memset(bytes, 0xff, sizeof bytes);
    put_numbers(bytes + A, p->type, count[0], &state);
    put_numbers(bytes + B, p->type, count[1], &state);
    bench_put(b, bytes, ALL);
    CHECK_OK(hri_gpu_own_conv(b->gpu, &x, base + A, base + B, base + ONE, base + WORK, ALL - WORK));
    CHECK_OK(hri_gpu_patches_run(b->gpu, &x, base + A, base + B, base + TWO, base + WORK, need));
    bench_get(b, bytes, ALL);
    CHECK(!memcmp(bytes + ONE, bytes + TWO, result));
    CHECK(bytes[ONE] != 0xff || bytes[ONE + 1] != 0xff);
    CHECK(bytes[TWO + result] == 0xff);
    CHECK_STATUS(hri_gpu_patches_run(b->gpu, &x, base + A, base + B, base + TWO, base + WORK, 16),
                 HR_E_UNSUPPORTED);
}

TEST_TIMEOUT(patches, give_the_sums_of_the_convolution, 300) {
    static const problem problems[] = {
        {HR_TYPE_BF16, HR_TYPE_BF16, 2, 2, 3, 3, 24, 16, 16}, /* runs of 96 bytes */
        {HR_TYPE_BF16, HR_TYPE_F32, 1, 3, 2, 3, 8, 14, 14},   /* of 84, in rows of 588 of 592 */
        {HR_TYPE_F16, HR_TYPE_F16, 2, 1, 4, 1, 9, 13, 11},    /* of 22, in rows of 143 of 144 */
        {HR_TYPE_F32, HR_TYPE_F32, 3, 2, 1, 3, 7, 8, 8},
        {HR_TYPE_F32, HR_TYPE_F32, 1, 2, 5, 1, 5, 43, 3}, /* rows of 129 of 132 */
        {HR_TYPE_BF16, HR_TYPE_BF16, 1, 1, 1, 4, 16, 4, 8},
        {HR_TYPE_BF16, HR_TYPE_BF16, 2, 3, 2, 3, 8, 4,
         4}, /* of 24, as networks of convolutions begin */
    };
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        compare(&b, &problems[i], HRI_GPU_CONV_FORWARD);
        compare(&b, &problems[i], HRI_GPU_CONV_INPUT);
        compare(&b, &problems[i], HRI_GPU_CONV_WEIGHT);
    }
    bench_close(&b);
}

TEST(patches, are_for_windows_side_by_side_on_few_channels) {
    const problem first = {HR_TYPE_BF16, HR_TYPE_BF16, 128, 14, 14, 3, 768, 16, 16};
    const hri_gpu_conv x = conv_of(&first, HRI_GPU_CONV_FORWARD);
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    CHECK(hri_gpu_is_patches(&x));
    const uint64_t need = hri_gpu_conv_workspace(b.gpu, &x, hri_gpu_conv_limit(&x));
    CHECK_LE((uint64_t)128 * 224 * 224 * 3 * 2, need);
    CHECK_LE(need, (uint64_t)128 * 224 * 224 * 3 * 2 + HRI_GPU_LIMIT_MATMUL);
    hri_gpu_conv other = x;
    other.stride_w = 8;
    CHECK(!hri_gpu_is_patches(&other));
    other = x, other.h = 225; /* a row of pixels is in no window */
    CHECK(!hri_gpu_is_patches(&other));
    other = x, other.pad_bottom = 16, other.p = 15;
    CHECK(!hri_gpu_is_patches(&other));
    other = x, other.pad_top = 16, other.p = 15;
    CHECK(!hri_gpu_is_patches(&other));
    other = x, other.dilation_h = 2;
    CHECK(!hri_gpu_is_patches(&other));
    other = x, other.groups = 3;
    CHECK(!hri_gpu_is_patches(&other));
    other = x, other.c = 5;
    CHECK(!hri_gpu_is_patches(&other));
    other = x, other.n = 0;
    CHECK(!hri_gpu_is_patches(&other));
    const problem small = {HR_TYPE_BF16, HR_TYPE_BF16, 128, 56, 56, 3, 96, 4, 4};
    other = conv_of(&small, HRI_GPU_CONV_FORWARD);
    CHECK(hri_gpu_is_patches(&other));
    const problem tiny = {HR_TYPE_BF16, HR_TYPE_BF16, 128, 112, 112, 3, 96, 2, 2};
    other = conv_of(&tiny, HRI_GPU_CONV_FORWARD);
    CHECK(!hri_gpu_is_patches(&other));
    const problem many = {HR_TYPE_F32, HR_TYPE_F32, 4096, 14, 14, 3, 64, 16, 16};
    other = conv_of(&many, HRI_GPU_CONV_FORWARD); /* more than work space may take */
    CHECK(!hri_gpu_is_patches(&other));
    bench_close(&b);
}
