/* See gpu_patches.h. */
#include "device/cuda/gpu_patches.h"

#include <stdio.h>
#include "device/cuda/gpu_product.h"

HRI_CU(patches);

/* THREADS and EACH as patches.cu has them. */
enum { THREADS = 256, EACH = 4, MOST = 4, ROWS = 48 };

/* As patches.cu has it. */
typedef struct patches {
    uint32_t kh, q, run, apart;
} patches;

/* Numbers of a patch, and from one to the next. */
static int64_t patch_of(const hri_gpu_conv *x) {
    return x->kh * x->kw * x->c;
}

static int64_t apart_of(const hri_gpu_conv *x) {
    const int64_t pack = 16 / (int64_t)hr_type_bytes(x->type);
    return (patch_of(x) + pack - 1) / pack * pack;
}

static uint64_t patches_bytes(const hri_gpu_conv *x) {
    return hri_gpu_aligned((uint64_t)(x->n * x->p * x->q * apart_of(x)) * hr_type_bytes(x->type));
}

/* Few channels leave most of a library's tiles empty.  With many the copy costs more than it gains: windows of 2 x 2 over 96 channels take
 * 48 us by cuDNN on an H200, 128 images of 56 x 56, and 72 so. */
static int is_worth_it(const hri_gpu_conv *x) {
    return x->c <= MOST && patch_of(x) >= ROWS;
}

int hri_gpu_is_patches(const hri_gpu_conv *x) {
    return x->groups == 1 && x->dilation_h == 1 && x->dilation_w == 1 && x->stride_h == x->kh &&
           x->stride_w == x->kw && !x->pad_top && !x->pad_left && !x->pad_bottom && !x->pad_right &&
           x->h == x->p * x->kh && x->w == x->q * x->kw && is_worth_it(x) &&
           x->n * x->p * x->q * x->o * x->c > 0 &&
           patches_bytes(x) + HRI_GPU_LIMIT_MATMUL <= hri_gpu_conv_limit(x);
}

/* The product of the patches: y (patches, O), dx (patches, window) or dw (window, O). */
static hri_gpu_matmul product_of(const hri_gpu_conv *x) {
    const int64_t rows = x->n * x->p * x->q, patch = patch_of(x), apart = apart_of(x);
    hri_gpu_matmul y = {.a_type = x->type, .b_type = x->type, .y_type = x->type, .batch = 1};
    switch ((hri_gpu_conv_kind)x->kind) {
    case HRI_GPU_CONV_FORWARD: /* patches w */
        y.m = rows, y.n = x->o, y.k = patch;
        y.lda = apart, y.ldb = x->o, y.ldy = x->o;
        break;
    case HRI_GPU_CONV_INPUT: /* dy w^T */
        y.m = rows, y.n = patch, y.k = x->o, y.tb = 1;
        y.lda = x->o, y.ldb = x->o, y.ldy = apart;
        break;
    case HRI_GPU_CONV_WEIGHT: /* patches^T dy */
        y.m = patch, y.n = x->o, y.k = rows, y.ta = 1, y.y_type = x->w_type;
        y.lda = apart, y.ldb = x->o, y.ldy = x->o;
        break;
    }
    return y;
}

uint64_t hri_gpu_patches_bytes(hri_gpu *gpu, const hri_gpu_conv *x, uint64_t limit) {
    const hri_gpu_matmul y = product_of(x);
    const uint64_t all = patches_bytes(x), rest = limit > all ? limit - all : 0;
    return all + hri_gpu_matmul_workspace(
                     gpu, &y, rest < HRI_GPU_LIMIT_MATMUL ? rest : HRI_GPU_LIMIT_MATMUL);
}

/* Between pictures and patches. */
static hr_status move(hri_gpu *gpu, const hri_gpu_conv *x, const char *kernel, hr_addr from,
                      hr_addr to) {
    static const char *const elements[] = {"hr_u16", "hr_u32", "hr_u64", "hr_u128"};
    const int64_t bytes = (int64_t)hr_type_bytes(x->type), run = x->kw * x->c * bytes;
    int64_t wide = 16;
    while (run % wide || (int64_t)((from | to) % (uint64_t)wide)) {
        wide /= 2;
    }
    int64_t count = x->n * x->h * x->w * x->c * bytes / wide;
    patches g = {.kh = (uint32_t)x->kh,
                 .q = (uint32_t)x->q,
                 .run = (uint32_t)(run / wide),
                 .apart = (uint32_t)(apart_of(x) * bytes / wide)};
    const hri_gpu_grid grid = {.x = (uint32_t)((count + THREADS * EACH - 1) / (THREADS * EACH)),
                               .threads = THREADS};
    char defines[64];
    snprintf(defines, sizeof defines, "-DHR_E=%s -DHR_INDEX=%s",
             elements[__builtin_ctz((unsigned)wide) - 1], count < INT32_MAX ? "hr_u32" : "hr_u64");
    return hri_gpu_launch(gpu, &hri_cu_patches, defines, kernel, &grid,
                          HRI_GPU_ARGS(&from, &to, &count, &g)); /* a u32 reads the low half */
}

hr_status hri_gpu_patches_run(hri_gpu *gpu, const hri_gpu_conv *x, hr_addr first, hr_addr second,
                              hr_addr result, hr_addr workspace, uint64_t workspace_bytes) {
    const hri_gpu_matmul y = product_of(x);
    const uint64_t all = patches_bytes(x);
    if (workspace_bytes < all) {
        return HR_E_UNSUPPORTED;
    }
    const hr_addr rest = workspace + all;
    const uint64_t rest_bytes = workspace_bytes - all;
    if (x->kind == HRI_GPU_CONV_INPUT) {
        const hr_status status =
            hri_gpu_matmul_run(gpu, &y, first, second, 0, workspace, rest, rest_bytes);
        return status == HR_OK ? move(gpu, x, "from_patches", workspace, result) : status;
    }
    const hr_status status = move(gpu, x, "to_patches", first, workspace);
    return status == HR_OK
               ? hri_gpu_matmul_run(gpu, &y, workspace, second, 0, result, rest, rest_bytes)
               : status;
}
