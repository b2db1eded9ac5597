/* Small things that launches of many ops need: names of types in kernel texts, packs of 16 bytes, whole parts. */
#ifndef HRI_OPS_COMMON_GPU_H
#define HRI_OPS_COMMON_GPU_H

#include <stdio.h>
#include "graph/op.h"

/* The type of one element as kernel texts write it. */
static inline const char *hri_gpu_type(hr_type type) {
    static const char *const names[HR_TYPE_COUNT] = {"float",  "hr_bf16", "hr_f16", "hr_i32",
                                                     "hr_i64", "hr_u8",   "hr_i8"};
    return names[type];
}

/* Elements of one access: the largest power of two, at most 16 bytes, that divides `width`.  Values begin at multiples
 * of 16 bytes, so every row of such packs can be read and written whole. */
static inline int hri_gpu_pack(hr_type type, int64_t width) {
    int pack = (int)(16 / hr_type_bytes(type));
    while (pack > 1 && width % pack) {
        pack /= 2;
    }
    return pack;
}

/* The smallest power of two that is not below n, at most `most`. */
static inline int hri_gpu_lanes(int64_t n, int most) {
    int lanes = 1;
    while (lanes < most && lanes < n) {
        lanes *= 2;
    }
    return lanes;
}

static inline int64_t hri_gpu_up(int64_t n, int64_t by) {
    return (n + by - 1) / by;
}

/* Memory of a call, and whether two such places have bytes in common. */
typedef struct hri_gpu_span {
    hr_addr first, end;
} hri_gpu_span;
static inline hri_gpu_span hri_gpu_span_of(hr_addr at, uint64_t bytes) {
    return (hri_gpu_span){at, at + bytes};
}
static inline int hri_gpu_touch(hri_gpu_span a, hri_gpu_span b) {
    return a.first < b.end && b.first < a.end;
}

/* Bytes of a part of a work space, so that the next one begins where values may. */
static inline uint64_t hri_gpu_whole(uint64_t bytes) {
    return (bytes + 255) / 256 * 256;
}

/* One row of blocks for each of `rows`, which is blockIdx.x; piece blockIdx.z * gridDim.y + blockIdx.y of a row, as a grid
 * has no more than 65,535 in y. */
static inline hri_gpu_grid hri_gpu_rows(int64_t rows, int64_t pieces, uint32_t threads) {
    enum { MOST = 1024 };
    return (hri_gpu_grid){.x = (uint32_t)rows,
                          .y = (uint32_t)(pieces < MOST ? pieces : MOST),
                          .z = (uint32_t)hri_gpu_up(pieces, MOST),
                          .threads = threads};
}

#endif
