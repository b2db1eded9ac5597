/* How batch norm cuts its rows, and the two operations that forward and backward must do alike. */
#ifndef HRI_OPS_COMMON_BATCH_NORM_PARTS_H
#define HRI_OPS_COMMON_BATCH_NORM_PARTS_H

#include <math.h>
#ifdef __aarch64__
#include <arm_neon.h>
#endif

#include "ops/common/blocks.h"

enum { HRI_BN_TILE = 16, HRI_BN_ROWS = 64, HRI_BN_PARTS = 64 };

typedef struct hri_bn_parts {
    int64_t rows, channels;
    int64_t parts, part_rows;
} hri_bn_parts;

static inline hri_bn_parts hri_bn_parts_of(const hr_shape *x) {
    hri_bn_parts p = {.channels = x->rank ? x->dim[x->rank - 1] : 0};
    const int64_t count = hr_shape_count(x);
    p.rows = p.channels ? count / p.channels : 0;
    const int64_t least = hri_max64(HRI_BN_ROWS, 32768 / (p.channels + 1));
    p.parts = hri_min64(HRI_BN_PARTS, (p.rows + least - 1) / least);
    p.parts = hri_max64(p.parts, 1);
    p.part_rows = hri_max64((p.rows + p.parts - 1) / p.parts, 1);
    p.parts = (p.rows + p.part_rows - 1) / p.part_rows; /* none of them empty */
    return p;
}

/* A block of rows, HRI_BN_TILE channels wide: where it lies, or a copy in the room filled up with zeros. */
typedef struct hri_bn_tile {
    const float *at;
    int64_t stride;
} hri_bn_tile;

static inline hri_bn_tile hri_bn_tile_in(hr_type type, const void *data, int64_t at, int64_t stride,
                                         int64_t rows, int64_t width, float *room) {
    if (type == HR_TYPE_F32 && width == HRI_BN_TILE) {
        return (hri_bn_tile){(const float *)data + at, stride};
    }
    for (int64_t i = 0; i < rows; i++) {
        float *to = room + i * HRI_BN_TILE;
        const float *from = hri_block_in(type, data, at + i * stride, width, to);
        for (int64_t k = 0; k < HRI_BN_TILE; k++) {
            to[k] = k < width ? from[k] : 0.0f;
        }
    }
    return (hri_bn_tile){room, HRI_BN_TILE};
}

/* The same rounding in every loop, so that the sign can be found again: the compiler is not left the choice.  Levels of
 * x86-64 round as one without multiply-adds does. */
#if defined(__FP_FAST_FMAF) && !defined(HRI_LEVEL)
#define HRI_BN_FUSED
#endif

static inline float hri_bn_at(float x, float a, float b) {
#ifdef HRI_BN_FUSED
    return fmaf(x, a, b);
#else
    return x * a + b;
#endif
}

static inline hri_vec hri_bn_at_vec(hri_vec x, hri_vec a, hri_vec b) {
#ifdef __aarch64__
    return (hri_vec)vfmaq_f32((float32x4_t)b, (float32x4_t)x, (float32x4_t)a);
#elif !defined(HRI_BN_FUSED)
    return x * a + b;
#else
    hri_vec y;
    for (int k = 0; k < HRI_VEC; k++) {
        y[k] = hri_bn_at(x[k], a[k], b[k]);
    }
    return y;
#endif
}

typedef struct hri_bn_line {
    float a, b;
} hri_bn_line;

static inline hri_bn_line hri_bn_line_of(float gamma, float beta, float mean, float inv) {
    hri_bn_line line = {.a = gamma * inv};
    line.b = hri_bn_at(-mean, line.a, beta);
    return line;
}

#endif
