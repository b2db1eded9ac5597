/* A convolution of few channels and stride 2 as one of stride 1 over more channels: see gpu_fold.h. */
#include "device/cuda/gpu_fold.h"

#include <stdio.h>
#include "device/cuda/gpu_product.h"

HRI_CU(fold);
HRI_CU(folded);

enum { THREADS = 256, LEAST = 3, MOST = 4, WINDOW = 7, ENGINE = 32 << 20 };
/* Of folded.cu, as it has them; BLOCKS: what a Hopper GPU holds at once. */
enum {
    WARPS = 6,
    PIECE = 18,
    SIDE = 7,
    DOWN = 4,
    TAPS = 4,
    CHANNELS = 16,
    WIDE = 64,
    APART = 72,
    BLOCKS = 264
};

/* As folded.cu has it. */
typedef struct folded {
    int64_t items;
    int32_t h, w, o, p, q, pieces, across;
} folded;

static uint64_t image_bytes(const hri_gpu_conv *y) {
    return hri_gpu_aligned((uint64_t)(y->n * y->h * y->w * y->c) * hr_type_bytes(y->type));
}

static uint64_t weights_bytes(const hri_gpu_conv *y) {
    return hri_gpu_aligned((uint64_t)(y->kh * y->kw * y->c * y->o) * hr_type_bytes(y->type));
}

/* Where it was seen to be faster, and nowhere else. */
static int is_worth_it(const hri_gpu_conv *x) {
    return x->kind == HRI_GPU_CONV_FORWARD && x->type != HR_TYPE_F16 && x->c >= LEAST &&
           x->c <= MOST && x->kh >= WINDOW && x->kw >= WINDOW && x->o % 64 == 0;
}

int hri_gpu_folds(const hri_gpu_conv *x, hri_gpu_conv *out) {
    if (!is_worth_it(x) || x->stride_h != 2 || x->stride_w != 2 || x->dilation_h != 1 ||
        x->dilation_w != 1 || x->groups != 1 || x->n * x->p * x->q * x->o == 0) {
        return 0;
    }
    const int64_t pack = 16 / (int64_t)hr_type_bytes(x->type);
    hri_gpu_conv y = *x;
    y.kh = (x->kh + 1) / 2, y.kw = (x->kw + 1) / 2;
    y.h = x->p + y.kh - 1, y.w = x->q + y.kw - 1;
    y.c = (4 * x->c + pack - 1) / pack * pack;
    y.stride_h = y.stride_w = 1;
    y.pad_top = y.pad_left = y.pad_bottom = y.pad_right = 0;
    *out = y;
    return image_bytes(&y) + 2 * weights_bytes(&y) + ENGINE <= hri_gpu_conv_limit(x);
}

uint64_t hri_gpu_fold_bytes(const hri_gpu_conv *y) {
    return image_bytes(y) + weights_bytes(y);
}

hr_status hri_gpu_fold(hri_gpu *gpu, const hri_gpu_conv *x, const hri_gpu_conv *y, hr_addr image,
                       hr_addr weights, hr_addr workspace, hr_addr out[2]) {
    char defines[64];
    int32_t h = (int32_t)x->h, w = (int32_t)x->w, h2 = (int32_t)y->h, w2 = (int32_t)y->w;
    int32_t top = (int32_t)x->pad_top, left = (int32_t)x->pad_left, o = (int32_t)x->o;
    int32_t kh = (int32_t)x->kh, kw = (int32_t)x->kw, kw2 = (int32_t)y->kw;
    int64_t pixels = y->n * y->h * y->w, count = y->kh * y->kw * y->c * y->o;
    out[0] = workspace;
    out[1] = workspace + image_bytes(y);
    const hri_gpu_grid grid = {.x = (uint32_t)((pixels + THREADS - 1) / THREADS),
                               .threads = THREADS};
    const hri_gpu_grid small = {.x = (uint32_t)((count + THREADS - 1) / THREADS),
                                .threads = THREADS};
    snprintf(defines, sizeof defines, "-DHR_T=%s -DC=%d -DC2=%d",
             x->type == HR_TYPE_F32 ? "float" : "hr_bf16", (int)x->c, (int)y->c);
    const hr_status status =
        hri_gpu_launch(gpu, &hri_cu_fold, defines, "fold_image", &grid,
                       HRI_GPU_ARGS(&image, &out[0], &pixels, &h, &w, &h2, &w2, &top, &left));
    return status == HR_OK
               ? hri_gpu_launch(gpu, &hri_cu_fold, defines, "fold_weights", &small,
                                HRI_GPU_ARGS(&weights, &out[1], &count, &kh, &kw, &kw2, &o))
               : status;
}

int hri_gpu_folded_is_ours(const hri_gpu *gpu, const hri_gpu_conv *y) {
    return y->type == HR_TYPE_BF16 && y->c == CHANNELS && y->kh == TAPS && y->kw == TAPS &&
           y->o % WIDE == 0 && gpu->dev->major >= 8;
}

hr_status hri_gpu_folded_conv(hri_gpu *gpu, const hri_gpu_conv *y, hr_addr image, hr_addr weights,
                              hr_addr result) {
    const int64_t across = (y->q + 16 * SIDE - 1) / (16 * SIDE);
    const int64_t pieces = (y->p * SIDE + PIECE - 1) / PIECE;
    folded f = {.items = y->n * pieces * across,
                .h = (int32_t)y->h,
                .w = (int32_t)y->w,
                .o = (int32_t)y->o,
                .p = (int32_t)y->p,
                .q = (int32_t)y->q,
                .pieces = (int32_t)pieces,
                .across = (int32_t)across};
    const uint32_t lines = DOWN + TAPS - 1, line = 16 * SIDE + TAPS - 1;
    const hri_gpu_grid grid = {.x = (uint32_t)(f.items < BLOCKS ? f.items : BLOCKS),
                               .y = (uint32_t)(y->o / WIDE),
                               .threads = 32 * WARPS,
                               .shared_bytes = TAPS * TAPS * CHANNELS * APART * 2 +
                                               2 * lines * line * CHANNELS * 2};
    return hri_gpu_launch(gpu, &hri_cu_folded, "", "folded_conv", &grid,
                          HRI_GPU_ARGS(&image, &weights, &result, &f));
}
