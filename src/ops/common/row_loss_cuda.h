/* Cross entropy on a GPU: what the four ops of ops/cuda/cross_entropy.cu share. */
#ifndef HRI_OPS_COMMON_ROW_LOSS_CUDA_H
#define HRI_OPS_COMMON_ROW_LOSS_CUDA_H

#include "ops/common/launch.h"

HRI_CU(cross_entropy);

enum { HRI_ROW_LOSS_THREADS = 256, HRI_ROW_LOSS_FINISH = 1024, HRI_ROW_LOSS_PART = 8192 };

typedef struct hri_row_loss {
    hri_defines defines;
    hri_gpu_grid grid, one; /* a launch over rows; one block over everything */
} hri_row_loss;

/* `x` are the scores, `all` the addresses of everything like x, or-ed. */
static inline hri_row_loss hri_row_loss_of(const hr_meta *x, hr_addr all) {
    const int64_t width = x->shape.dim[x->shape.rank - 1];
    const int64_t rows = width ? hr_shape_count(&x->shape) / width : 0;
    const int lanes = width > 1024 ? HRI_ROW_LOSS_THREADS : width > 16 ? 32 : 1;
    const int wide = lanes > 1 && hri_launch_wide(all);
    hri_row_loss r = {
        .grid = {.x = hri_launch_blocks(rows, HRI_ROW_LOSS_THREADS / lanes),
                 .threads = HRI_ROW_LOSS_THREADS},
        .one = {.x = 1, .threads = HRI_ROW_LOSS_FINISH},
    };
    r.defines = hri_launch_defines("-DHR_T=%s -DHR_V=%d -DHR_LANES=%d", hri_launch_type(x->type),
                                   wide ? (int)(16 / hr_type_bytes(x->type)) : 1, lanes);
    return r;
}

/* Many rows with ids are counted, and their losses added, in parts (cross_entropy.cu, parts_of); 0: all at once. */
typedef struct hri_row_parts {
    hr_addr at; /* a pair of floats for each */
    uint32_t count;
    int64_t each; /* rows of a part */
} hri_row_parts;

static inline hri_row_parts hri_row_parts_of(int64_t rows, hr_addr at) {
    const int64_t parts = hri_launch_min(hri_launch_up(rows, HRI_ROW_LOSS_PART), 256);
    return parts <= 1 ? (hri_row_parts){0}
                      : (hri_row_parts){at, (uint32_t)parts, hri_launch_up(rows, parts)};
}

static inline uint64_t hri_row_parts_bytes(int64_t rows) {
    return hri_row_parts_of(rows, 0).count * 2 * sizeof(float);
}

/* `loss` 0: only counted. */
static inline hr_status hri_row_parts_launch(hri_gpu *gpu, const hri_row_loss *r,
                                             const hri_row_parts *p, hr_addr loss, hr_addr ids,
                                             uint32_t wide, int64_t rows) {
    hr_addr at = p->at;
    int64_t each = p->each;
    return hri_gpu_launch(gpu, &hri_cu_cross_entropy, r->defines.text, "parts_of",
                          &(hri_gpu_grid){.x = p->count, .threads = HRI_ROW_LOSS_FINISH},
                          HRI_GPU_ARGS(&loss, &ids, &wide, &at, &rows, &each));
}

#endif
