/* The launches of stem.cu: see gpu_stem.h. */
#include "device/cuda/gpu_stem.h"

#include <stdio.h>

HRI_CU(stem);

/* THREADS, PIXELS and WIDE as stem.cu has them; PARTS: what a Hopper GPU holds at once, and the same on all. */
enum { THREADS = 256, PIXELS = 56, WIDE = 64, PARTS = 264, MOST = 4, WINDOW = 7, ROWS = 160 };

/* As stem.cu has it. */
typedef struct stem {
    int64_t items, each;
    int32_t h, w, o, p, q, pieces, top, left;
} stem;

int hri_gpu_is_stem(const hri_gpu *gpu, const hri_gpu_conv *x) {
    return x->kind == HRI_GPU_CONV_WEIGHT && x->groups == 1 && x->dilation_h == 1 &&
           x->dilation_w == 1 && x->c <= MOST && x->kh >= WINDOW && x->kw >= WINDOW &&
           x->kh * x->kw * x->c <= ROWS && x->stride_h <= 2 && x->stride_w <= 2 &&
           x->o % WIDE == 0 && x->n * x->p * x->q * x->o * x->c > 0 &&
           !(x->type == HR_TYPE_F32 && gpu->options.exact_f32) && gpu->dev->major >= 8;
}

static stem stem_of(const hri_gpu_conv *x, int64_t *parts) {
    stem s = {.h = (int32_t)x->h,
              .w = (int32_t)x->w,
              .o = (int32_t)x->o,
              .p = (int32_t)x->p,
              .q = (int32_t)x->q,
              .pieces = (int32_t)((x->q + PIXELS - 1) / PIXELS),
              .top = (int32_t)x->pad_top,
              .left = (int32_t)x->pad_left};
    s.items = x->n * x->p * s.pieces;
    s.each = (s.items + PARTS - 1) / PARTS;
    *parts = (s.items + s.each - 1) / s.each;
    return s;
}

uint64_t hri_gpu_stem_bytes(const hri_gpu_conv *x) {
    int64_t parts;
    stem_of(x, &parts);
    return (uint64_t)(parts * x->kh * x->kw * x->c * x->o) * sizeof(float);
}

static const char *name_of(hr_type type) {
    return type == HR_TYPE_F32 ? "float" : type == HR_TYPE_BF16 ? "hr_bf16" : "hr_f16";
}

hr_status hri_gpu_stem_weight(hri_gpu *gpu, const hri_gpu_conv *x, hr_addr image, hr_addr dy,
                              hr_addr dw, hr_addr workspace) {
    char defines[128];
    int64_t parts;
    stem s = stem_of(x, &parts);
    int32_t count = (int32_t)(x->kh * x->kw * x->c * x->o), added = (int32_t)parts;
    const hri_gpu_grid grid = {
        .x = (uint32_t)(x->o / WIDE), .y = (uint32_t)parts, .threads = THREADS};
    const hri_gpu_grid join = {.x = (uint32_t)((count + THREADS - 1) / THREADS),
                               .threads = THREADS};
    snprintf(defines, sizeof defines, "-DHR_T=%s -DHR_Y=%s -DC=%d -DKH=%d -DKW=%d -DSH=%d -DSW=%d",
             name_of(x->type), name_of(x->w_type), (int)x->c, (int)x->kh, (int)x->kw,
             (int)x->stride_h, (int)x->stride_w);
    const hr_status status = hri_gpu_launch(gpu, &hri_cu_stem, defines, "stem_weight", &grid,
                                            HRI_GPU_ARGS(&image, &dy, &workspace, &s));
    return status == HR_OK ? hri_gpu_launch(gpu, &hri_cu_stem, defines, "stem_join", &join,
                                            HRI_GPU_ARGS(&workspace, &dw, &count, &added))
                           : status;
}
